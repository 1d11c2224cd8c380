//! Upstreams: other servers with an HTTP API of Ollama or OpenAI. This daemon serves their models as its own.
//!
//! - [`BaseUrl`] and [`ServerKind`] describe a server; [`UpstreamClient`] sends requests to it, with deadlines and limits.
//! - [`Upstream`] is the state of one server: its models, its health, its circuit [`breaker`], its open requests, and the
//!   prefixes of conversations that its KV cache probably has ([`affinity`]).
//! - [`Call`] is one request for an answer. [`route`] chooses its upstream. Until the first token it is repeated at another
//!   upstream if one fails; afterwards never, because the client has seen a part of the answer.
//! - The frames of a stream are passed on as the bytes that arrived ([`Delivery`]), with what they mean beside them.
//!
//! **Invariants:** an API key is sent to its own scheme, host and port only, and redirects are never followed. Dropping a
//! [`Call`] closes its connection. A text of [`Failure`] or [`CallError`] does not have the host of the remote's URL; only
//! [`Failure::detail`] may have it. A server's own error text may have other addresses of the server.
//! Contents of prompts and answers are never logged. This crate computes no answers.
#![forbid(unsafe_code)]

pub mod affinity;
mod base_url;
pub mod breaker;
mod byte_channel;
mod call;
mod client;
mod connections;
mod counters;
mod detect;
mod failure;
mod frames;
mod models;
mod openai;
mod reading;
mod request;
pub mod route;
mod server_kind;
mod tool_calls;
mod translation;
mod upstream;
mod whole;

pub use affinity::Prefix;
pub use base_url::{BaseUrl, UrlError};
pub use byte_channel::{ByteReceiver, ByteSender, ByteSize, byte_channel};
pub use call::{Call, CallError, Delivery, Plan, Target};
pub use client::{Deadlines, HttpClients, RemoteKey, UpstreamClient};
pub use counters::Counts;
pub use detect::{Detected, detect};
pub use failure::Failure;
pub use models::{ListedModel, MAX_MODELS};
pub use reading::Piece;
pub use request::{Endpoint, Request};
pub use server_kind::ServerKind;
pub use translation::TranslationError;
pub use upstream::{Health, Upstream};

//! The runtime: which models are loaded, and what they compute next.
//!
//! [`Engine`] loads models, keeps them for as long as they are wanted and hands out [`Lease`]s. Each loaded model has one
//! [`scheduler`] thread that puts the rows of several requests into one batch, samples, and sends text through a bounded
//! channel. Dropping the receiving end cancels a request.
//!
//! **Invariant:** nothing here knows HTTP, file stores or chats; a request is token ids in and text out.
#![forbid(unsafe_code)]

mod config;
mod engine;
mod errand;
mod error;
mod full;
mod keep_alive;
mod loaded;
mod logprobs;
mod random;
mod request;
mod sampler;
mod scheduler;
mod sequence;
mod usage;

pub use cairn_kv::{Because, Recomputed, Whose};
pub use config::{EngineConfig, Kept, LoadOptions, ModelId, Source, UnknownKvType, kv_type};
pub use engine::{Engine, Lease, Loaded};
pub use errand::Held;
pub use error::LoadError;
pub use full::{Full, WhenFull};
pub use keep_alive::KeepAlive;
pub use loaded::Device;
pub use request::{
    Event, Finish, FinishReason, GenerateError, IMPOSSIBLE, Likely, Logprob, Recalls, Request, Sampling, Spent, Text,
};
pub use usage::{BOUNDS, Histogram, Usage};

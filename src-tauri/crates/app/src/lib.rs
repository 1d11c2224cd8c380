//! What the daemon does for its clients, whatever protocol they use: chat, generate, list, show, search, pull, push,
//! import, create, copy, delete, unload, and the upkeep of libraries.
//!
//! [`App`] composes one handle for each area. An area uses only areas that come before it in this list:
//!
//! | module | owns |
//! |---|---|
//! | [`settings`] | what the user set, where it was set, and changes at run time |
//! | [`library`] | models on this machine |
//! | [`transfers`] | pull, push, mirror, sign-in and trusted peers |
//! | [`remotes`] | other servers with models that this daemon serves |
//! | [`tools`] | tools that models may call, and their permissions |
//! | [`cache`] | the tiers of cached prefixes |
//! | [`inference`] | loading, prompts, answers |
//! | [`documents`] | the text of documents that clients attach |
//! | [`collections`] | stored documents, and searches in them by words and by meaning |
//! | [`chats`] | stored chats and their answers |
//! | [`system`] | hardware, loaded models, metrics |
//! | [`keys`] | API keys and what they allow |
//! | [`secret`] | random secrets and their digests |
//!
//! **Invariants:** nothing here names a transport or its status codes. Prompts and answers are never logged. A request
//! for something that this version cannot do is refused, not silently half-answered.
#![forbid(unsafe_code)]

mod app;
pub mod cache;
pub mod chats;
mod clock;
pub mod collections;
mod create;
pub mod documents;
mod error;
pub mod inference;
pub mod keys;
pub mod library;
mod live_settings;
pub mod panics;
mod private_file;
pub mod remotes;
pub mod secret;
pub mod settings;
mod short_name;
pub mod speed;
pub mod system;
pub mod tools;
pub mod transfers;
mod upkeep;
mod values;
mod version;

pub use app::{App, Describe};
pub use cairn_upstream::{ByteReceiver, byte_channel};
pub use clock::Clock;
pub use create::CreateEvent;
pub use error::Error;
pub use version::VERSION;

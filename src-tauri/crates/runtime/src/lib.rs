//! The runtime: loads and unloads models, and schedules requests over them.
//!
//! [`Engine`] loads models on demand and hands out [`Lease`]s. Each loaded model has one [`scheduler`] thread that puts the rows
//! of several requests into one batch, samples, and sends text through a bounded channel. Dropping a [`Generation`] cancels it.
//! An embedding model has an [`embedder`] thread instead, which computes the vectors of texts.
//!
//! **Invariant:** this crate does not depend on HTTP, file stores or chats. A request is token ids and pixels in, and text out.
#![forbid(unsafe_code)]

mod adapters;
mod client;
mod command;
mod config;
mod constraint;
mod context_full;
mod embedder;
mod embedding;
mod encoder;
mod engine;
mod error;
mod generation;
mod importance;
mod input;
mod input_encoder;
mod keep_alive;
mod loaded;
mod logprobs;
mod masks;
mod metrics;
mod model_thread;
mod model_use;
mod not_finite;
mod picture;
mod pixel_memory;
mod prompt_progress;
mod queue;
mod random;
mod request;
mod sampler;
mod scheduler;
mod scoped_content;
mod sequence;
mod tiled;
mod tower;
mod wake;

pub use adapters::AdapterSource;
pub use cairn_kv::{CacheScope, RecomputeReason, RecomputedTokens};
pub use cairn_models::{
    EmbeddingOutput, PicturePrompt, PictureSize, Pooling, TowerHparams, is_embedding_model, is_encoder, translated,
};
pub use cairn_tensor::AdapterUse;
pub use cairn_tensor::cpu::ProductRates;
pub use client::{Client, Priority};
pub use config::{
    CacheTiers, EngineConfig, LoadOptions, LoadTimeouts, ModelId, Projector, Source, UnknownKvType, parse_kv_type,
};
pub use constraint::{Constrained, ThinkingTags};
pub use context_full::{ContextFull, ContextFullPolicy};
pub use embedding::EmbedText;
pub use engine::{Engine, Lease, ModelStatus, PrefixLookup, RatesError, TypeRates, kernel_names};
pub use error::LoadError;
pub use generation::Generation;
pub use importance::ImportanceRun;
pub use keep_alive::KeepAlive;
pub use loaded::Device;
pub use metrics::{HISTOGRAM_BOUNDS, Histogram, ModelMetrics, ModelSpeed};
pub use picture::{FIRST_PICTURE, PromptPicture, pictures_in, remove_cut_pictures};
pub use pixel_memory::{PIXEL_MEMORY_BYTES, PictureError};
pub use prompt_progress::{PromptProgress, PromptTokens};
pub use request::{
    Delta, Displaced, Event, Finish, FinishReason, GenerateError, Logprob, MAX_ANSWER_CONTEXTS, MIN_LOGPROB, NotFinite,
    Request, RestoreUsage, Sampling, TokenLogprob, Usage,
};
pub use tower::check_vision;

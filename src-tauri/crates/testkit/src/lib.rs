//! What tests are made with: models of random weights, a disk that fails, a registry that lies and a real one, a stock
//! client.
//!
//! Models are GGUF files that are written from a seed.
//!
//! A [`ModelSpec`] says the shape, the types and the seed; [`write`] and [`write_file`] make the file, the same bytes on
//! every machine. The files carry the metadata keys and tensor names of llama.cpp's own, and a small byte-level
//! vocabulary with a chat template, so that the peer loads them too.
//!
//! Weights are scaled so that logits spread and greedy tokens vary from one position to the next: see [`embedding`].

pub mod allocation;
pub mod distribution;
pub mod embedding;
pub mod families;
pub mod hostile;
pub mod hub;
#[cfg(unix)]
pub mod ollama_client;
pub mod presets;
pub mod random;
pub mod registry;
pub mod spec;
pub mod toy;
pub mod vocabulary;
pub mod weights;

mod chunk_files;
mod faulty_disk;
mod file;
mod hooked_disk;
mod split;
mod token_server;

pub use chunk_files::chunk_files;
pub use families::Family;
pub use faulty_disk::FaultyDisk;
pub use file::{metadata, write, write_file, write_sparse};
pub use hooked_disk::{Change, HookedDisk};
pub use presets::{huge_llama, llama1b_shape, qwen06b_shape, slow_llama, tiny, tiny_llama, tiny_qwen3};
pub use random::Random;
pub use spec::{ModelSpec, RopeScaling, Types};
pub use split::split;
pub use token_server::TokenServer;

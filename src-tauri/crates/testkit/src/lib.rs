//! Test fixtures: models with random weights, a failing disk, a faulty registry and a real one, another server of models, and a client that
//! behaves like Ollama's.
//!
//! Models are GGUF files generated from a seed.
//!
//! A [`ModelSpec`] defines shape, types and seed. [`write`] and [`write_file`] create the file, with the same bytes on
//! every machine. The files have llama.cpp's metadata keys and tensor names, and a small byte-level vocabulary with a
//! chat template, so llama.cpp can load them.
//!
//! Weights are scaled so that logits are distinct and greedy tokens vary between positions: see [`embedding`].

pub mod allocation;
pub mod checkpoint;
pub mod distribution;
pub mod documents;
pub mod embedding;
pub mod families;
pub mod hash_backend;
pub mod hostile;
pub mod hub;
#[cfg(unix)]
pub mod ollama_client;
pub mod ollama_layout;
pub mod presets;
pub mod random;
pub mod registry;
pub mod spec;
pub mod tower;
pub mod upstream;
pub mod vocabulary;
pub mod weights;

mod chunk_files;
mod faulty_disk;
mod file;
mod hooked_disk;
mod scripted;
mod split;
mod token_server;
mod word_pieces;

pub use chunk_files::chunk_files;
pub use faulty_disk::FaultyDisk;
pub use file::{metadata, write, write_file, write_sparse};
pub use hooked_disk::{DiskOperation, HookedDisk};
pub use presets::{
    huge_llama, llama1b_shape, qwen3moe_2b_shape, qwen06b_shape, qwen35_08b_shape, slow_llama, tiny, tiny_bert,
    tiny_llama, tiny_qwen3, tiny_t5,
};
pub use random::Random;
pub use scripted::{CALLER_ANSWER, CALLER_RESULT, Script, scripted, tool_caller};
pub use spec::{Family, ModelSpec, RopeScaling, Types};
pub use split::split;
pub use token_server::TokenServer;

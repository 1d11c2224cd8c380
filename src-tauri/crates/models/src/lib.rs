//! Model files and the model families that convert them to plans.
//!
//! [`ModelFile`] maps a GGUF file, translates the head of one in Ollama's layout (`compat`), and detects changes of the
//! file. [`load`] selects the family by the metadata, uploads the weights to a backend, which uses them in place, and
//! returns the [`Plan`](cairn_tensor::Plan) of its forward pass. [`memory_requirements`] computes the memory before
//! loading, [`check_head`] also from the beginning of a file, and [`required_tensors`] the tensors that metadata require.
//!
//! [`load_with_adapters`] adds LoRA [`Adapter`]s, which each sequence can use with its own factor.
//!
//! A vision tower, in a separate file or in the model's, becomes a plan of its own: see [`vision`].
//!
//! A new family of decoders is one file in `arch/` and one line in [`arch::ARCHITECTURES`], or a name in the list of a family with
//! the same computation; one of encoders is a file in `encoder/` and a line in [`encoder::ENCODERS`], and one with an encoder and a
//! decoder is a file in `encoder_decoder/` and a line in [`encoder_decoder::ENCODER_DECODERS`].

pub mod adapter;
mod adapter_error;
pub mod arch;
mod block;
mod build;
mod compat;
mod embedding;
pub mod encoder;
pub mod encoder_decoder;
pub mod error;
pub mod file;
mod hparams;
pub mod load;
mod mapping;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod tiny;
pub mod vision;

pub use adapter::Adapter;
pub use adapter_error::{AdapterError, MAX_ADAPTERS};
pub use arch::{ARCHITECTURES, Architecture, EncoderDecoder};
pub use build::{Builder, RequiredTensor};
pub use cairn_gguf::Pooling;
pub use compat::{translate, translated};
pub use embedding::EmbeddingOutput;
pub use encoder::{ENCODERS, is_embedding_model, is_encoder};
pub use encoder_decoder::{ENCODER_DECODERS, Encoder, decoder_position};
pub use error::{FileChangedError, LoadError, OpenError, TensorFault};
pub use file::ModelFile;
pub use hparams::{Hparams, NormKind};
pub use load::{
    MemoryRequirements, Model, check_adapters, check_head, load, load_encoder, load_with_adapters, memory_requirements,
    required_tensors,
};
pub use vision::{Grid, PictureLayout, PicturePrompt, PictureSize, Tiles, Tower, TowerHparams};

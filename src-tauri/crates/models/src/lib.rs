//! Models: their files, mapped and watched, and the families that turn them into plans.
//!
//! [`ModelFile`] maps a GGUF file and keeps watch over it; [`load`] finds the family that its metadata names, uploads the
//! weights to a backend, where they are used in place, and returns the [`Plan`](cairn_tensor::Plan) of its forward pass.
//! [`need`] says beforehand how much memory that takes, and [`tensors`] which tensors a model of some metadata must have.
//!
//! A new family is one file in `arch/` and one line in [`arch::ALL`].

pub mod arch;
mod block;
mod build;
pub mod error;
pub mod file;
mod hparams;
pub mod load;
mod mapping;
#[cfg(test)]
mod tiny;

pub use arch::{ALL, Architecture};
pub use block::NormKind;
pub use build::{Builder, Required};
pub use error::{LoadError, OpenError, TensorFault, Vanished};
pub use file::ModelFile;
pub use hparams::Hparams;
pub use load::{Model, Need, load, need, tensors};

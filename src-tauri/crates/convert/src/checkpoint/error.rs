//! Errors of a conversion.

use std::borrow::Cow;

use cairn_gguf::{DType, WriteError};

use crate::FileType;

/// Why a checkpoint cannot be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The checkpoint lacks a file.
    #[error("{name} is missing; a model in safetensors files needs it beside the weights")]
    Missing {
        /// Name of the file.
        name: &'static str,
    },
    /// A file cannot be read.
    #[error("{}: {reason}", .name.escape_debug())]
    File {
        /// Name of the file.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The family is not supported.
    #[error(
        "unsupported architecture {name:?}; safetensors files of {} can be converted. Convert others to GGUF first \
         (llama.cpp's convert_hf_to_gguf.py does), or pull a GGUF version of the model (`cairn search` finds some)",
        .supported.join(", ")
    )]
    Architecture {
        /// The architecture.
        name: String,
        /// All supported ones.
        supported: Vec<&'static str>,
    },
    /// The model needs an unsupported feature.
    #[error("{what} is not supported")]
    Unsupported {
        /// The feature.
        what: String,
    },
    /// The files have no tensors of the model.
    #[error("the files have no tensors of the model")]
    NoTensors,
    /// A tensor that the family does not have. Without it, the answers would be wrong.
    #[error(
        "tensor `{}` is not part of a {family} model; pull a GGUF version of the model, or convert it with llama.cpp's \
         convert_hf_to_gguf.py", .name.escape_debug()
    )]
    UnknownTensor {
        /// Name of the tensor.
        name: String,
        /// Name of the family in GGUF.
        family: &'static str,
    },
    /// A vision tower lacks a tensor that its config declares.
    #[error(
        "tensor `{}` of the vision tower is missing, which vision_config declares; download all files of the model again",
        .name.escape_debug()
    )]
    MissingTensor {
        /// Name of the tensor in checkpoints.
        name: String,
    },
    /// A tensor has another shape than the config declares.
    #[error("tensor `{}` has the shape {have:?}, but {reason}", .name.escape_debug())]
    Shape {
        /// Name of the tensor.
        name: String,
        /// Its shape, rows first.
        have: Vec<u64>,
        /// The reason.
        reason: String,
    },
    /// A tensor has a type that no weights have.
    #[error("tensor `{}` has no numbers of the type F32, F16, BF16 or F8_E4M3", .name.escape_debug())]
    Type {
        /// Name of the tensor.
        name: String,
    },
    /// The type has too few bits to be useful without an importance matrix.
    #[error("{target} needs an importance matrix; convert the checkpoint to F16 first, then quantize that model")]
    NeedsImportance {
        /// The target.
        target: FileType,
    },
    /// Adapters of a family that is not supported.
    #[error(
        "adapters in safetensors files cannot be converted for models of the architecture {name:?}; those for {} can. \
         Convert the adapter to GGUF first (llama.cpp's convert_lora_to_gguf.py does)", .supported.join(", ")
    )]
    AdapterFamily {
        /// `general.architecture` of the base.
        name: String,
        /// All supported ones.
        supported: Vec<&'static str>,
    },
    /// An adapter that is more than pairs of matrices.
    #[error("an adapter with {what} is not supported; merge the adapter into its base model, and convert that model")]
    AdapterFeature {
        /// The feature.
        what: String,
    },
    /// An adapter of another model.
    #[error("the adapter does not fit the base model: {reason}{}", made_for(.base.as_deref()))]
    AdapterBase {
        /// The reason.
        reason: String,
        /// Name of the base model that the adapter was trained with.
        base: Option<String>,
    },
    /// Invalid metadata.
    #[error(transparent)]
    Metadata(#[from] cairn_gguf::Error),
    /// A tensor cannot be written to the new file.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A value is infinite or NaN.
    #[error("tensor `{}` has values that are not finite numbers", .name.escape_debug())]
    NotFinite {
        /// Name of the tensor.
        name: String,
    },
    /// A value is too large for the type.
    #[error("tensor `{}` has values that are too large for {dtype}", .name.escape_debug())]
    TooLarge {
        /// Name of the tensor.
        name: String,
        /// Type of the tensor in the new file.
        dtype: DType,
    },
}

/// Longest reason or feature in characters. Files contain parts of both, and anyone can write them.
const MAX_TEXT: usize = 600;

/// Returns the end of the error of an adapter of another model.
fn made_for(base: Option<&str>) -> String {
    base.map_or_else(String::new, |base| format!("; use it with its base model {:?}", cairn_wire::excerpt(base)))
}

/// Creates the error of an invalid file.
pub(super) fn invalid(name: &str, reason: impl Into<String>) -> ConvertError {
    ConvertError::File { name: name.to_owned(), reason: limited(reason.into()) }
}

/// Creates the error of an unsupported feature.
pub(super) fn unsupported(what: impl Into<String>) -> ConvertError {
    ConvertError::Unsupported { what: limited(what.into()) }
}

/// Creates the error of an adapter's unsupported feature.
pub(super) fn adapter_feature(what: impl Into<String>) -> ConvertError {
    ConvertError::AdapterFeature { what: limited(what.into()) }
}

fn limited(text: String) -> String {
    match cairn_wire::beginning(&text, MAX_TEXT) {
        Cow::Borrowed(_) => text,
        Cow::Owned(beginning) => beginning,
    }
}

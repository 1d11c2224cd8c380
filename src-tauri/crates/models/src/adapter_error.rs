//! Errors of adapters.

/// Most adapters of one model.
pub const MAX_ADAPTERS: usize = 16;

/// End of the names of the first matrices.
pub(crate) const A: &str = ".lora_a";
/// End of the names of the second matrices.
pub(crate) const B: &str = ".lora_b";

/// Why an adapter cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AdapterError {
    /// The file is not an adapter.
    #[error("the file is not a LoRA adapter: `{key}` must be \"{need}\"")]
    Kind {
        /// The metadata key.
        key: &'static str,
        /// Its value in adapters.
        need: &'static str,
    },
    /// Invalid metadata.
    #[error(transparent)]
    Metadata(#[from] cairn_gguf::Error),
    /// The alpha is not finite.
    #[error("the adapter's `adapter.lora.alpha` is {alpha}, which is not a finite number")]
    Alpha {
        /// The value.
        alpha: f32,
    },
    /// Another model family.
    #[error(
        "the adapter is for models of the architecture {adapter:?}, this model is {model:?}; use it with its base model"
    )]
    Architecture {
        /// `general.architecture` of the adapter.
        adapter: String,
        /// That of the model.
        model: String,
    },
    /// A tensor that is neither of a pair.
    #[error("the adapter's tensor `{}` is not part of a pair `NAME{A}` and `NAME{B}`", .name.escape_debug())]
    Unpaired {
        /// Name of the tensor.
        name: String,
    },
    /// The adapter has no tensors.
    #[error("the adapter has no tensors")]
    Empty,
    /// Tensors of a wrong shape or type.
    #[error("the adapter's tensors for `{}` do not fit: {why}", .name.escape_debug())]
    Shape {
        /// Name of the changed matrix.
        name: String,
        /// The reason.
        why: String,
    },
    /// A matrix that the model does not have or that cannot be adapted.
    #[error("the adapter changes `{}`, {why}", .name.escape_debug())]
    Target {
        /// Name of the matrix.
        name: String,
        /// The reason.
        why: &'static str,
    },
    /// Too many adapters.
    #[error("a model can have {MAX_ADAPTERS} adapters, not {count}")]
    Count {
        /// Number of adapters.
        count: usize,
    },
}

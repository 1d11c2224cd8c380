//! Errors of loading a model.

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be opened, or is not a GGUF file.
    #[error(transparent)]
    File(Box<cairn_models::OpenError>),
    /// The file is not a supported model.
    #[error(transparent)]
    Model(#[from] cairn_models::LoadError),
    /// The vocabulary is invalid.
    #[error("tokenizer: {0}")]
    Tokenizer(#[from] cairn_tokenizer::Error),
    /// The backend rejected the model.
    #[error(transparent)]
    Backend(#[from] cairn_tensor::BackendError),
    /// The model does not fit into memory.
    #[error("the model needs {} of memory and {} are free; load it all the same with --force", gib(*.need_bytes), gib(*.have_bytes))]
    TooBig {
        /// Size of weights, KV cache and working memory.
        need_bytes: u64,
        /// Available memory.
        have_bytes: u64,
    },
    /// Too many requests wait.
    #[error("server busy, please try again.  maximum pending requests exceeded")]
    Busy,
    /// The loads before this one took too long.
    #[error("the server is busy: other models took more than {} s to load or to complete their answers; try again later", .0.as_secs())]
    Timeout(std::time::Duration),
    /// A thread could not be started.
    #[error("the system refused a thread: {0}")]
    Thread(std::io::Error),
    /// The engine is shutting down.
    #[error("the server is shutting down")]
    Closing,
    /// The load panicked.
    #[error("internal error: the load was aborted; see the log")]
    Panicked,
}

impl LoadError {
    /// The architecture, if no family has it.
    pub fn unknown_architecture(&self) -> Option<&str> {
        match self {
            Self::Model(cairn_models::LoadError::UnknownArchitecture { name, .. }) => Some(name),
            _ => None,
        }
    }
}

impl From<cairn_models::OpenError> for LoadError {
    fn from(error: cairn_models::OpenError) -> Self {
        Self::File(Box::new(error))
    }
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

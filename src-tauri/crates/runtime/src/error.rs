//! Why a model could not be loaded.

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be opened, or is no GGUF.
    #[error(transparent)]
    File(Box<cairn_models::OpenError>),
    /// The file is no model that we run.
    #[error(transparent)]
    Model(#[from] cairn_models::LoadError),
    /// Its vocabulary cannot be used.
    #[error("tokenizer: {0}")]
    Tokenizer(#[from] cairn_tokenizer::Error),
    /// The backend refused.
    #[error(transparent)]
    Backend(#[from] cairn_tensor::BackendError),
    /// It would not fit.
    #[error("the model needs {} of memory and {} are free; load it all the same with --force", gib(*.need_bytes), gib(*.have_bytes))]
    TooBig {
        /// Weights and working memory.
        need_bytes: u64,
        /// Memory that is available now.
        have_bytes: u64,
    },
    /// Too many requests wait.
    #[error("server busy, please try again.  maximum pending requests exceeded")]
    Busy,
    /// No thread could be started.
    #[error("the system refused a thread: {0}")]
    Thread(std::io::Error),
    /// The engine is shutting down.
    #[error("the server is shutting down")]
    Closing,
    /// The load itself broke off.
    #[error("loading the model failed unexpectedly; the log says more")]
    Panicked,
}

impl From<cairn_models::OpenError> for LoadError {
    fn from(error: cairn_models::OpenError) -> Self {
        Self::File(Box::new(error))
    }
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

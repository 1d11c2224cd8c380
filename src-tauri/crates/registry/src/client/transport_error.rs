//! Errors of the set-up of a transport.

use std::path::PathBuf;

/// Invalid settings of a transport.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The file of additional certificates is unusable.
    #[error("cannot use the certificates in {}: {reason}", path.display())]
    ExtraCa {
        /// The file.
        path: PathBuf,
        /// Why the file cannot be used.
        reason: String,
    },
    /// The address of a proxy is invalid. It is not shown, because it may contain a password.
    #[error("the address of the {kind} proxy is not a valid URL: {reason}")]
    Proxy {
        /// The scheme that the proxy is for.
        kind: &'static str,
        /// Why the address is not a valid URL.
        reason: String,
    },
    /// The HTTP client cannot be created.
    #[error("cannot create the HTTP client: {0}")]
    Client(String),
}

/// The root cause of an error. The outer errors only repeat the URL, whose query may contain a signature that must not be
/// logged.
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

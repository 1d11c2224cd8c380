//! Errors of managing remotes.

use std::path::PathBuf;

use cairn_disk::DiskError;
use cairn_upstream::{Failure, UrlError};

use super::limits::MAX_REMOTES;
use crate::short_name::MAX_NAME_BYTES;

/// Why an operation on remotes failed. Only clients of `/app` see these errors, so they may have addresses.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is empty, too long, begins with another character than a letter or digit, or has others than those, `.`, `-` and
    /// `_`.
    #[error(
        "{0:?} is not a valid name of a remote; use 1 to {MAX_NAME_BYTES} letters, digits, '.', '-' or '_', and begin with a \
         letter or digit"
    )]
    Name(String),
    /// Another remote has the name.
    #[error("cannot add the remote: {0:?} already exists; remove it or choose another name")]
    Taken(String),
    /// No remote has the name.
    #[error("no remote is named {0:?}; `cairn remote list` lists the remotes")]
    NotFound(String),
    /// There are as many remotes as are allowed.
    #[error("cannot add the remote: the limit of {MAX_REMOTES} remotes is reached; remove one first")]
    TooMany,
    /// The address is invalid.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The address is that of this daemon.
    #[error("cannot add {0}: it is this daemon, and its models are listed already; give the address of another server")]
    OwnUrl(String),
    /// The key cannot be sent in a header.
    #[error("the API key is empty, too long, or has characters other than visible ASCII ones")]
    Key,
    /// The key would be sent unencrypted to another machine.
    #[error("{0} would get the API key unencrypted; use https://, or allow it with --insecure")]
    PlainKey(String),
    /// The server does not list its models.
    #[error("cannot add {url}: {}; is it the address of a Cairn, Ollama, vLLM, SGLang or llama-server?", failure.detail())]
    NoServer {
        /// The address.
        url: String,
        /// The cause.
        failure: Failure,
    },
    /// The network settings prevent connections.
    #[error("cannot connect to remotes: {0}")]
    Network(String),
    /// The file of the remotes cannot be read, so it is not overwritten.
    #[error("cannot read the remotes in {}: {reason}; no remote is used until the file is repaired or removed", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The file of the remotes cannot be written.
    #[error("cannot store the remotes: {0}")]
    Unwritten(#[from] DiskError),
    /// The local models cannot be listed.
    #[error(transparent)]
    Library(#[from] crate::library::Error),
}

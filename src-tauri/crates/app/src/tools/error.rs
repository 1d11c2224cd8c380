//! Errors of managing tools.

use std::path::PathBuf;

use cairn_disk::DiskError;
use cairn_mcp::{ConfigError, FolderError, ImportError, TooManyPermissions};

use super::limits::{MAX_FILE_BYTES, MAX_SERVERS};

/// Why an operation on tools failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A text with servers is invalid.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The name belongs to a tool of this program.
    #[error("{0:?} is the name of a tool of this program; choose another name")]
    Reserved(String),
    /// Another server has the name.
    #[error("cannot add the server: {0:?} already exists; remove it or choose another name")]
    Taken(String),
    /// No server has the name.
    #[error("no server of tools is named {0:?}")]
    NotFound(String),
    /// The server has no such tool.
    #[error("{origin} has no tool {tool:?}")]
    NoTool {
        /// Name of the server.
        origin: String,
        /// Name of the tool.
        tool: String,
    },
    /// The server is off.
    #[error("{0} is off; turn it on first")]
    Off(String),
    /// There are as many servers as are allowed.
    #[error("cannot add the server: the limit of {MAX_SERVERS} servers is reached; remove one first")]
    TooMany,
    /// The servers are too long.
    #[error("cannot store the servers: together they have more than {MAX_FILE_BYTES} bytes")]
    TooLarge,
    /// There are too many permissions.
    #[error(transparent)]
    Permissions(#[from] TooManyPermissions),
    /// The folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A server failed.
    #[error(transparent)]
    Server(#[from] cairn_mcp::Error),
    /// The network settings prevent connections.
    #[error("cannot connect to servers of tools: {0}")]
    Network(String),
    /// The file of the tools cannot be read, so it is not overwritten.
    #[error("cannot read the tools in {}: {reason}; no tool is used until the file is repaired or removed", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The file of the tools cannot be written.
    #[error("cannot store the tools: {0}")]
    Unwritten(#[from] DiskError),
}

//! Why a value of a setting is refused.

use std::path::PathBuf;

/// Why a value of a setting is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingProblem {
    /// No setting has this key.
    #[error("unknown setting")]
    Unknown,
    /// This variable or flag of the running daemon overrides `config.toml`.
    #[error("{0} is set for the running daemon, which overrides config.toml")]
    Overridden(&'static str),
    /// The value is not a boolean.
    #[error("must be true or false")]
    NeedsBool,
    /// The value is not an integer, or is negative.
    #[error("must be a whole number, 0 or more")]
    NeedsNumber,
    /// The value is not a size.
    #[error("must be a number of bytes, for example 20G")]
    NeedsSize,
    /// The value is none of these words.
    #[error("must be one of {}", .0.join(", "))]
    NeedsChoice(&'static [&'static str]),
    /// The value is not text.
    #[error("must be text")]
    NeedsText,
    /// The text has control characters.
    #[error("must be one line of text")]
    NeedsLine,
    /// The path is relative.
    #[error("must be an absolute path")]
    NeedsPath,
    /// The text is not the address of a server.
    #[error("must be host:port, with a port up to 65535")]
    NeedsAddress,
    /// `config.toml` has an item of another type at this key.
    #[error("{0}")]
    ItemType(String),
    /// The text cannot be parsed.
    #[error("invalid value for: {about}")]
    Unparsed {
        /// Description of the setting.
        about: &'static str,
    },
    /// The text exceeds this many bytes.
    #[error("must not be longer than {0} bytes")]
    TooLong(usize),
    /// The number exceeds this limit.
    #[error("must be at most {0}")]
    TooLarge(usize),
    /// The size is out of this range.
    #[error("must be from {min_bytes} to {max_bytes} bytes{}", if *.or_zero { ", or 0" } else { "" })]
    SizeOutOfRange {
        /// Smallest size except 0.
        min_bytes: u64,
        /// Largest size.
        max_bytes: u64,
        /// Whether 0 is valid.
        or_zero: bool,
    },
    /// The daemon cannot listen on this address.
    #[error("cannot listen on {address}: {reason}")]
    AddressUnusable {
        /// The address, `host:port`.
        address: String,
        /// The system's error.
        reason: String,
    },
    /// There is no file at this path.
    #[error("the file {} does not exist", .0.display())]
    NoFile(PathBuf),
    /// The path of a folder is a file.
    #[error("{} is a file, not a folder", .0.display())]
    NotFolder(PathBuf),
    /// The cache cannot use this folder.
    #[error("cannot use {} for the cache: {reason}", path.display())]
    FolderUnusable {
        /// The folder.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// This machine cannot run the kernel variant of this name.
    #[error("this machine has no kernel variant {0}; see /app/hardware for all variants")]
    NoKernel(String),
    /// `config.toml` has a value where the group of this name belongs.
    #[error("config.toml has a value {0} where the group [{0}] belongs")]
    GroupExpected(String),
}

//! Tools of servers with the Model Context Protocol, which other programs offer to models.
//!
//! - [`ServerConfig`] describes a server: a program, or a URL. [`parse_servers`] reads the JSON that other apps use.
//! - [`Server`] starts with its first request, lists its [`Tool`]s, calls them, and stops when it is idle.
//! - [`PageFetcher`] and [`FolderReader`] are tools of this program. A [`Toolset`] is one of them or a server.
//! - [`Toolbox`] offers the tools of several origins to a model, as the user's [`Permissions`] allow.
//!
//! **Invariants:** a server is another author's program, so that each of its messages, lists, texts and times has a limit
//! ([`limits`]). A server that ends, hangs or floods is an [`Error`] with the reason; the next request starts it again. A program
//! inherits no secret of the daemon, and ends with all programs that it started when its [`Server`] is dropped. A server can request
//! nothing: neither completions of models, nor folders, nor input of the user. Values of variables and headers are never logged.
//!
//! The protocol: <https://modelcontextprotocol.io/specification>
#![forbid(unsafe_code)]

mod built_in;
mod child;
mod config;
mod error;
mod http;
mod import;
pub mod limits;
mod meter;
mod permission;
mod result;
mod server;
mod session;
mod text;
mod toolbox;
mod tools;
mod toolset;

pub use built_in::{AddressFilter, FolderError, FolderReader, PageFetcher};
pub use child::Surroundings;
pub use config::{ConfigError, Endpoint, MAX_NAME_BYTES, ServerConfig};
pub use error::{Error, LastLines, Task};
pub use import::{ImportError, ImportedServer, MAX_IMPORT_BYTES, MAX_IMPORTED_SERVERS, parse_servers};
pub use meter::Excess;
pub use permission::{MAX_PERMISSIONS, Permission, Permissions, TooManyPermissions};
pub use result::{ToolImage, ToolResult};
pub use server::Server;
pub use session::Launch;
pub use toolbox::{FailedOrigin, MAX_OFFERED_TOOLS, OfferedTool, Toolbox};
pub use tools::{Omission, OmittedTool, Tool, ToolList};
pub use toolset::Toolset;

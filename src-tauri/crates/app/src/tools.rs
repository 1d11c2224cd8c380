//! Tools that models may call in chats: servers of the Model Context Protocol, and two of this program.
//!
//! [`Tools`] is the handle. It stores the servers of this user and the permissions of their tools, and offers the tools to the
//! answers of chats. A server starts with the first use of its tools. Nothing is on until the user adds a server or turns a tool
//! on. The addresses, arguments and variables of servers may be secrets; values of variables and headers leave this area only to
//! the servers.

mod error;
mod handle;
mod limits;
mod manage;
mod store;

pub use error::Error;
pub use handle::Tools;
pub use limits::MAX_SERVERS;
pub use manage::{ListedTool, ServerStatus, ServerTools, ToolsStatus};

pub use cairn_mcp::{
    Endpoint, FolderError, OfferedTool, OmittedTool, Permission, ServerConfig, ToolImage, ToolResult, Toolbox,
};

//! The tools of one origin: a server, or this program itself.

use serde_json::{Map, Value};

use crate::built_in::{FolderReader, PageFetcher};
use crate::error::Error;
use crate::result::ToolResult;
use crate::server::Server;
use crate::tools::ToolList;

/// The tools of one origin. Clones share it.
#[derive(Debug, Clone)]
pub enum Toolset {
    /// A server.
    Server(Server),
    /// Pages of the web.
    Pages(PageFetcher),
    /// Files of one folder.
    Folder(FolderReader),
}

impl Toolset {
    /// Lists the tools. Starts a server that does not run.
    ///
    /// # Errors
    /// If the server cannot be started, or does not list its tools.
    pub async fn tools(&self) -> Result<ToolList, Error> {
        match self {
            Self::Server(server) => server.tools().await,
            Self::Pages(pages) => Ok(pages.tools()),
            Self::Folder(folder) => Ok(folder.tools()),
        }
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// If the server cannot be started, or does not complete the call. A failure that the tool reports is a result.
    pub async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<ToolResult, Error> {
        match self {
            Self::Server(server) => server.call(tool, arguments).await,
            Self::Pages(pages) => Ok(pages.call(tool, &arguments).await),
            Self::Folder(folder) => Ok(folder.call(tool, &arguments).await),
        }
    }
}

//! `/app/tools`: servers of tools (MCP) and tools of this program. Responses never have values of variables and headers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Tools of the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolsResponse {
    /// Servers in the order of their names.
    pub servers: Vec<ToolServer>,
    /// Whether pages of the web may be fetched.
    pub web: bool,
    /// The folder to read files from; `null` if the tool is off.
    pub folder: Option<String>,
}

/// A server of tools, and its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolServer {
    /// Its name.
    pub name: String,
    /// The program, if the server is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Arguments of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Names of the program's variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
    /// The URL without its query, if the server has HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Names of the headers of each request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// Whether its tools are offered to models.
    pub enabled: bool,
    /// Whether it runs or is connected.
    pub running: bool,
}

/// `PATCH /app/tools`: changes the tools of this program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
pub struct ToolsChange {
    /// Whether pages of the web may be fetched; unchanged without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web: Option<bool>,
    /// The folder to read files from, or `null` to turn the tool off; unchanged without it.
    #[serde(deserialize_with = "super::chats::given", skip_serializing_if = "Option::is_none")]
    pub folder: Option<Option<String>>,
}

/// `POST /app/tools/servers`: adds a server, which is a program or has a URL.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct AddToolServerRequest {
    /// Its name: letters, digits, `.`, `-` and `_`.
    pub name: String,
    /// The program: a path, or a name in the `PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Arguments of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables of the program's environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// URL of a server with streamable HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers of each request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// Omits everything that may be a secret.
impl std::fmt::Debug for AddToolServerRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AddToolServerRequest").field("name", &self.name).finish_non_exhaustive()
    }
}

/// `PATCH /app/tools/servers/{name}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct ToolServerChange {
    /// Whether its tools are offered to models.
    pub enabled: bool,
}

/// `POST /app/tools/import`: adds the servers of a text in the JSON of other apps.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct ImportToolsRequest {
    /// The text.
    pub text: String,
}

/// Omits the text, which may have secrets.
impl std::fmt::Debug for ImportToolsRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImportToolsRequest").finish_non_exhaustive()
    }
}

/// Response of `POST /app/tools/import`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportToolsResponse {
    /// Names of the added servers.
    pub names: Vec<String>,
    /// All tools.
    pub tools: ToolsResponse,
}

/// Tools of one origin: of a server, or of this program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OriginTools {
    /// Its tools.
    pub tools: Vec<ListedTool>,
    /// The first of those that are not offered.
    pub omitted: Vec<OmittedTool>,
    /// Number of those that are not offered.
    pub omitted_count: u64,
}

/// A tool and its permission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ListedTool {
    /// Its name at its origin.
    pub name: String,
    /// Description for models.
    pub description: String,
    /// JSON Schema of its arguments.
    pub arguments: Map<String, Value>,
    /// Whether it may be called.
    pub permission: ToolPermission,
}

/// A tool that is not offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OmittedTool {
    /// Its name.
    pub name: String,
    /// The reason.
    pub reason: String,
}

/// Whether a tool may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolPermission {
    /// The user is asked before each call.
    Ask,
    /// It is called without a question, until its server describes it in another way.
    Always,
    /// It is never called, and models do not see it.
    Never,
}

/// `PUT /app/tools/permission`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct ToolPermissionRequest {
    /// Name of the server, or of a tool of this program: `web` or `files-of-folder`.
    pub origin: String,
    /// Name of the tool.
    pub tool: String,
    /// Its permission.
    pub permission: ToolPermission,
}

//! Cairn's own API, `/app`, for its own clients. It requires the daemon token.

mod cache;
pub mod chats;
pub mod collections;
mod desktop;
mod discover;
pub mod documents;
mod downloads;
mod hardware;
mod keys;
mod libraries;
mod logins;
mod mirror;
mod models;
mod remotes;
mod scan;
mod server;
mod session;
mod settings;
mod speed;
mod tools;
mod updates;
mod upkeep;

use serde::{Deserialize, Serialize};

use crate::{KeepAlive, Timestamp};
pub use cache::{
    CacheClear, CacheContext, CacheContexts, CacheDeleted, CacheFsck, CacheHour, CacheLimit, CacheLimits,
    CacheLimitsChange, CacheOwner, CachePrefetched, CacheRecomputed, CacheResponse, CacheTier, CacheTrace,
    CacheTraceRequest, CacheWhich, DamagedChunk, TierName, TierTokens,
};
pub use desktop::{DesktopPlaces, DesktopServer};
pub use discover::{DiscoverResponse, DiscoveredFrom, DiscoveredModel, DiscoveredVariant};
pub use downloads::{
    CapRequest, Download, DownloadChoice, DownloadRequest, DownloadState, DownloadsResponse, ReorderRequest,
    ResumeRequest,
};
pub use hardware::{
    DiskHolds, HardwareCpu, HardwareDisk, HardwareGpu, HardwareKernels, HardwareMemory, HardwareResponse, KernelVariant,
};
pub use keys::{
    CreateKeyRequest, CreateKeyResponse, KeyScope, KeysResponse, ListedKey, RevokeKeyRequest, UnknownScope,
};
pub use libraries::{
    LibrariesResponse, Library, LibraryRole, LibraryState, LibraryUsage, ModelUsage, SkippedFile, UsageResponse,
};
pub use logins::{KnownLogin, LoginRequest, LoginsResponse, LogoutRequest};
pub use mirror::{
    AllowRequest, ForgetRequest, FoundMachine, InviteResponse, JoinMirrorRequest, KnownKey, MirrorClient,
    MirrorResponse,
};
pub use models::{CopyLine, CopyResponse, DeleteResponse, ListedModels};
pub use remotes::{AddRemoteRequest, CheckRemotesRequest, Remote, RemoteState, RemotesResponse, RemoveRemoteRequest};
pub use scan::{FoundModel, FoundState, ScanLine, ScanRequest, ScannedFolder, ScannedModels};
pub use server::{LogResponse, LoggedRequest, ServerClient, ServerResponse};
pub use session::{SessionRequest, SessionResponse, TicketResponse};
pub use settings::{
    CacheTestRequest, CacheTested, Setting, SettingApplies, SettingKind, SettingOrigin, SettingValue, SettingsChange,
    SettingsRefused, SettingsResponse, TestedPlace, WrongSetting,
};
pub use speed::{InstalledSpeed, KernelRate, Speed, SpeedFigure, SpeedsResponse};
pub use tools::{
    AddToolServerRequest, ImportToolsRequest, ImportToolsResponse, ListedTool, OmittedTool, OriginTools,
    ToolPermission, ToolPermissionRequest, ToolServer, ToolServerChange, ToolsChange, ToolsResponse,
};
pub use updates::{ModelUpdate, UpdateState, UpdatesResponse};
pub use upkeep::{
    FlawKind, FlawedContents, GcRequest, GcResponse, LeftoverFile, LeftoverKind, VerifiedModels, VerifyLine,
    VerifyRequest,
};

/// `run/daemon.json`: address and token of the user's daemon. Only this user can read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonFile {
    /// Process id, for information. The lock of the daemon shows whether it runs.
    pub pid: u32,
    /// Start time.
    pub started_at: Timestamp,
    /// Listening addresses, for example `127.0.0.1:11434`; clients use the first.
    pub addresses: Vec<String>,
    /// Version, `x.y.z`.
    pub version: String,
    /// Bearer token of `/app`.
    pub token: String,
}

/// `GET /app/status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "`DaemonFile` documents the fields")]
pub struct StatusResponse {
    pub version: String,
    pub pid: u32,
    pub started_at: Timestamp,
    pub addresses: Vec<String>,
    /// Requests in progress, except this one.
    pub active_requests: u64,
    /// Loaded models.
    pub loaded_models: u64,
}

/// `POST /app/open`: makes a model file available until the daemon stops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct OpenRequest {
    /// Absolute path of a GGUF file.
    pub path: String,
}

/// Response to [`OpenRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenResponse {
    /// Name of the file in `/api`.
    pub model: String,
    /// Whether the file has a chat template.
    #[serde(default)]
    pub chat_template: bool,
}

/// `POST /app/import`: imports a model file into the daemon's library. The response is a stream of [`ImportLine`]s.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct ImportRequest {
    /// Absolute path of a GGUF file.
    pub path: String,
    /// Name of the model; if absent, the name in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Create a hard link and make the file read-only, instead of a copy.
    #[serde(default)]
    pub link: bool,
    /// Remove the file after the import.
    #[serde(default, rename = "move")]
    pub moving: bool,
    /// Replace an existing model of that name.
    #[serde(default)]
    pub force: bool,
}

/// Progress of an import. The last line is [`ImportLine::Success`] or an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
#[expect(missing_docs, reason = "bytes completed and in total")]
pub enum ImportLine {
    /// The digest is computed.
    Hashing { completed: u64, total: u64 },
    /// The file is copied and its digest computed.
    Copying { completed: u64, total: u64 },
    /// The model exists.
    Success(ImportedModel),
}

/// An imported model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedModel {
    /// Name of the model.
    pub model: String,
    /// Bytes of the file.
    pub size: u64,
    /// How the file was imported.
    pub way: ImportWay,
    /// Why the file was copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the file was made read-only, for a hard link.
    #[serde(default)]
    pub made_read_only: bool,
    /// Whether the file was moved.
    #[serde(default)]
    pub moved: bool,
    /// Why the file was not removed although a move was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_reason: Option<String>,
    /// Whether the file has a chat template.
    #[serde(default)]
    pub chat_template: bool,
    /// Why the chat template cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_problem: Option<String>,
}

/// How a file was imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportWay {
    /// The library already had the contents.
    Present,
    /// The file was cloned and shares its disk blocks.
    Reflinked,
    /// The library has a hard link to the file.
    Linked,
    /// The file was renamed into the library.
    Moved,
    /// The file was copied.
    Copied,
}

/// `POST /app/load`: loads a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct LoadRequest {
    /// The model's name.
    pub model: String,
    /// Load the model even if the memory seems too small.
    #[serde(default)]
    pub force: bool,
    /// How long the model stays loaded; if absent, the daemon's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_alive: Option<KeepAlive>,
}

//! Our own interface, `/app`: what only our own clients do. It needs the daemon's token.

mod cache;
pub mod chats;
mod desktop;
mod discover;
mod downloads;
mod hardware;
mod libraries;
mod logins;
mod mirror;
mod models;
mod scan;
mod server;
mod session;
mod settings;
mod upkeep;

use serde::{Deserialize, Serialize};

use crate::{KeepAlive, Timestamp};
pub use cache::{
    CacheClear, CacheContext, CacheContexts, CacheDeleted, CacheFsck, CacheLimit, CacheLimits, CacheLimitsChange,
    CacheOwner, CachePrefetched, CacheResponse, CacheTier, CacheTrace, CacheTraceRequest, CacheWhich, DamagedChunk,
    TierName, TierTokens,
};
pub use desktop::{DesktopPlaces, DesktopServer};
pub use discover::{DiscoverResponse, DiscoveredFrom, DiscoveredModel, DiscoveredVariant};
pub use downloads::{
    CapRequest, Download, DownloadChoice, DownloadRequest, DownloadState, DownloadsResponse, ReorderRequest,
};
pub use hardware::{
    DiskHolds, HardwareCpu, HardwareDisk, HardwareGpu, HardwareKernels, HardwareMemory, HardwareResponse, KernelVariant,
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
pub use scan::{FoundModel, FoundState, ScanLine, ScanRequest, ScannedFolder, ScannedModels};
pub use server::{LoggedRequest, ServerClient, ServerResponse};
pub use session::{SessionRequest, SessionResponse, TicketResponse};
pub use settings::{
    CacheTestRequest, CacheTested, Setting, SettingApplies, SettingKind, SettingOrigin, SettingValue, SettingsChange,
    SettingsRefused, SettingsResponse, TestedPlace, WrongSetting,
};
pub use upkeep::{
    FlawKind, FlawedContents, GcRequest, GcResponse, LeftoverFile, LeftoverKind, VerifiedModels, VerifyLine,
    VerifyRequest,
};

/// `run/daemon.json`: how a client finds the daemon of its user. Only that user can read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonFile {
    /// Process id, for people; whether the daemon lives is told by its lock.
    pub pid: u32,
    /// When it started.
    pub started_at: Timestamp,
    /// Where it listens, `127.0.0.1:11434` for instance; the first is the one to use.
    pub addresses: Vec<String>,
    /// Its version, `x.y.z`.
    pub version: String,
    /// What `/app` wants to see as `Authorization: Bearer`.
    pub token: String,
}

/// `GET /app/status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the same facts as in `DaemonFile`, and two counts")]
pub struct StatusResponse {
    pub version: String,
    pub pid: u32,
    pub started_at: Timestamp,
    pub addresses: Vec<String>,
    /// Requests that are being answered, this one not counted.
    pub active_requests: u64,
    /// Models in memory.
    pub loaded_models: u64,
}

/// `POST /app/open`: makes a model file on this machine known until the daemon ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRequest {
    /// Absolute path of a GGUF file.
    pub path: String,
}

/// The answer to [`OpenRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenResponse {
    /// The name by which `/api` knows the file from now on.
    pub model: String,
    /// Whether the file says how a conversation becomes a prompt.
    #[serde(default)]
    pub chat_template: bool,
}

/// `POST /app/import`: makes a model file on this machine a model of the daemon's library. Answered by [`ImportLine`]s.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportRequest {
    /// Absolute path of a GGUF file.
    pub path: String,
    /// What the model is to be called; as the file calls itself when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Give the file a second name in the store, and make it read-only, in place of copying it.
    #[serde(default)]
    pub link: bool,
    /// Take the file away once the model is there.
    #[serde(default, rename = "move")]
    pub moving: bool,
    /// Replace a model that has the name.
    #[serde(default)]
    pub force: bool,
}

/// How far an import has come; the last one is [`ImportLine::Success`], or an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
#[expect(missing_docs, reason = "bytes of the file, done and in all")]
pub enum ImportLine {
    /// Its digest is computed.
    Hashing { completed: u64, total: u64 },
    /// It is copied, and its digest computed on the way.
    Copying { completed: u64, total: u64 },
    /// There is such a model.
    Success(ImportedModel),
}

/// A model that came from a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedModel {
    /// The name to run it by.
    pub model: String,
    /// Bytes of its file.
    pub size: u64,
    /// How it came into the store.
    pub way: ImportWay,
    /// Why it was copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the file was made read-only, for a hard link.
    #[serde(default)]
    pub made_read_only: bool,
    /// Whether the file is gone, because it was to be moved.
    #[serde(default)]
    pub moved: bool,
    /// Why it is still there although it was to be moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_reason: Option<String>,
    /// Whether the file says how a conversation becomes a prompt.
    #[serde(default)]
    pub chat_template: bool,
}

/// How a file came into the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportWay {
    /// Its contents were there.
    Present,
    /// It shares its place on the disk with the store's until either is changed.
    Reflinked,
    /// The store's is a second name of it.
    Linked,
    /// The store's is the file itself.
    Moved,
    /// It was copied.
    Copied,
}

/// `POST /app/load`: brings a model into memory, where the next request finds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadRequest {
    /// The model's name.
    pub model: String,
    /// Load it even when memory looks too small for it.
    #[serde(default)]
    pub force: bool,
    /// How long it stays; the daemon's setting when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_alive: Option<KeepAlive>,
}

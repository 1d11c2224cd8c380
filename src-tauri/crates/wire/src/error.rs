//! Errors: their body and their stable names.
//!
//! Clients translate an error by its code and parameters; `error` in the body is English text for logs and other
//! clients.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The stable name of an error that a client can see. The documentation of each names its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The request is malformed or contradicts itself. Parameters: reason.
    InvalidRequest,
    /// The request has no body.
    MissingBody,
    /// The request's body exceeds the limit.
    BodyTooLarge,
    /// The daemon token is missing or wrong.
    Unauthorized,
    /// From another machine, the path needs an API key. Parameters: scope.
    ApiKeyMissing,
    /// The API key is wrong or was revoked.
    ApiKeyInvalid,
    /// The API key has none of the scopes that the path needs. Parameters: scope.
    ApiKeyScope,
    /// The one-time address of the interface was used before or is too old.
    SessionExpired,
    /// This client may not do that. Parameters: reason.
    Forbidden,
    /// The entry does not exist. Parameters: reason.
    NotFound,
    /// The daemon failed unexpectedly. Parameters: reason.
    Internal,
    /// The text cannot be the name of an API key. Parameters: name.
    KeyNameInvalid,
    /// Another API key has the name. Parameters: name.
    KeyNameTaken,
    /// There is no API key of that name. Parameters: name.
    KeyNotFound,
    /// The limit of API keys is reached. Parameters: limit.
    TooManyKeys,
    /// The file of the API keys cannot be read, so no key is valid. Parameters: path, reason.
    KeysUnreadable,
    /// The file of the API keys cannot be written. Parameters: reason.
    KeysUnwritable,
    /// The text cannot be the name of a remote. Parameters: name.
    RemoteNameInvalid,
    /// Another remote has the name. Parameters: name.
    RemoteNameTaken,
    /// There is no remote of that name. Parameters: name.
    RemoteNotFound,
    /// The limit of remotes is reached. Parameters: limit.
    TooManyRemotes,
    /// The text is not the address of a remote. Parameters: reason.
    RemoteUrlInvalid,
    /// The address of a remote is that of this daemon. Parameters: url.
    RemoteIsSelf,
    /// The API key of a remote has characters that cannot be sent. Parameters: reason.
    RemoteKeyInvalid,
    /// The API key of a remote would be sent unencrypted. Parameters: url.
    RemoteKeyPlain,
    /// The server does not list its models. Parameters: url, failure and those of the failure.
    RemoteNotAServer,
    /// The file of the remotes cannot be read. Parameters: path, reason.
    RemotesUnreadable,
    /// The file of the remotes cannot be written. Parameters: reason.
    RemotesUnwritable,
    /// No remote that has the model could answer. Parameters: reason, or remote, failure and those of the failure.
    RemoteUnavailable,
    /// A remote refused the request. Parameters: remote, failure and those of the failure.
    RemoteRefused,
    /// A remote failed during an answer. Parameters: remote, failure and those of the failure.
    RemoteInterrupted,
    /// A failure of a remote: it cannot be reached. Parameters: reason.
    RemoteUnreachable,
    /// A failure of a remote: it sent nothing for too long. Parameters: seconds.
    RemoteTimeout,
    /// A failure of a remote: it closed the connection before the end of its response. Parameters: reason.
    RemoteDisconnected,
    /// A failure of a remote: it redirects requests.
    RemoteRedirected,
    /// A failure of a remote: it responded with an error. Parameters: status, reason.
    RemoteStatus,
    /// A failure of a remote: its response ends with an error. Parameters: reason.
    RemoteReportedError,
    /// A failure of a remote: its response is invalid or too long. Parameters: reason, remote.
    RemoteResponseInvalid,
    /// Too many requests wait already.
    ServerBusy,
    /// The kernels cannot be measured while a model computes.
    MeasurementBusy,
    /// This version cannot do that. Parameters: feature.
    Unsupported,
    /// The request needs a capability that the model lacks. Parameters: model, capability.
    CapabilityMissing,
    /// The engine could not start. Parameters: reason.
    StartFailed,
    /// A setting has an invalid value. `wrong` in the body lists all such settings with a code each. Parameters: reason.
    SettingInvalid,
    /// No setting has this key.
    SettingUnknown,
    /// A variable or flag of the running daemon overrides the setting. Parameters: by.
    SettingOverridden,
    /// The setting's value must be true or false.
    SettingNeedsBool,
    /// The setting's value must be an integer, 0 or more.
    SettingNeedsNumber,
    /// The setting's value must be a number of bytes.
    SettingNeedsSize,
    /// The setting's value must be one of some words. Parameters: choices.
    SettingNeedsChoice,
    /// The setting's value must be text.
    SettingNeedsText,
    /// The setting's value must be one line of text.
    SettingNeedsLine,
    /// The setting's value must be an absolute path.
    SettingNeedsPath,
    /// The setting's value must be an address, `host:port`.
    SettingNeedsAddress,
    /// The setting's text is too long. Parameters: max_bytes.
    SettingTooLong,
    /// The setting's number is too large. Parameters: limit.
    SettingTooLarge,
    /// The setting's size is out of range. Parameters: min_bytes, max_bytes.
    SettingOutOfRange,
    /// The daemon cannot listen on the address. Parameters: address, reason.
    AddressUnusable,
    /// There is no file at the path. Parameters: path.
    FileNotFound,
    /// The path of a folder is a file. Parameters: path.
    FolderIsFile,
    /// This machine cannot run the kernel variant. Parameters: kernel.
    KernelUnavailable,
    /// A server of tools is invalid, or the pasted text has none. Parameters: reason.
    ToolServerInvalid,
    /// Another server of tools has that name. Parameters: name.
    ToolServerNameTaken,
    /// There is no server of tools of that name. Parameters: name.
    ToolServerNotFound,
    /// The server of tools is off. Parameters: name.
    ToolServerOff,
    /// The server of tools does not start, or does not list its tools. Parameters: reason.
    ToolServerFailed,
    /// There are too many servers of tools. Parameters: limit.
    TooManyToolServers,
    /// The server has no such tool. Parameters: name, tool.
    ToolNotFound,
    /// There are too many permissions of tools.
    TooManyToolPermissions,
    /// The folder of the tool that reads files cannot be read. Parameters: reason.
    ToolFolderUnreadable,
    /// The stored tools cannot be read. Parameters: path, reason.
    ToolsUnreadable,
    /// The tools cannot be stored. Parameters: reason.
    ToolsUnwritable,
    /// `config.toml` cannot be read. Parameters: path, reason.
    ConfigUnreadable,
    /// `config.toml` cannot be written. Parameters: reason.
    ConfigUnwritable,
    /// The request has no model name, or an empty one.
    ModelNameMissing,
    /// The text is not a model name. Parameters: name.
    ModelNameInvalid,
    /// There is no model of that name. Parameters: model.
    ModelNotFound,
    /// The model has no GGUF file. Parameters: model.
    ModelHasNoFile,
    /// The file cannot be read, or is not a model. Parameters: path, reason.
    ModelFileUnreadable,
    /// A file of the model is not in the library, or incomplete. Parameters: digest, reason.
    ModelFileMissing,
    /// The model cannot be loaded. Parameters: reason.
    ModelUnloadable,
    /// The model needs more memory than is free. Parameters: need_bytes, free_bytes.
    ModelTooLarge,
    /// The name belongs to the built-in model. Parameters: model.
    ModelBuiltIn,
    /// Another model has that name. Parameters: model.
    ModelNameTaken,
    /// A library that Cairn only reads has a model of that name. Parameters: model, path.
    ModelInOtherLibrary,
    /// The model is in a library that Cairn only reads. Parameters: model, path.
    LibraryReadOnly,
    /// A library cannot be read. Parameters: reason.
    LibraryUnreadable,
    /// The library cannot be written. Parameters: reason.
    LibraryWriteFailed,
    /// The disk has too little free space. Parameters: need_bytes, free_bytes, path.
    DiskFull,
    /// A manifest cannot be read, so nothing was removed. Parameters: path.
    ManifestUnreadable,
    /// The text is not a digest. Parameters: reason.
    DigestInvalid,
    /// The contents have another digest. Parameters: expected, found.
    DigestMismatch,
    /// The blob was not uploaded. Parameters: digest.
    BlobNotFound,
    /// The model is a file outside of the library. Parameters: model.
    FileOutsideLibrary,
    /// The file is in Cairn's own library. Parameters: path.
    FileInLibrary,
    /// The file belongs to a library that Cairn only reads. Parameters: path, library.
    FileInOtherLibrary,
    /// The file cannot be linked or moved; a copy is possible. Parameters: reason.
    ImportRefused,
    /// The request to create a model is incomplete or contradicts itself. Parameters: reason.
    CreateRequestInvalid,
    /// The weights cannot be quantised. Parameters: reason.
    QuantizationFailed,
    /// The template is invalid. Parameters: reason.
    TemplateInvalid,
    /// The registry has no such model. Parameters: host, model.
    RegistryModelNotFound,
    /// The registry would be asked over plain HTTP. Parameters: host.
    RegistryInsecure,
    /// The text is not an address of a registry. Parameters: reason.
    RegistryAddressInvalid,
    /// The registry refuses access to the model. Parameters: reason.
    RegistryRefused,
    /// The registry's certificate is not trusted. Parameters: host, reason.
    RegistryUntrusted,
    /// The registry cannot be reached. Parameters: reason.
    RegistryUnreachable,
    /// The registry asks to wait. Parameters: host, seconds.
    RegistryBusy,
    /// The registry publishes the model in a format that Cairn cannot run. Parameters: model.
    ModelFormatUnsupported,
    /// This version cannot run the model, so it was not downloaded. Parameters: model, reason, size_bytes.
    ModelCannotRun,
    /// The registry's manifest is not one of a model. Parameters: host, model, reason.
    ManifestInvalid,
    /// The name belongs to a model that was made on this machine. Parameters: model.
    ModelMadeHere,
    /// The network settings prevent connections. Parameters: reason.
    ProxyInvalid,
    /// The contents could not be downloaded. Parameters: reason.
    DownloadFailed,
    /// There is no such download. Parameters: download.
    DownloadNotFound,
    /// The download is complete. Parameters: model.
    DownloadComplete,
    /// The download was cancelled; what was downloaded is kept.
    DownloadCancelled,
    /// The daemon is shutting down; the download will resume.
    DownloadInterrupted,
    /// The download was discarded.
    DownloadDiscarded,
    /// The list of downloads is full. Parameters: limit.
    TooManyDownloads,
    /// The registry does not accept pushes from this user. Parameters: host, reason.
    PushUnauthorized,
    /// The model could not be pushed. Parameters: reason.
    PushFailed,
    /// Another machine may not have this fetched. Parameters: source, reason.
    RemoteFetchForbidden,
    /// The search query is too long. Parameters: limit.
    QueryTooLong,
    /// The user name is invalid.
    LoginInvalid,
    /// The registry refuses the user name or password. Parameters: reason.
    LoginRefused,
    /// The host is not a registry. Parameters: host.
    LoginNotARegistry,
    /// The registry cannot be reached; nothing was stored. Parameters: reason.
    LoginUnreachable,
    /// The password cannot be stored or read. Parameters: reason.
    LoginStoreFailed,
    /// The text is not a join code.
    JoinCodeInvalid,
    /// The mirror was not joined. Parameters: reason.
    JoinFailed,
    /// The text is not a key. Parameters: reason.
    PeerKeyInvalid,
    /// The key or the list of trusted peers cannot be used. Parameters: reason.
    TrustStoreFailed,
    /// The local network cannot be searched. Parameters: reason.
    LanFailed,
    /// The cache is off.
    CacheOff,
    /// There is no cached context of that id. Parameters: context.
    ContextNotFound,
    /// Several cached contexts have ids with that prefix. Parameters: context.
    ContextAmbiguous,
    /// Pinned contexts may take a quarter of a tier.
    PinQuotaExceeded,
    /// The folder cannot be used for the cache. Parameters: path, reason.
    CacheFolderInvalid,
    /// The cache folder cannot be read. Parameters: reason.
    CacheFolderUnreadable,
    /// The model cannot think. Parameters: model.
    ThinkingUnsupported,
    /// An option has an invalid value. Parameters: option, reason.
    OptionInvalid,
    /// The prompt does not fit into the context. Parameters: prompt_tokens, context_tokens.
    PromptTooLong,
    /// The context is too small for any part of the prompt. Parameters: prompt_tokens, context_tokens, min_tokens.
    ContextTooSmall,
    /// The prompt cannot be rendered. Parameters: reason.
    PromptFailed,
    /// The model failed while it computed. Parameters: reason.
    GenerationFailed,
    /// The engine stopped before the answer was complete.
    GenerationInterrupted,
    /// The answer was ended to make room for another model. Parameters: reason.
    GenerationDisplaced,
    /// There is no such chat. Parameters: chat.
    ChatNotFound,
    /// The chat has no such message. Parameters: message.
    MessageNotFound,
    /// There is no such preset. Parameters: preset.
    PresetNotFound,
    /// An answer is being computed in this chat.
    ChatAnswering,
    /// The chat has no model.
    ChatWithoutModel,
    /// The chat is in the trash.
    ChatInTrash,
    /// The message is empty.
    MessageEmpty,
    /// No call of a tool with this id waits for a decision. Parameters: call.
    ToolCallNotFound,
    /// The message cannot be answered or continued. Parameters: message.
    MessageNotAnswerable,
    /// The chats cannot be imported. Parameters: reason.
    ChatImportFailed,
    /// The chats cannot be read or written. Parameters: reason.
    ChatsUnavailable,
    /// A newer version of Cairn wrote the chats. Parameters: path.
    ChatsNewerVersion,
    /// The chat database is damaged; the next request for chats repairs it. Parameters: reason.
    ChatsDamaged,
    /// The disk has no space left for the chats.
    ChatsDiskFull,
    /// The chat database or its folder cannot be written.
    ChatsReadOnly,
    /// A damaged chat database was repaired; the damaged file is kept at `path`. Parameters: path, chats, messages, reason.
    ChatsRepaired,
    /// The file is none of the formats that can be read.
    DocumentUnknown,
    /// An Office document in the format of 1997, or an encrypted one.
    DocumentOldOffice,
    /// There is no such collection. Parameters: collection.
    CollectionNotFound,
    /// The collection has no such document. Parameters: document.
    CollectionDocumentNotFound,
    /// The name of a collection is empty or too long. Parameters: limit.
    CollectionNameInvalid,
    /// A limit of a collection is reached. Parameters: reason.
    CollectionFull,
    /// The chosen model is not an embedding model. Parameters: model.
    CollectionModelInvalid,
    /// The daemon stopped while it read a document.
    CollectionReadingInterrupted,
    /// The collections cannot be read or written. Parameters: reason.
    CollectionsUnavailable,
    /// A newer version of Cairn wrote the collections. Parameters: path.
    CollectionsNewerVersion,
    /// The disk has no space left for the collections.
    CollectionsDiskFull,
    /// The document breaks its format. Parameters: reason.
    DocumentDamaged,
    /// The document has a password.
    DocumentEncrypted,
    /// The PDF has only pictures of its pages. Parameters: pages.
    DocumentHasNoTextLayer,
    /// The document has no text.
    DocumentEmpty,
    /// The document is too large. Parameters: limit_bytes.
    DocumentTooLarge,
    /// The document inflates to too many bytes. Parameters: limit_bytes.
    DocumentInflates,
    /// The document has too many characters, pages or elements. Parameters: reason.
    DocumentTooLong,
    /// Reading the document took too long. Parameters: seconds.
    DocumentTimeout,
    /// The process that reads the document failed. Parameters: reason.
    DocumentFailed,
    /// Files may still contain chats that were deleted forever; Cairn retries the erasure. Parameters: reason.
    ChatsNotErased,
}

/// The body of an error response, and the last line of a stream that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What went wrong, in English.
    pub error: String,
    /// The stable name of the error; absent from other servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// The facts of the error by name, as [`ErrorCode`] documents them. `failure` is another code.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
}

impl ErrorBody {
    /// A body without a code, as other servers send it.
    #[must_use]
    pub fn text(error: impl Into<String>) -> Self {
        Self { error: error.into(), code: None, params: BTreeMap::new() }
    }
}

impl std::fmt::Display for ErrorBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.error)
    }
}

impl std::error::Error for ErrorBody {}

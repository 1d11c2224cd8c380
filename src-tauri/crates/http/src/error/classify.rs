//! Maps the errors of all areas to a status, a code and parameters: one `match` for each area, without a catch-all.

use std::collections::BTreeMap;
use std::fmt::Display;

use axum::http::StatusCode;
use cairn_app::inference::{CallError, Failure, FormatError, GenerateError, TemplateError, TranslationError};
use cairn_app::library::{LoadError, NameError, WriteError};
use cairn_app::settings::{SettingProblem, SettingsError};
use cairn_app::transfers::{JoinError, LoginError, PullError, PushError};
use cairn_app::{Error, cache, chats, inference, keys, library, remotes, transfers};
use cairn_wire::{ErrorCode as Code, OptionError, excerpt};

/// Parameters of an error by name.
pub(crate) type Params = BTreeMap<String, String>;

/// Machine-readable part of an error response: status, code and parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) status: StatusCode,
    pub(crate) code: Code,
    pub(crate) params: Params,
}

impl Class {
    pub(super) fn new(status: StatusCode, code: Code) -> Self {
        Self { status, code, params: Params::new() }
    }

    /// Adds a parameter.
    pub(super) fn with(mut self, name: &str, value: impl Display) -> Self {
        self.params.insert(name.to_owned(), value.to_string());
        self
    }

    /// Adds the failure of a remote, with its parameters.
    fn with_failure(mut self, failure: Self) -> Self {
        let code = serde_json::to_value(failure.code).expect("a code is a string in JSON");
        self.params.extend(failure.params);
        self.with("failure", code.as_str().unwrap_or_default())
    }
}

const BAD: StatusCode = StatusCode::BAD_REQUEST;
const FORBIDDEN: StatusCode = StatusCode::FORBIDDEN;
const NOT_FOUND: StatusCode = StatusCode::NOT_FOUND;
const CONFLICT: StatusCode = StatusCode::CONFLICT;
const UNSUPPORTED: StatusCode = StatusCode::NOT_IMPLEMENTED;
const BUSY: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
const BAD_GATEWAY: StatusCode = StatusCode::BAD_GATEWAY;
const INTERNAL: StatusCode = StatusCode::INTERNAL_SERVER_ERROR;

/// Classifies any error of a use case.
pub(crate) fn classify(error: &Error) -> Class {
    match error {
        Error::Start(reason) => Class::new(INTERNAL, Code::StartFailed).with("reason", reason),
        Error::Settings(error) => of_settings(error),
        Error::Library(error) => of_library(error),
        Error::Transfers(error) => of_transfers(error),
        Error::Remotes(error) => of_remotes(error),
        Error::Cache(error) => of_cache(error),
        Error::Inference(error) => of_inference(error),
        Error::Chats(error) => of_chats(error),
        Error::Keys(error) => of_keys(error),
        Error::Random(reason) => with_reason(INTERNAL, Code::Internal, reason),
    }
}

/// Returns a class with the parameter `reason`.
fn with_reason(status: StatusCode, code: Code, reason: &impl Display) -> Class {
    Class::new(status, code).with("reason", reason)
}

fn of_settings(error: &SettingsError) -> Class {
    match error {
        SettingsError::Wrong(_) => with_reason(BAD, Code::SettingInvalid, error),
        SettingsError::File { path, why } => {
            Class::new(CONFLICT, Code::ConfigUnreadable).with("path", path.display()).with("reason", why)
        }
        SettingsError::Unwritten(reason) => with_reason(INTERNAL, Code::ConfigUnwritable, reason),
    }
}

pub(super) fn of_setting(problem: &SettingProblem) -> Class {
    use SettingProblem as P;
    match problem {
        P::Unknown => Class::new(BAD, Code::SettingUnknown),
        P::Overridden(by) => Class::new(CONFLICT, Code::SettingOverridden).with("by", by),
        P::NeedsBool => Class::new(BAD, Code::SettingNeedsBool),
        P::NeedsNumber => Class::new(BAD, Code::SettingNeedsNumber),
        P::NeedsSize => Class::new(BAD, Code::SettingNeedsSize),
        P::NeedsChoice(choices) => Class::new(BAD, Code::SettingNeedsChoice).with("choices", choices.join(", ")),
        P::NeedsText => Class::new(BAD, Code::SettingNeedsText),
        P::NeedsLine => Class::new(BAD, Code::SettingNeedsLine),
        P::NeedsPath => Class::new(BAD, Code::SettingNeedsPath),
        P::NeedsAddress => Class::new(BAD, Code::SettingNeedsAddress),
        P::ItemType(_) | P::GroupExpected(_) => with_reason(BAD, Code::SettingInvalid, problem),
        P::Unparsed { .. } => Class::new(BAD, Code::SettingInvalid),
        P::TooLong(max_bytes) => Class::new(BAD, Code::SettingTooLong).with("max_bytes", max_bytes),
        P::TooLarge(limit) => Class::new(BAD, Code::SettingTooLarge).with("limit", limit),
        P::SizeOutOfRange { min_bytes, max_bytes, .. } => {
            Class::new(BAD, Code::SettingOutOfRange).with("min_bytes", min_bytes).with("max_bytes", max_bytes)
        }
        P::AddressUnusable { address, reason } => {
            with_reason(BAD, Code::AddressUnusable, reason).with("address", address)
        }
        P::NoFile(path) => Class::new(BAD, Code::FileNotFound).with("path", path.display()),
        P::NotFolder(path) => Class::new(BAD, Code::FolderIsFile).with("path", path.display()),
        P::FolderUnusable { path, reason } => {
            with_reason(BAD, Code::CacheFolderInvalid, reason).with("path", path.display())
        }
        P::NoKernel(kernel) => Class::new(BAD, Code::KernelUnavailable).with("kernel", kernel),
    }
}

fn of_keys(error: &keys::Error) -> Class {
    use keys::Error as E;
    match error {
        E::Name(name) => Class::new(BAD, Code::KeyNameInvalid).with("name", name),
        E::NoScope => with_reason(BAD, Code::InvalidRequest, error),
        E::Taken(name) => Class::new(CONFLICT, Code::KeyNameTaken).with("name", name),
        E::NotFound(name) => Class::new(NOT_FOUND, Code::KeyNotFound).with("name", name),
        E::TooMany => Class::new(CONFLICT, Code::TooManyKeys).with("limit", keys::MAX_KEYS),
        E::Unreadable { path, reason } => {
            with_reason(CONFLICT, Code::KeysUnreadable, reason).with("path", path.display())
        }
        E::Unwritten(reason) => with_reason(INTERNAL, Code::KeysUnwritable, reason),
        E::Random(_) => with_reason(INTERNAL, Code::Internal, error),
    }
}

fn of_name(error: &NameError) -> Class {
    match error {
        NameError::Empty => Class::new(BAD, Code::ModelNameMissing),
        NameError::Invalid { name, .. } => Class::new(BAD, Code::ModelNameInvalid).with("name", excerpt(name)),
    }
}

fn of_library(error: &library::Error) -> Class {
    use library::Error as E;
    match error {
        E::Name(reason) | E::InvalidName { reason, .. } => of_name(reason),
        E::NoSource(model) | E::NotFound(model) => Class::new(NOT_FOUND, Code::ModelNotFound).with("model", model),
        E::Unsupported(feature) | E::Instead { what: feature, .. } => {
            Class::new(UNSUPPORTED, Code::Unsupported).with("feature", feature)
        }
        E::Option(error) => of_option(error),
        E::Library(reason) => with_reason(INTERNAL, Code::LibraryUnreadable, reason),
        E::NoFile(model) => Class::new(INTERNAL, Code::ModelHasNoFile).with("model", model),
        E::File { path, reason } => {
            Class::new(BAD, Code::ModelFileUnreadable).with("path", path.display()).with("reason", reason)
        }
        E::Write(error) => of_write(error),
        E::Digest(reason) => with_reason(BAD, Code::DigestInvalid, reason),
        E::BuiltIn(model) => Class::new(CONFLICT, Code::ModelBuiltIn).with("model", model),
        E::ReadOnlyLibrary { name, root } => {
            Class::new(CONFLICT, Code::LibraryReadOnly).with("model", name).with("path", root.display())
        }
        E::NameElsewhere { name, root } => {
            Class::new(CONFLICT, Code::ModelInOtherLibrary).with("model", name).with("path", root.display())
        }
        E::OutsideStore(model) => Class::new(CONFLICT, Code::FileOutsideLibrary).with("model", model),
        E::OwnFile(path) => Class::new(CONFLICT, Code::FileInLibrary).with("path", path.display()),
        E::LibraryFile { path, root } => {
            Class::new(CONFLICT, Code::FileInOtherLibrary).with("path", path.display()).with("library", root.display())
        }
        E::LongField { .. }
        | E::NoBase
        | E::NoFiles
        | E::UnknownFiles
        | E::ManyModels
        | E::FilePath
        | E::NotGguf
        | E::NoAdapter
        | E::ManyAdapters
        | E::Convert(_)
        | E::ImatrixAlone
        | E::FileType(_) => with_reason(BAD, Code::CreateRequestInvalid, error),
        E::NoBlob(digest) => Class::new(BAD, Code::BlobNotFound).with("digest", digest),
        E::Quantise(reason) => with_reason(BAD, Code::QuantizationFailed, reason),
        E::InvalidTemplate(reason) | E::FileTemplate(reason) => with_reason(BAD, Code::TemplateInvalid, reason),
        E::Load(error) => of_load(error),
        E::NoThread(_) => Class::new(BUSY, Code::ServerBusy),
    }
}

/// A value of the wrong type. Ollama responds with 500, which clients retry although no retry can succeed.
fn of_option(error: &OptionError) -> Class {
    with_reason(BAD, Code::OptionInvalid, error).with("option", &error.name)
}

fn of_write(error: &WriteError) -> Class {
    use WriteError as E;
    match error {
        E::NameTaken { name } => Class::new(CONFLICT, Code::ModelNameTaken).with("model", name),
        E::UnreadableManifest { path, .. } => {
            Class::new(CONFLICT, Code::ManifestUnreadable).with("path", path.display())
        }
        E::DigestMismatch { expected, found } => {
            Class::new(BAD, Code::DigestMismatch).with("expected", expected).with("found", found)
        }
        E::LongText { .. } | E::TooManyLayers { .. } => with_reason(BAD, Code::InvalidRequest, error),
        E::MoveSymlink { .. } | E::MoveReadOnly(_) | E::MoveFolderReadOnly { .. } => {
            with_reason(BAD, Code::ImportRefused, error)
        }
        E::CrossDeviceLink { .. } | E::SourceStaysWritable { .. } => with_reason(INTERNAL, Code::ImportRefused, error),
        E::NoSpace { need_bytes, free_bytes, folder, .. } => Class::new(INTERNAL, Code::DiskFull)
            .with("need_bytes", need_bytes)
            .with("free_bytes", free_bytes)
            .with("path", folder.display()),
        E::Source { .. } | E::SourceChanged(_) | E::Cancelled | E::Library(_) | E::Disk(_) | E::Lock(_) => {
            with_reason(INTERNAL, Code::LibraryWriteFailed, error)
        }
    }
}

fn of_load(error: &LoadError) -> Class {
    match error {
        LoadError::Busy | LoadError::Timeout(_) => Class::new(BUSY, Code::ServerBusy),
        LoadError::TooBig { need_bytes, have_bytes } => {
            Class::new(INTERNAL, Code::ModelTooLarge).with("need_bytes", need_bytes).with("free_bytes", have_bytes)
        }
        LoadError::File(_)
        | LoadError::Model(_)
        | LoadError::Tokenizer(_)
        | LoadError::Backend(_)
        | LoadError::Thread(_)
        | LoadError::Closing
        | LoadError::Panicked => with_reason(INTERNAL, Code::ModelUnloadable, error),
    }
}

fn of_transfers(error: &transfers::Error) -> Class {
    use transfers::Error as E;
    match error {
        E::Library(error) => of_library(error),
        E::Name(reason) => of_name(reason),
        E::Pull(error) => of_pull(error),
        E::Push(error) => of_push(error),
        E::Login(error) => of_login(error),
        E::Join(JoinError::Code) => Class::new(BAD, Code::JoinCodeInvalid),
        E::Join(reason) => with_reason(INTERNAL, Code::JoinFailed, reason),
        E::PeerKey(reason) => with_reason(BAD, Code::PeerKeyInvalid, reason),
        E::Key(reason) => with_reason(INTERNAL, Code::TrustStoreFailed, reason),
        E::PeerList(reason) => with_reason(INTERNAL, Code::TrustStoreFailed, reason),
        E::Lan(reason) => with_reason(INTERNAL, Code::LanFailed, reason),
        E::RemoteClientRefused { what, why } => {
            Class::new(FORBIDDEN, Code::RemoteFetchForbidden).with("source", what).with("reason", why)
        }
        E::LongQuery(limit) => Class::new(BAD, Code::QueryTooLong).with("limit", limit),
        E::NoDownload(download) => Class::new(NOT_FOUND, Code::DownloadNotFound).with("download", excerpt(download)),
        E::DownloadDone(model) => Class::new(CONFLICT, Code::DownloadComplete).with("model", model),
    }
}

pub(super) fn of_pull(error: &PullError) -> Class {
    use PullError as E;
    match error {
        E::Absent { host, name } => {
            Class::new(INTERNAL, Code::RegistryModelNotFound).with("host", host).with("model", name)
        }
        E::Insecure { host } => Class::new(INTERNAL, Code::RegistryInsecure).with("host", host),
        E::Address(reason) => with_reason(INTERNAL, Code::RegistryAddressInvalid, reason),
        E::Refused(reason) => with_reason(INTERNAL, Code::RegistryRefused, reason),
        E::Untrusted { host, cause } => {
            Class::new(INTERNAL, Code::RegistryUntrusted).with("host", host).with("reason", cause)
        }
        E::Unreachable { last, .. } => with_reason(INTERNAL, Code::RegistryUnreachable, last),
        E::Busy { host, wait } => {
            Class::new(INTERNAL, Code::RegistryBusy).with("host", host).with("seconds", wait.as_secs())
        }
        E::CannotRun { name, reason, size_bytes } => {
            let class = with_reason(INTERNAL, Code::ModelCannotRun, reason).with("model", name);
            class.with("size_bytes", size_bytes)
        }
        E::Tensors { name } => Class::new(INTERNAL, Code::ModelFormatUnsupported).with("model", name),
        E::Empty { host, name }
        | E::Manifest { host, name, .. }
        | E::Foreign { host, name, .. }
        | E::TwoSizes { host, name, .. } => {
            with_reason(INTERNAL, Code::ManifestInvalid, error).with("host", host).with("model", name)
        }
        E::MadeHere { name } => Class::new(INTERNAL, Code::ModelMadeHere).with("model", name),
        E::Transport(reason) => with_reason(INTERNAL, Code::ProxyInvalid, reason),
        E::Download { .. } | E::Lost { .. } | E::Earlier(_) => with_reason(INTERNAL, Code::DownloadFailed, error),
        E::Write(error) => Class { status: INTERNAL, ..of_write(error) },
        E::Library { reason, .. } => with_reason(INTERNAL, Code::LibraryWriteFailed, reason),
        E::TooMany(limit) => Class::new(BUSY, Code::TooManyDownloads).with("limit", limit),
        E::Stopped => Class::new(INTERNAL, Code::DownloadCancelled),
        E::Ending => Class::new(INTERNAL, Code::DownloadInterrupted),
        E::Discarded => Class::new(INTERNAL, Code::DownloadDiscarded),
        E::Panicked(error) => with_reason(INTERNAL, Code::Internal, error),
    }
}

fn of_push(error: &PushError) -> Class {
    match error {
        PushError::Way(error) => Class { status: INTERNAL, ..of_pull(error) },
        PushError::Unauthorized { host, reason } => {
            Class::new(INTERNAL, Code::PushUnauthorized).with("host", host).with("reason", reason)
        }
        PushError::Untrusted { host, cause } => {
            Class::new(INTERNAL, Code::RegistryUntrusted).with("host", host).with("reason", cause)
        }
        PushError::NoRepository { .. } | PushError::Refused(_) | PushError::Failed(_) | PushError::Here(_) => {
            with_reason(INTERNAL, Code::PushFailed, error)
        }
    }
}

fn of_login(error: &LoginError) -> Class {
    match error {
        LoginError::Way(error @ (PullError::Insecure { .. } | PullError::Address(_))) => {
            Class { status: BAD, ..of_pull(error) }
        }
        LoginError::Way(error) => Class { status: INTERNAL, ..of_pull(error) },
        LoginError::User => Class::new(BAD, Code::LoginInvalid),
        LoginError::Refused(reason) => with_reason(BAD, Code::LoginRefused, reason),
        LoginError::NoRegistry(host) => Class::new(BAD, Code::LoginNotARegistry).with("host", host),
        LoginError::Unreachable(reason) => with_reason(INTERNAL, Code::LoginUnreachable, reason),
        LoginError::Untrusted { host, cause } => {
            Class::new(INTERNAL, Code::RegistryUntrusted).with("host", host).with("reason", cause)
        }
        LoginError::LoginStore(reason) => with_reason(INTERNAL, Code::LoginStoreFailed, reason),
    }
}

fn of_remotes(error: &remotes::Error) -> Class {
    use remotes::Error as E;
    match error {
        E::Name(name) => Class::new(BAD, Code::RemoteNameInvalid).with("name", name),
        E::Taken(name) => Class::new(CONFLICT, Code::RemoteNameTaken).with("name", name),
        E::NotFound(name) => Class::new(NOT_FOUND, Code::RemoteNotFound).with("name", name),
        E::TooMany => Class::new(CONFLICT, Code::TooManyRemotes).with("limit", remotes::MAX_REMOTES),
        E::Url(reason) => with_reason(BAD, Code::RemoteUrlInvalid, reason),
        E::OwnUrl(url) => Class::new(BAD, Code::RemoteIsSelf).with("url", url),
        E::Key => with_reason(BAD, Code::RemoteKeyInvalid, error),
        E::PlainKey(url) => Class::new(BAD, Code::RemoteKeyPlain).with("url", url),
        E::NoServer { url, failure } => {
            let class = Class::new(BAD_GATEWAY, Code::RemoteNotAServer).with("url", url);
            class.with_failure(of_failure(failure, failure.cause()))
        }
        E::Network(reason) => with_reason(INTERNAL, Code::ProxyInvalid, reason),
        E::Unreadable { path, reason } => {
            with_reason(CONFLICT, Code::RemotesUnreadable, reason).with("path", path.display())
        }
        E::Unwritten(reason) => with_reason(INTERNAL, Code::RemotesUnwritable, reason),
        E::Library(error) => of_library(error),
    }
}

/// Classifies a failure of a remote. `cause` is the one of a lost connection, empty for clients that may not see addresses.
pub(super) fn of_failure(failure: &Failure, cause: &str) -> Class {
    use Failure as F;
    let class = |code| Class::new(BAD_GATEWAY, code);
    match failure {
        F::Connect { .. } => class(Code::RemoteUnreachable).with("reason", cause),
        F::Timeout { limit, .. } | F::Stalled { limit } => {
            class(Code::RemoteTimeout).with("seconds", limit.as_secs_f64())
        }
        F::Closed { .. } => class(Code::RemoteDisconnected).with("reason", cause),
        F::Redirect => class(Code::RemoteRedirected),
        F::Status { status, text } | F::NoEndpoint { status, text, .. } => {
            class(Code::RemoteStatus).with("status", status).with("reason", text)
        }
        F::Reported { text } => class(Code::RemoteReportedError).with("reason", text),
        F::Malformed { .. } | F::TooLarge { .. } | F::AnswerTooLarge { .. } | F::OutOfBudget { .. } => {
            class(Code::RemoteResponseInvalid).with("reason", failure)
        }
    }
}

/// A refusal has the status of the remote if the request is to blame.
fn of_call(error: &CallError) -> Class {
    match error {
        CallError::Failed { remote, failure: failure @ Failure::Status { status, .. } } => {
            let status = match status {
                429 | 503 => BUSY,
                // The key of this daemon, not that of the client, is wrong.
                401 | 403 => BAD_GATEWAY,
                400..500 => StatusCode::from_u16(*status).unwrap_or(BAD),
                _ => BAD_GATEWAY,
            };
            of_remote(status, Code::RemoteRefused, remote, failure)
        }
        CallError::Failed { failure: Failure::NoEndpoint { path, .. }, .. } => {
            Class::new(UNSUPPORTED, Code::Unsupported).with("feature", path)
        }
        CallError::Failed { remote, failure: failure @ Failure::AnswerTooLarge { .. } } => {
            with_reason(BAD, Code::RemoteResponseInvalid, failure).with("remote", remote)
        }
        CallError::Failed { failure: Failure::OutOfBudget { .. }, .. } => with_reason(BUSY, Code::ServerBusy, error),
        CallError::Failed { remote, failure } => of_remote(BAD_GATEWAY, Code::RemoteUnavailable, remote, failure),
        CallError::Interrupted { remote, failure } => of_remote(BAD_GATEWAY, Code::RemoteInterrupted, remote, failure),
        CallError::Unavailable { .. } => with_reason(BUSY, Code::RemoteUnavailable, error),
        CallError::Translation { reason, .. } => match reason {
            TranslationError::Option(error) => of_option(error),
            TranslationError::Endpoint { path, .. } => Class::new(UNSUPPORTED, Code::Unsupported).with("feature", path),
            TranslationError::Feature(feature) => Class::new(UNSUPPORTED, Code::Unsupported).with("feature", feature),
        },
        CallError::Aborted => Class::new(INTERNAL, Code::GenerationInterrupted),
    }
}

/// Returns the class of a failed request to a remote. It has no address.
fn of_remote(status: StatusCode, code: Code, remote: &str, failure: &Failure) -> Class {
    Class::new(status, code).with("remote", remote).with_failure(of_failure(failure, ""))
}

fn of_cache(error: &cache::Error) -> Class {
    use cache::Error as E;
    match error {
        E::Off => Class::new(CONFLICT, Code::CacheOff),
        E::NoContext(context) => Class::new(NOT_FOUND, Code::ContextNotFound).with("context", excerpt(context)),
        E::Ambiguous(context) => Class::new(BAD, Code::ContextAmbiguous).with("context", excerpt(context)),
        E::Pin(cache::PinError::Absent) => with_reason(NOT_FOUND, Code::NotFound, error),
        E::Pin(cache::PinError::Quota) => Class::new(CONFLICT, Code::PinQuotaExceeded),
        E::Limit(problem) => of_setting(problem),
        E::Folder(reason) => with_reason(INTERNAL, Code::CacheFolderUnreadable, reason),
    }
}

fn of_inference(error: &inference::Error) -> Class {
    use inference::Error as E;
    match error {
        E::Library(error) => of_library(error),
        E::Cache(error) => of_cache(error),
        E::Remote(error) => of_call(error),
        E::Unsupported(feature) => Class::new(UNSUPPORTED, Code::Unsupported).with("feature", feature),
        E::NoThinking(model) => Class::new(BAD, Code::ThinkingUnsupported).with("model", model),
        E::NoAnswers { model, .. } => {
            Class::new(BAD, Code::CapabilityMissing).with("model", model).with("capability", "completion")
        }
        E::NoEmbeddings(model) => {
            Class::new(UNSUPPORTED, Code::CapabilityMissing).with("model", model).with("capability", "embedding")
        }
        E::ScoresPairs(model) => {
            Class::new(BAD, Code::CapabilityMissing).with("model", model).with("capability", "embedding")
        }
        E::InputTooLong { tokens, max_tokens } => {
            Class::new(BAD, Code::PromptTooLong).with("prompt_tokens", tokens).with("context_tokens", max_tokens)
        }
        E::TooManyTexts { .. } | E::ForeignInput(_) | E::EmptyTokens | E::EmbeddingNotFinite => {
            with_reason(BAD, Code::InvalidRequest, error)
        }
        E::VisionUnusable { .. } | E::Image { .. } | E::TooManyImages { .. } => {
            with_reason(BAD, Code::InvalidRequest, error)
        }
        E::CapabilityMissing { model, capability } => {
            Class::new(BAD, Code::CapabilityMissing).with("model", model).with("capability", capability)
        }
        E::Format(FormatError::Vocabulary(_) | FormatError::Thread) => {
            with_reason(INTERNAL, Code::GenerationFailed, error)
        }
        E::Format(_) | E::CallsNotEnforced { .. } | E::GrammarWithTools => {
            with_reason(BAD, Code::InvalidRequest, error)
        }
        E::RawWithTemplate | E::ForeignContext(_) => with_reason(BAD, Code::InvalidRequest, error),
        E::Option(error) => of_option(error),
        E::OptionRange { name, .. } => with_reason(BAD, Code::OptionInvalid, error).with("option", name),
        E::KvType(_) => with_reason(BAD, Code::OptionInvalid, error).with("option", "kv_cache_type"),
        E::ContextShift(_) => with_reason(BAD, Code::OptionInvalid, error).with("option", "context_shift"),
        E::TooLong { prompt_tokens, context_tokens } => Class::new(BAD, Code::PromptTooLong)
            .with("prompt_tokens", prompt_tokens)
            .with("context_tokens", context_tokens),
        E::TinyContext { prompt_tokens, context_tokens, least_tokens } => Class::new(BAD, Code::ContextTooSmall)
            .with("prompt_tokens", prompt_tokens)
            .with("context_tokens", context_tokens)
            .with("min_tokens", least_tokens),
        // Only a template of the request is parsed here; that of a model was parsed when it was loaded. A model with an
        // unknown renderer needs another template.
        E::Template(reason @ (TemplateError::Syntax { .. } | TemplateError::UnknownRenderer { .. })) => {
            with_reason(BAD, Code::TemplateInvalid, reason)
        }
        // The conversation is wrong for this model. Clients would repeat a request that fails with 500.
        E::Template(reason) => with_reason(BAD, Code::PromptFailed, reason),
        E::Load(error) => of_load(error),
        E::Generate(GenerateError::Displaced(reason)) => with_reason(BUSY, Code::GenerationDisplaced, reason),
        // The constraint is part of the request. Clients would repeat a request that fails with 500.
        E::Generate(reason @ GenerateError::Constraint(_)) => with_reason(BAD, Code::InvalidRequest, reason),
        E::Generate(reason) => with_reason(INTERNAL, Code::GenerationFailed, reason),
        E::EngineGone => Class::new(INTERNAL, Code::GenerationInterrupted),
        E::Panicked(error) => with_reason(INTERNAL, Code::Internal, error),
    }
}

pub(super) fn of_chats(error: &chats::Error) -> Class {
    use chats::{ChatsError as Store, Error as E};
    match error {
        E::Answering => Class::new(CONFLICT, Code::ChatAnswering),
        E::Deleted => Class::new(CONFLICT, Code::ChatInTrash),
        E::Quiet => Class::new(NOT_FOUND, Code::ChatNotAnswering),
        E::NoModel => Class::new(BAD, Code::ChatWithoutModel),
        E::Empty => Class::new(BAD, Code::MessageEmpty),
        E::NoQuestion(message) | E::NoAnswer(message) => {
            Class::new(BAD, Code::MessageNotAnswerable).with("message", excerpt(message))
        }
        E::ShuttingDown => Class::new(BUSY, Code::GenerationInterrupted),
        E::Unclear | E::Relative(_) => with_reason(BAD, Code::InvalidRequest, error),
        E::Ollama(reason) => with_reason(BAD, Code::ChatImportFailed, reason),
        E::NoImport | E::Format { .. } => with_reason(BAD, Code::ChatImportFailed, error),
        E::Inference(error) => of_inference(error),
        E::Cache(error) => of_cache(error),
        E::Store(Store::ChatNotFound(chat)) => Class::new(NOT_FOUND, Code::ChatNotFound).with("chat", excerpt(chat)),
        E::Store(Store::MessageNotFound(message)) => {
            Class::new(NOT_FOUND, Code::MessageNotFound).with("message", excerpt(message))
        }
        E::Store(Store::PresetNotFound(preset)) => {
            Class::new(NOT_FOUND, Code::PresetNotFound).with("preset", excerpt(preset))
        }
        E::Store(Store::InvalidPageCursor(_)) => with_reason(BAD, Code::InvalidRequest, error),
        E::Store(Store::Newer { path, .. }) => {
            Class::new(CONFLICT, Code::ChatsNewerVersion).with("path", path.display())
        }
        E::Store(Store::Foreign(_)) => with_reason(CONFLICT, Code::ChatsUnavailable, error),
        E::Store(Store::Damaged(_) | Store::CheckFailed(_) | Store::Repair { .. }) => {
            with_reason(INTERNAL, Code::ChatsDamaged, error)
        }
        E::Store(Store::DiskFull) => Class::new(INTERNAL, Code::ChatsDiskFull),
        E::Store(Store::ReadOnly) => Class::new(INTERNAL, Code::ChatsReadOnly),
        E::Store(
            Store::Open { .. }
            | Store::Backup { .. }
            | Store::Remove { .. }
            | Store::LogInUse
            | Store::Sql(_)
            | Store::Json(_),
        ) => with_reason(INTERNAL, Code::ChatsUnavailable, error),
        E::Repaired(repair) => with_reason(INTERNAL, Code::ChatsRepaired, &repair.reason)
            .with("path", repair.set_aside.display())
            .with("chats", repair.chats)
            .with("messages", repair.messages),
        E::NotErased(reason) => with_reason(INTERNAL, Code::ChatsNotErased, reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_match_the_status_and_text_of_ollama() {
        let check = |error: Error, status: u16, text: &str| {
            assert_eq!((classify(&error).status.as_u16(), error.to_string().as_str()), (status, text), "{error:?}");
        };
        check(library::Error::NotFound("x".into()).into(), 404, "model 'x' not found");
        check(inference::Error::NoThinking("x".into()).into(), 400, "\"x\" does not support thinking");
        let unnamed = "".parse::<library::ModelRef>().expect_err("a name is not empty");
        check(library::Error::Name(unnamed).into(), 400, "model is required");
        check(library::Error::NoSource("x".into()).into(), 404, "model \"x\" not found");
        let reason = "a b".parse::<library::ModelRef>().expect_err("a name has no space");
        let invalid = library::Error::InvalidName { what: "destination", name: "a b".into(), reason };
        check(invalid.into(), 400, "destination \"a b\" is invalid");
        let busy = "server busy, please try again.  maximum pending requests exceeded";
        check(inference::Error::Load(LoadError::Busy).into(), 503, busy);
        let built_in = library::Error::BuiltIn("pebble:latest");
        assert_eq!(
            classify(&transfers::Error::from(built_in).into()).status,
            CONFLICT,
            "nested errors keep their status"
        );
    }

    #[test]
    fn error_of_missing_model_has_its_name() {
        let class = classify(&library::Error::NotFound("x".into()).into());
        assert_eq!((class.code, class.params["model"].as_str()), (Code::ModelNotFound, "x"));
    }

    #[test]
    fn response_of_a_remote_that_is_too_long_has_the_code_of_an_invalid_one() {
        let failure = Failure::AnswerTooLarge { limit_bytes: 64 << 20 };
        let class = classify(&inference::Error::Remote(CallError::Failed { remote: "gpu".into(), failure }).into());
        assert_eq!((class.status, class.code), (BAD, Code::RemoteResponseInvalid), "fewer texts may succeed");
        assert_eq!(class.params["remote"], "gpu");
        assert!(class.params["reason"].contains("more than 64 MiB"), "{:?}", class.params);
    }

    #[test]
    fn constraint_that_stops_an_answer_is_the_fault_of_the_request() {
        let stopped = GenerateError::Constraint("it needs too much work".to_owned());
        let class = classify(&inference::Error::Generate(stopped).into());
        assert_eq!((class.status, class.code), (BAD, Code::InvalidRequest), "the same request would fail again");
        assert!(class.params["reason"].contains("too much work"), "{:?}", class.params);
    }

    #[test]
    fn answer_ended_for_another_model_has_a_code_of_its_own() {
        let displaced = GenerateError::Displaced(inference::Displaced::Late);
        let class = classify(&inference::Error::Generate(displaced).into());
        assert_eq!((class.status, class.code), (BUSY, Code::GenerationDisplaced), "the request can be repeated");
        let waited = LoadError::Timeout(std::time::Duration::from_secs(900));
        let class = classify(&inference::Error::Load(waited).into());
        assert_eq!((class.status, class.code), (BUSY, Code::ServerBusy), "the request can be repeated");
    }
}

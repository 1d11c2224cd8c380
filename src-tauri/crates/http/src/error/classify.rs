//! Maps the errors of all areas to a status, a code and parameters: one `match` for each area, without a catch-all.

mod answers;
mod collections;
mod documents;
mod library;
mod remotes;
mod tools;
mod transfers;

use std::collections::BTreeMap;
use std::fmt::Display;

use axum::http::StatusCode;
use cairn_app::settings::{SettingProblem, SettingsError};
use cairn_app::{Error, cache, keys, speed};
use cairn_wire::{ErrorCode as Code, excerpt};

pub(super) use self::answers::of_chats;
use self::answers::of_inference;
pub(super) use self::collections::of_collections;
use self::documents::of_documents;
use self::library::of_library;
pub(super) use self::remotes::of_failure;
use self::remotes::of_remotes;
use self::tools::of_tools;
pub(super) use self::transfers::of_pull;
use self::transfers::of_transfers;

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
        Error::Speed(speed::Error::Busy) => Class::new(CONFLICT, Code::MeasurementBusy),
        Error::Speed(speed::Error::Failed(reason)) => with_reason(INTERNAL, Code::Internal, reason),
        Error::Transfers(error) => of_transfers(error),
        Error::Remotes(error) => of_remotes(error),
        Error::Tools(error) => of_tools(error),
        Error::Cache(error) => of_cache(error),
        Error::Inference(error) => of_inference(error),
        Error::Chats(error) => of_chats(error),
        Error::Collections(error) => of_collections(error),
        Error::Documents(error) => of_documents(error),
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

#[cfg(test)]
mod tests {
    use cairn_app::inference::{self, CallError, Failure, GenerateError};
    use cairn_app::library::{self, LoadError};
    use cairn_app::transfers;

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
        let class = classify(&inference::Error::Picture(inference::PictureError::MemoryFull).into());
        assert_eq!((class.status, class.code), (BUSY, Code::ServerBusy), "other requests free the memory");
    }
}

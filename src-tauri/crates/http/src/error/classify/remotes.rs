//! Errors of remote servers.

use axum::http::StatusCode;
use cairn_app::inference::{CallError, Failure, TranslationError};
use cairn_app::remotes;
use cairn_wire::ErrorCode as Code;

use super::library::{of_library, of_option};
use super::{BAD, BAD_GATEWAY, BUSY, CONFLICT, Class, INTERNAL, NOT_FOUND, UNSUPPORTED, with_reason};

pub(in crate::error) fn of_remotes(error: &remotes::Error) -> Class {
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
pub(in crate::error) fn of_failure(failure: &Failure, cause: &str) -> Class {
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
pub(in crate::error) fn of_call(error: &CallError) -> Class {
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
pub(in crate::error) fn of_remote(status: StatusCode, code: Code, remote: &str, failure: &Failure) -> Class {
    Class::new(status, code).with("remote", remote).with_failure(of_failure(failure, ""))
}

//! Errors of pulls, pushes, logins and mirrors.

use cairn_app::transfers;
use cairn_app::transfers::{JoinError, LoginError, PullError, PushError};
use cairn_wire::{ErrorCode as Code, excerpt};

use super::library::{of_library, of_name, of_write};
use super::{BAD, BUSY, CONFLICT, Class, FORBIDDEN, INTERNAL, NOT_FOUND, with_reason};

pub(in crate::error) fn of_transfers(error: &transfers::Error) -> Class {
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

pub(in crate::error) fn of_pull(error: &PullError) -> Class {
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

pub(in crate::error) fn of_push(error: &PushError) -> Class {
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

pub(in crate::error) fn of_login(error: &LoginError) -> Class {
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

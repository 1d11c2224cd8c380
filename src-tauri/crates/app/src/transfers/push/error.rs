//! Errors of pushes. Texts begin like Ollama's where Ollama has one, because clients match them.

use cairn_registry::{PushError as Cause, SourceError, TlsError};

use crate::transfers::pull::PullError;
use crate::transfers::pull::tls_advice;

/// Error of a push. The registry has no new version of the model. Blobs that it received need not be sent again.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The connection cannot be set up.
    #[error(transparent)]
    Way(PullError),
    /// The user has no access to the namespace, or is not logged in.
    #[error(
        "you are not authorized to push to this namespace ({host}: {reason}); copy the model to a name in your namespace \
         (`cairn cp`), and log in: with a password (`cairn login {host}`), or with this machine's key (CAIRN_KEY) added to \
         your account there"
    )]
    Unauthorized {
        /// The registry.
        host: String,
        /// The reason from the registry.
        reason: String,
    },
    /// The identity of the registry cannot be verified.
    #[error("cannot verify the identity of {host}: {cause}; nothing was sent{}", tls_advice(cause))]
    Untrusted {
        /// The registry.
        host: String,
        /// The cause.
        cause: TlsError,
    },
    /// The registry does not accept models.
    #[error("cannot push to {host}: it has no such repository and does not create one")]
    NoRepository {
        /// The registry.
        host: String,
    },
    /// The registry refused the request.
    #[error("{0}; uploaded blobs need not be sent again; retrying does not help until the registry accepts them")]
    Refused(Cause),
    /// Another error of the registry.
    #[error("{0}; uploaded blobs need not be sent again; push again")]
    Failed(Cause),
    /// The model in the library is damaged.
    #[error("{0}; run `cairn verify` to find the damage")]
    Here(Cause),
}

impl PushError {
    pub(super) fn of(error: Cause, host: &str) -> Self {
        match error {
            // Not signed in, or not allowed.
            Cause::Registry(SourceError::Refused { host, status: Some(401 | 403), reason }) => {
                Self::Unauthorized { host, reason }
            }
            Cause::Registry(SourceError::Untrusted { host, cause }) => Self::Untrusted { host, cause },
            Cause::Registry(SourceError::Absent { .. }) => Self::NoRepository { host: host.to_owned() },
            Cause::Registry(SourceError::Refused { .. }) => Self::Refused(error),
            Cause::Registry(_) => Self::Failed(error),
            Cause::Library(_) | Cause::Blob { .. } | Cause::Manifest(_) => Self::Here(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_errors_state_cause_and_advice() {
        let check = |error: SourceError, begin: &str, advice: &str| {
            let text = PushError::of(error.into(), "r:1").to_string();
            assert!(text.starts_with(begin), "{text:?} does not begin with {begin:?}");
            assert!(text.contains(advice), "{text:?} does not contain {advice:?}");
        };
        let host = || "r:1".to_owned();
        let refused = |status: Option<u16>, reason: &str| SourceError::Refused {
            host: host(),
            status,
            reason: reason.to_owned(),
        };
        check(refused(Some(401), "sign in"), "you are not authorized to push to this namespace (r:1", "cairn cp");
        check(refused(Some(403), "no"), "you are not authorized", "CAIRN_KEY");
        check(refused(Some(413), "too large, denied"), "r:1 refused: too large, denied", "does not help");
        check(refused(None, "its realm is unauthorized"), "r:1 refused: its realm", "does not help");
        let untrusted = SourceError::Untrusted { host: host(), cause: TlsError::UnknownIssuer };
        check(untrusted, "cannot verify the identity of r:1", "CAIRN_CA_FILE");
        check(SourceError::Absent { host: host() }, "cannot push to r:1", "repository");
        let broken = SourceError::Broken { host: host(), reason: "reset".to_owned(), answered: false };
        check(broken, "r:1: reset", "push again");
    }
}

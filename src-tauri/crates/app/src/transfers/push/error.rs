//! Why a model did not get to its registry. Where Ollama has a text for it, ours begins with that one, because clients
//! look for it.

use cairn_registry::{PushError as Cause, SourceError, TlsError};

use crate::transfers::pull::PullError;
use crate::transfers::pull::tls_advice;

/// Why a model did not get to its registry. It cannot be pulled from there, unless it could before; blobs that arrived
/// need not be sent again.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// There is no way to the registry.
    #[error(transparent)]
    Way(PullError),
    /// Somebody else's namespace, or nobody who is known there.
    #[error(
        "you are not authorized to push to this namespace ({host}: {reason}); give the model a name in a namespace of yours \
         (`cairn cp`), and sign in: by a name and a password (`cairn login {host}`), or by this machine's key (CAIRN_KEY), made \
         known to your account there"
    )]
    Unauthorized {
        /// The registry.
        host: String,
        /// What it said.
        reason: String,
    },
    /// Whoever answers for the registry does not prove to be it.
    #[error("{host} does not prove who it is: {cause}, so nothing was sent there{}", tls_advice(cause))]
    Untrusted {
        /// The registry.
        host: String,
        /// What is wrong with its proof.
        cause: TlsError,
    },
    /// The registry takes no models.
    #[error("{host} takes no models: it has no such repository, and will not make one")]
    NoRepository {
        /// The registry.
        host: String,
    },
    /// It will not take it.
    #[error("{0}; what arrived need not be sent again, and pushing it again is of no use until that changes")]
    Refused(Cause),
    /// Anything else.
    #[error("{0}; what arrived need not be sent again: push once more")]
    Failed(Cause),
    /// Something is wrong with the model here.
    #[error("{0}; `cairn verify` says what of it is damaged")]
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
    fn what_it_means_is_said() {
        let check = |error: SourceError, begins: &str, says: &str| {
            let text = PushError::of(error.into(), "r:1").to_string();
            assert!(text.starts_with(begins), "{text:?} begins otherwise");
            assert!(text.contains(says), "{text:?} does not say what to do");
        };
        let host = || "r:1".to_owned();
        let refused = |status: Option<u16>, reason: &str| SourceError::Refused {
            host: host(),
            status,
            reason: reason.to_owned(),
        };
        check(refused(Some(401), "sign in"), "you are not authorized to push to this namespace (r:1", "cairn cp");
        check(refused(Some(403), "no"), "you are not authorized", "CAIRN_KEY");
        check(refused(Some(413), "too large, denied"), "r:1 refused: too large, denied", "of no use");
        check(refused(None, "its realm is unauthorized"), "r:1 refused: its realm", "of no use");
        let untrusted = SourceError::Untrusted { host: host(), cause: TlsError::UnknownIssuer };
        check(untrusted, "r:1 does not prove who it is", "CAIRN_CA_FILE");
        check(SourceError::Absent { host: host() }, "r:1 takes no models", "repository");
        let broken = SourceError::Broken { host: host(), reason: "reset".to_owned(), answered: false };
        check(broken, "r:1: reset", "push once more");
    }
}

//! Why a model did not get to its registry. Where Ollama has a text for it, ours begins with that one, because clients
//! look for it.

use cairn_registry::{PushError as Cause, SourceError};

use crate::PullError;

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
    /// The registry takes no models.
    #[error("{host} takes no models: it has no such repository, and will not make one")]
    NoRepository {
        /// The registry.
        host: String,
    },
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
            Cause::Registry(SourceError::Refused { host, reason }) if is_denial(&reason) => {
                Self::Unauthorized { host, reason }
            }
            Cause::Registry(SourceError::Absent { .. }) => Self::NoRepository { host: host.to_owned() },
            Cause::Registry(_) => Self::Failed(error),
            Cause::Library(_) | Cause::Blob { .. } | Cause::Manifest(_) => Self::Here(error),
        }
    }
}

/// Does a registry's refusal say that it is about who asks? Ollama's client goes by the same words.
fn is_denial(reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    ["unauthorized", "forbidden", "denied"].iter().any(|word| reason.contains(word))
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
        let refused = |reason: &str| SourceError::Refused { host: host(), reason: reason.to_owned() };
        check(refused("401 Unauthorized"), "you are not authorized to push to this namespace (r:1", "cairn cp");
        check(refused("requested access is DENIED"), "you are not authorized", "CAIRN_KEY");
        check(refused("413 Payload Too Large"), "r:1 refused: 413", "push once more");
        check(SourceError::Absent { host: host() }, "r:1 takes no models", "repository");
        let broken = SourceError::Broken { host: host(), reason: "reset".to_owned() };
        check(broken, "r:1: reset", "need not be sent again");
    }
}

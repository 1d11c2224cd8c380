//! Errors of pulls: what failed, the cause, and what to do. Texts begin like Ollama's where Ollama has one, because
//! clients match them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cairn_registry::{AddressError, DownloadError, SourceError, TlsError};
use cairn_store::{Digest, LibraryError, WriteError};

use crate::panics::Panicked;

/// Error of a pull. The model is not in the library. Partial blobs stay unless the text says otherwise.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PullError {
    /// The registry has no such model.
    #[error(
        "pull model manifest: file does not exist ({host} has no {name}; check the spelling and the tag, and whether the \
         model is public)"
    )]
    Absent {
        /// The registry.
        host: String,
        /// The model.
        name: String,
    },
    /// Plain http was not allowed explicitly.
    #[error(
        "insecure protocol http: others on the network can read and change data from {host}; to allow plain http, add \
         --insecure (\"insecure\": true in a request)"
    )]
    Insecure {
        /// The registry.
        host: String,
    },
    /// The address of a mirror or a registry is invalid.
    #[error(transparent)]
    Address(AddressError),
    /// The registry refused to supply the manifest.
    #[error(
        "pull model manifest: {}; retrying does not help until the registry accepts the request{}",
        .0,
        on_refusal(.0)
    )]
    Refused(SourceError),
    /// The registry sent a manifest that is not valid.
    #[error(
        "cannot pull {name}: {host} sent an invalid manifest: {reason}; only the publisher of the model can fix this"
    )]
    Manifest {
        /// The registry.
        host: String,
        /// The model.
        name: String,
        /// Why the manifest is invalid.
        reason: String,
    },
    /// The identity of the registry cannot be verified.
    #[error(
        "pull model manifest: cannot verify the identity of {host}: {cause}; nothing was downloaded{}",
        tls_advice(cause)
    )]
    Untrusted {
        /// The registry.
        host: String,
        /// The cause.
        cause: TlsError,
    },
    /// No source that may resolve the name is reachable.
    #[error(
        "pull model manifest: {last} (after {times} attempts); nothing is lost, and downloaded data is kept; check the \
         connection and the proxy settings (CAIRN_PROXY, HTTPS_PROXY), then pull again"
    )]
    Unreachable {
        /// The last error.
        last: SourceError,
        /// Number of attempts.
        times: u32,
    },
    /// The registry asks for a wait beyond the maximum.
    #[error(
        "pull model manifest: {host} asks to wait for {} s; nothing is lost, and downloaded data is kept; pull again \
         after that time",
        wait.as_secs()
    )]
    Busy {
        /// The registry.
        host: String,
        /// The requested wait.
        wait: Duration,
    },
    /// A model for another engine.
    #[error(
        "cannot pull {name}: it consists of single tensors for Apple's MLX, which Cairn cannot run; pull a GGUF version \
         (a tag without mlx, or hf.co/...-GGUF:Q4_K_M)"
    )]
    Tensors {
        /// The model.
        name: String,
    },
    /// This version cannot run the model. Only the beginning of its file was downloaded.
    #[error(
        "cannot run {name} here yet: {reason}; only the beginning of its {} was downloaded; to download the model anyway, \
         for example to share it, run `cairn pull --force` (\"force\": true in a request)",
        size(*size_bytes)
    )]
    CannotRun {
        /// The model.
        name: String,
        /// Why it cannot run.
        reason: String,
        /// Size of its file.
        size_bytes: u64,
    },
    /// The manifest has no layers.
    #[error("cannot pull {name}: its manifest from {host} has no layers")]
    Empty {
        /// The registry.
        host: String,
        /// The model.
        name: String,
    },
    /// The manifest is not that of a model.
    #[error(
        "cannot pull {name}: {host} sent a manifest that is not a model's: {why}; the name may be that of a container \
         image"
    )]
    Foreign {
        /// The registry.
        host: String,
        /// The model.
        name: String,
        /// The cause.
        why: &'static str,
    },
    /// Clients of the mirror requested a name under which the user has a model of their own.
    #[error("cannot replace {name}: a user of this machine created it; run `cairn pull` to replace it")]
    MadeHere {
        /// The model.
        name: String,
    },
    /// The connections cannot be set up.
    #[error("cannot connect to registries: {0}; correct the setting, then restart the daemon")]
    Transport(String),
    /// A blob cannot be downloaded.
    #[error("{error}{}", advice(error))]
    Download {
        /// The cause.
        error: DownloadError,
    },
    /// A blob of the library was removed during the pull.
    #[error("{digest} was removed during the pull; downloaded data is kept; pull again to download the blob")]
    Lost {
        /// The blob.
        digest: Digest,
    },
    /// The model cannot be published.
    #[error("cannot write the model to the library: {0}; downloaded data is kept for the next pull")]
    Write(Arc<WriteError>),
    /// The manifest states two sizes of a blob.
    #[error(
        "cannot pull {name}: its manifest from {host} states two sizes of {digest}, {} and {} bytes; nothing was \
         downloaded",
        sizes[0], sizes[1]
    )]
    TwoSizes {
        /// The registry.
        host: String,
        /// The model.
        name: String,
        /// The blob.
        digest: Digest,
        /// The two sizes in bytes.
        sizes: [u64; 2],
    },
    /// The library cannot be written.
    #[error("cannot write to the library {}: {reason}", folder.display())]
    Library {
        /// Folder of the library.
        folder: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The list of downloads is full.
    #[error("the list already has {0} downloads; wait until some complete, or discard some (`cairn downloads`)")]
    TooMany(usize),
    /// Stopped by the user, or because no watcher was left.
    #[error("stopped; downloaded data is kept; run `cairn pull` or `cairn downloads resume` to continue")]
    Stopped,
    /// The daemon shuts down.
    #[error("the daemon is shutting down; the download will resume at the next start")]
    Ending,
    /// Discarded by the user.
    #[error("discarded")]
    Discarded,
    /// The work panicked.
    #[error("{0}; downloaded data is kept; pull again")]
    Panicked(#[from] Panicked),
    /// The text of an error before a restart of the daemon.
    #[error("{0}")]
    Earlier(String),
}

impl PullError {
    /// Converts the error of resolving `name` after `times` attempts.
    pub(crate) fn of_manifest(error: SourceError, name: &str, times: u32) -> Self {
        match error {
            SourceError::Absent { host } => Self::Absent { host, name: name.to_owned() },
            refused @ SourceError::Refused { .. } => Self::Refused(refused),
            SourceError::InvalidManifest { host, reason } => Self::Manifest { host, name: name.to_owned(), reason },
            SourceError::Untrusted { host, cause } => Self::Untrusted { host, cause },
            SourceError::Busy { host, retry_after: Some(wait) } if !wait.is_zero() => Self::Busy { host, wait },
            last => Self::Unreachable { last, times },
        }
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        1_000_000_000.. => format!("{:.1} GB", bytes as f64 / 1e9),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Advice about a registry that refuses: to log in, if that may help.
fn on_refusal(error: &SourceError) -> &'static str {
    match error {
        SourceError::Refused { status: Some(401 | 403), .. } => {
            "; if the registry needs a user name and a password, run `cairn login`"
        }
        _ => "",
    }
}

/// Advice about a server whose identity cannot be verified.
pub(crate) fn tls_advice(cause: &TlsError) -> &'static str {
    match cause {
        TlsError::UnknownIssuer => {
            "; if a company's proxy intercepts TLS, or the registry has its own authority, set CAIRN_CA_FILE to the PEM file \
             of the authority's certificates and restart the daemon"
        }
        TlsError::WrongHost { .. } => {
            "; check the address: a proxy, or a network with a sign-in page, may have answered instead"
        }
        TlsError::Expired | TlsError::NotYetValid => {
            "; check the clock of this machine; if it is right, only the server's owner can fix the certificate"
        }
        TlsError::PlainHttp => {
            "; --insecure (\"insecure\": true in a request) allows plain http, which others on the network can read and \
             change; for a mirror, write http:// before its address"
        }
        TlsError::Revoked | TlsError::Other(_) => "; only the server's owner can fix this",
    }
}

impl From<WriteError> for PullError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Library(LibraryError::Blob { digest, .. }) => Self::Lost { digest },
            error => Self::Write(Arc::new(error)),
        }
    }
}

/// Advice about a failed download. The error's own text states what happened.
fn advice(error: &DownloadError) -> &'static str {
    match error {
        DownloadError::Dropped { .. } | DownloadError::Stalled { .. } => {
            " Run `cairn pull` to resume; another network or a mirror (CAIRN_MIRRORS) may be more reliable"
        }
        DownloadError::Busy { .. } => "; downloaded data is kept; pull again after that, or from a mirror (--source)",
        DownloadError::Absent { .. } => {
            "; its publisher may still be uploading it, or has removed it: pull again later"
        }
        DownloadError::Refused { status: Some(401 | 402 | 403 | 451), .. } => {
            "; downloaded data is kept; the model may be private, or its licence must be accepted first"
        }
        DownloadError::Refused { .. } => "; downloaded data is kept; use another source (--source)",
        DownloadError::Unusable { .. } => {
            " The server or a proxy sends wrong answers; pull again, or use another source (--source)"
        }
        DownloadError::Untrusted { cause, .. } => tls_advice(cause),
        DownloadError::Mismatch { .. } => {
            "; the data was discarded; a proxy or a mirror may change it: use another source"
        }
        DownloadError::NoSpace { .. } => {
            "; downloaded data is kept; free space (`cairn du`, `cairn rm`), or move the library to another disk \
             (OLLAMA_MODELS), then pull again"
        }
        DownloadError::Staging(_) => "; downloaded data is kept",
        DownloadError::Cancelled | DownloadError::NoSource(_) | DownloadError::Aborted => "",
    }
}

impl From<DownloadError> for PullError {
    fn from(error: DownloadError) -> Self {
        Self::Download { error }
    }
}

impl From<AddressError> for PullError {
    fn from(error: AddressError) -> Self {
        match error {
            AddressError::Insecure { host } => Self::Insecure { host },
            error @ AddressError::Invalid { .. } => Self::Address(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pull_errors_begin_as_in_ollama_and_end_with_advice() {
        let check = |error: PullError, begin: &str, advice: &str| {
            let text = error.to_string();
            assert!(text.starts_with(begin), "{text:?} does not begin with {begin:?}");
            assert!(text.contains(advice), "{text:?} does not contain {advice:?}");
        };
        let absent = PullError::Absent { host: "r".into(), name: "m:latest".into() };
        check(absent, "pull model manifest: file does not exist", "check the spelling");
        check(PullError::Insecure { host: "r".into() }, "insecure protocol http", "--insecure");
        let broken = SourceError::Broken { host: "r".into(), reason: "refused".into(), answered: false };
        check(PullError::Unreachable { last: broken, times: 4 }, "pull model manifest: r: refused", "CAIRN_PROXY");
        let busy = SourceError::Busy { host: "r".into(), retry_after: Some(Duration::from_secs(3600)) };
        let text = PullError::of_manifest(busy, "m:latest", 1).to_string();
        assert!(
            text.contains("r asks to wait for 3600 s") && !text.contains("proxy"),
            "no advice about the connection: {text}"
        );
        let untrusted = |cause| PullError::Untrusted { host: "r".into(), cause };
        let begins = "pull model manifest: cannot verify the identity of r: its certificate ";
        check(untrusted(TlsError::UnknownIssuer), begins, "CAIRN_CA_FILE");
        check(untrusted(TlsError::Expired), begins, "clock");
        let plain = "pull model manifest: cannot verify the identity of r: it speaks plain http on an https address";
        check(untrusted(TlsError::PlainHttp), plain, "--insecure");
        let names = vec!["a".to_owned(), "b".to_owned()];
        check(untrusted(TlsError::WrongHost { requested: "r".into(), names }), begins, "is for a, b, and not for r");
        let cause = TlsError::UnknownIssuer;
        check(
            DownloadError::Untrusted { host: "r".into(), cause }.into(),
            "cannot verify the identity of r",
            "CAIRN_CA_FILE",
        );
        let refused = |status: Option<u16>| SourceError::Refused { host: "r".into(), status, reason: "no".into() };
        check(PullError::Refused(refused(Some(401))), "pull model manifest: r refused: no; ", "cairn login");
        let odd = PullError::Refused(refused(None)).to_string();
        assert!(!odd.contains("login"), "no advice about a login: {odd}");
        let refused = |status: Option<u16>| {
            PullError::from(DownloadError::Refused { host: "r".into(), status, reason: "no".into() }).to_string()
        };
        assert!(refused(Some(403)).contains("may be private"), "advice about access");
        assert!(!refused(None).contains("private"), "no advice about access");
        let digest = Digest::of(b"");
        let wrong = DownloadError::Mismatch { want: digest, got: digest, hosts: vec!["r".into()] };
        check(wrong.into(), "digest mismatch, file must be downloaded again: want sha256:", "use another source");
    }
}

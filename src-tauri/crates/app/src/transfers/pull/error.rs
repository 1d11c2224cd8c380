//! Why a model did not arrive: what happened, what that means, and what to do. Where Ollama has a text for it, ours begins
//! with that one, because clients look for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cairn_registry::{AddressError, DownloadError, SourceError, TlsError};
use cairn_store::{Digest, LibraryError, WriteError};

/// Why a model did not arrive. Nothing of it is listed then, and what came is kept unless the text says otherwise.
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
    /// Plain http without a word about it.
    #[error(
        "insecure protocol http: whoever is on the way to {host} can read and change what comes over plain http; \
         --insecure (\"insecure\": true in a request) asks for it all the same"
    )]
    Insecure {
        /// The registry.
        host: String,
    },
    /// A mirror or a registry has an address that is none.
    #[error(transparent)]
    Address(AddressError),
    /// The registry will not say what the model is made of.
    #[error(
        "pull model manifest: {}; the registry will not give it, so trying again is of no use until that changes{}",
        .0,
        on_refusal(.0)
    )]
    Refused(SourceError),
    /// Whoever answers for the registry does not prove to be it.
    #[error(
        "pull model manifest: {host} does not prove who it is: {cause}, so nothing was fetched from there{}",
        tls_advice(cause)
    )]
    Untrusted {
        /// Who was to be asked.
        host: String,
        /// What is wrong with its proof.
        cause: TlsError,
    },
    /// Nobody who may say what the model is made of could be asked.
    #[error(
        "pull model manifest: {last} (asked {times} times); nothing was lost, and what came before is kept. Look at the \
         connection, or at the proxy settings (CAIRN_PROXY, HTTPS_PROXY), and pull again"
    )]
    Unreachable {
        /// What happened last.
        last: SourceError,
        /// How often it was tried.
        times: u32,
    },
    /// The registry asks for a longer wait than is worth waiting.
    #[error(
        "pull model manifest: {host} asks to wait for {} s; nothing was lost, and what came before is kept. Pull again after \
         that",
        wait.as_secs()
    )]
    Busy {
        /// The registry.
        host: String,
        /// For how long.
        wait: Duration,
    },
    /// A model for another engine.
    #[error(
        "{name} is published as single tensors for Apple's MLX, which Cairn cannot run; pull a GGUF version of it (its tags \
         without mlx, or hf.co/...-GGUF:Q4_K_M)"
    )]
    Tensors {
        /// The model.
        name: String,
    },
    /// A manifest that is of no model.
    #[error("what {host} sent as {name} names no contents, so there is nothing to fetch")]
    Empty {
        /// The registry.
        host: String,
        /// The model.
        name: String,
    },
    /// A manifest of another kind than models have.
    #[error(
        "what {host} sent as {name} is no manifest of a model: {why}; it may be an image of programs, or an address of \
         something else"
    )]
    Foreign {
        /// The registry.
        host: String,
        /// The model.
        name: String,
        /// What is missing.
        why: &'static str,
    },
    /// Clients want what a user's own model is in the way of.
    #[error("{name} was made here, and is not replaced by what its registry calls so; `cairn pull` would do that")]
    MadeHere {
        /// The model.
        name: String,
    },
    /// The way out cannot be set up.
    #[error("registries cannot be asked: {0}; correct the setting, and start the daemon anew")]
    Transport(String),
    /// Contents did not come.
    #[error("{error}{}", advice(error))]
    Download {
        /// Why.
        error: DownloadError,
    },
    /// Something of it was in the library when the work began, and is not any more.
    #[error("{digest} was removed while the rest of the model came; what came is kept, and the next pull fetches it")]
    Lost {
        /// What.
        digest: Digest,
    },
    /// It came, and could not be put where it belongs.
    #[error("the model could not be put into the library: {0}; what came is kept, for the next pull")]
    Write(Arc<WriteError>),
    /// A manifest that cannot be right.
    #[error("what {host} sent as {name} says of {digest} that it has {} bytes, and {} bytes: nothing was fetched", sizes[0], sizes[1])]
    TwoSizes {
        /// The registry.
        host: String,
        /// The model.
        name: String,
        /// What has one size.
        digest: Digest,
        /// The two that the manifest gives.
        sizes: [u64; 2],
    },
    /// The library could not be written to.
    #[error("{}: the library cannot be written to: {reason}", folder.display())]
    Library {
        /// Which.
        folder: PathBuf,
        /// What is in the way.
        reason: String,
    },
    /// The list of downloads is full.
    #[error(
        "{0} models are in the list of downloads already; let some of them come, or discard some (`cairn downloads`)"
    )]
    TooMany(usize),
    /// Its user stopped it, or nobody watched any more.
    #[error("stopped; what came is kept, and `cairn pull` or `cairn downloads resume` goes on from there")]
    Stopped,
    /// The daemon ends.
    #[error("the daemon ends; what came is kept, and the next one goes on from there by itself")]
    Ending,
    /// Its user threw it away.
    #[error("discarded")]
    Discarded,
    /// The text of a failure before the daemon started anew.
    #[error("{0}")]
    Earlier(String),
}

impl PullError {
    /// Why nobody said what `name` is made of, after it was asked for so often.
    pub(crate) fn of_manifest(error: SourceError, name: &str, times: u32) -> Self {
        match error {
            SourceError::Absent { host } => Self::Absent { host, name: name.to_owned() },
            refused @ SourceError::Refused { .. } => Self::Refused(refused),
            SourceError::Untrusted { host, cause } => Self::Untrusted { host, cause },
            SourceError::Busy { host, retry_after: Some(wait) } if !wait.is_zero() => Self::Busy { host, wait },
            last => Self::Unreachable { last, times },
        }
    }
}

/// What to do about a registry that refuses: something only where it wants to know who asks.
fn on_refusal(error: &SourceError) -> &'static str {
    match error {
        SourceError::Refused { status: Some(401 | 403), .. } => {
            ". Where it wants a name and a password, `cairn login` keeps them"
        }
        _ => "",
    }
}

/// What to do about a server that is not believed.
pub(crate) fn tls_advice(cause: &TlsError) -> &'static str {
    match cause {
        TlsError::UnknownIssuer => {
            ". Where a company's proxy opens TLS, or a registry has an authority of its own, name the file of that \
             authority's certificates (PEM) in CAIRN_CA_FILE and start the daemon anew"
        }
        TlsError::WrongHost { .. } => {
            ". Check the address; a proxy, or a network that wants a sign-in first, may be answering in its place"
        }
        TlsError::Expired | TlsError::NotYetValid => {
            ". Check this machine's clock; if that is right, only the owner of the server can mend it"
        }
        TlsError::PlainHttp => {
            ". --insecure (\"insecure\": true in a request) allows plain http, where whoever is on the way can read and change \
             what comes; an address that begins with http:// does so for a mirror"
        }
        TlsError::Revoked | TlsError::Other(_) => ". Only the owner of the server can mend that",
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

/// What to do about a failed download. Its own text says what happened.
fn advice(error: &DownloadError) -> &'static str {
    match error {
        DownloadError::Dropped { .. } | DownloadError::Stalled { .. } => {
            " `cairn pull` goes on from there; another network or a mirror (CAIRN_MIRRORS) may be steadier"
        }
        DownloadError::Busy { .. } => "; what came is kept. Pull again after that, or from a mirror (--source)",
        DownloadError::Absent { .. } => "; its publisher may be uploading it, or has taken it back: pull again later",
        DownloadError::Refused { status: Some(401 | 402 | 403 | 451), .. } => {
            "; what came is kept. It may be private, or its licence must be accepted first"
        }
        DownloadError::Refused { .. } => "; what came is kept. The server must be mended, or another asked (--source)",
        DownloadError::Unusable { .. } => {
            " The server, or a proxy in between, answers wrongly; `cairn pull` tries it again, another may do better (--source)"
        }
        DownloadError::Untrusted { cause, .. } => tls_advice(cause),
        DownloadError::Mismatch { .. } => {
            ". Nothing of it is used. A proxy or mirror on the way may change what it carries: try another one"
        }
        DownloadError::NoSpace { .. } => {
            ". What came is kept. Make room (`cairn du`, `cairn rm`), or put the library on another disk (OLLAMA_MODELS), \
             and pull again"
        }
        DownloadError::Staging(_) => "; what came is kept",
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
    fn errors_begin_as_clients_know_them_and_end_with_what_to_do() {
        let check = |error: PullError, begins: &str, says: &str| {
            let text = error.to_string();
            assert!(text.starts_with(begins), "{text:?} begins otherwise");
            assert!(text.contains(says), "{text:?} does not say what to do");
        };
        let absent = PullError::Absent { host: "r".into(), name: "m:latest".into() };
        check(absent, "pull model manifest: file does not exist", "check the spelling");
        check(PullError::Insecure { host: "r".into() }, "insecure protocol http", "--insecure");
        let broken = SourceError::Broken { host: "r".into(), reason: "refused".into(), answered: false };
        check(PullError::Unreachable { last: broken, times: 4 }, "pull model manifest: r: refused", "CAIRN_PROXY");
        let busy = SourceError::Busy { host: "r".into(), retry_after: Some(Duration::from_secs(3600)) };
        let told = PullError::of_manifest(busy, "m:latest", 1).to_string();
        assert!(
            told.contains("r asks to wait for 3600 s") && !told.contains("proxy"),
            "it is no fault of ours: {told}"
        );
        let untrusted = |cause| PullError::Untrusted { host: "r".into(), cause };
        let begins = "pull model manifest: r does not prove who it is: its certificate ";
        check(untrusted(TlsError::UnknownIssuer), begins, "CAIRN_CA_FILE");
        check(untrusted(TlsError::Expired), begins, "clock");
        let plain = "pull model manifest: r does not prove who it is: it speaks plain http on an https address";
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
        assert!(!odd.contains("login"), "a manifest that is none wants no password: {odd}");
        let refused = |status: Option<u16>| {
            PullError::from(DownloadError::Refused { host: "r".into(), status, reason: "no".into() }).to_string()
        };
        assert!(refused(Some(403)).contains("may be private"), "it wants to know who asks");
        assert!(!refused(None).contains("private"), "a redirect to nowhere says nothing of that");
        let digest = Digest::of(b"");
        let wrong = DownloadError::Mismatch { want: digest, got: digest, hosts: vec!["r".into()] };
        check(wrong.into(), "digest mismatch, file must be downloaded again: want sha256:", "try another one");
    }
}

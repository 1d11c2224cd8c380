//! Where the bytes of a blob come from: a registry, a mirror, another machine of the network.
//!
//! Downloads know nothing else of the network. A source answers for the transport (redirects, credentials, proxies) and
//! for nothing that it sends: the download checks every byte by the digest.

use std::ops::Range;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use cairn_store::Digest;

/// A future that a trait object returns.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Something that has blobs.
pub trait BlobSource: Send + Sync {
    /// Its host, with the port where it has one, for people and for the health of sources.
    fn host(&self) -> &str;

    /// Asks for the bytes `range` of a blob of `size_bytes` bytes. The answer may begin elsewhere: [`Opened::offset`] says
    /// where. Dropping the body ends the connection.
    fn open<'a>(
        &'a self,
        digest: &'a Digest,
        size_bytes: u64,
        range: Range<u64>,
    ) -> Pending<'a, Result<Opened, SourceError>>;
}

/// An answer whose headers have come.
pub struct Opened {
    /// Where in the blob the first byte of the body belongs. A source that ignores ranges answers from 0.
    pub offset: u64,
    /// The bytes.
    pub body: Box<dyn Body>,
}

/// The bytes of an answer, as they come.
pub trait Body: Send {
    /// The next bytes; `None` at the end, which may be too early or too late: a server can promise anything.
    fn next(&mut self) -> Pending<'_, Result<Option<Bytes>, SourceError>>;
}

/// Why a source did not give what it was asked for. What it says is for people; what follows from it is the variant.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SourceError {
    /// The connection failed or broke, or the server has trouble of its own (a 5xx, a 408): worth another try.
    #[error("{host}: {reason}")]
    Broken {
        /// Which source.
        host: String,
        /// What happened.
        reason: String,
        /// The connection held, and what came over it was of no use.
        answered: bool,
    },
    /// The server asks to be left alone for a while (429, or 503 with `Retry-After`).
    #[error("{host} asks to wait")]
    Busy {
        /// Which source.
        host: String,
        /// For how long; `None` where it did not say.
        retry_after: Option<Duration>,
    },
    /// The source has no such blob or manifest (404).
    #[error("{host} does not have it")]
    Absent {
        /// Which source.
        host: String,
    },
    /// It will not give it to us, however often we ask (401 after signing in, 403, another 4xx, a realm of another host).
    #[error("{host} refused: {reason}")]
    Refused {
        /// Which source.
        host: String,
        /// The status of its answer, where that is the refusal.
        status: Option<u16>,
        /// What it said, or what was wrong with what it said.
        reason: String,
    },
    /// Whoever answers there does not prove to be it, so it was told and asked nothing. No other try changes that.
    #[error("{host} does not prove who it is: {distrust}")]
    Untrusted {
        /// Which source.
        host: String,
        /// What is wrong with its proof.
        distrust: Distrust,
    },
}

/// Why a server is not believed: what is wrong with its certificate, or that it shows none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// It leads to no authority that this machine trusts.
    #[error("its certificate was signed by nobody whom this machine trusts")]
    UnknownAuthority,
    /// It is somebody else's.
    #[error("its certificate is for {}, and not for {wanted}", or_nobody(names))]
    OtherHost {
        /// Who was to be reached.
        wanted: String,
        /// Whose it is.
        names: Vec<String>,
    },
    /// Its time is over, by this machine's clock.
    #[error("its certificate has run out")]
    Expired,
    /// Its time has not begun, by this machine's clock.
    #[error("its certificate is not valid yet")]
    NotYetValid,
    /// Its authority took it back.
    #[error("its certificate was taken back by its authority")]
    Revoked,
    /// It does not speak TLS at all.
    #[error("it was asked over https, and speaks plain http")]
    PlainHttp,
    /// Anything else.
    #[error("its certificate is not right ({0})")]
    Other(String),
}

fn or_nobody(names: &[String]) -> String {
    if names.is_empty() { "another host".to_owned() } else { names.join(", ") }
}

impl SourceError {
    /// Which source it is about.
    #[must_use]
    pub fn host(&self) -> &str {
        match self {
            Self::Broken { host, .. }
            | Self::Busy { host, .. }
            | Self::Absent { host }
            | Self::Refused { host, .. }
            | Self::Untrusted { host, .. } => host,
        }
    }
}

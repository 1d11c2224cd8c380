//! The interface to the sources of a blob: a registry, a mirror, or a peer.
//!
//! Downloads use the network only through this trait. A source handles redirects, credentials and proxies. It does not
//! verify content: the download does that with the digest.

use std::ops::Range;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use cairn_store::Digest;

/// A boxed future, for methods of trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A server from which ranges of blobs can be read.
pub trait BlobSource: Send + Sync {
    /// The host, with a non-default port. Used in messages and as the key of the source's health.
    fn host(&self) -> &str;

    /// Requests the bytes `range` of a blob of `size_bytes` bytes. The body may begin at another offset, see
    /// [`RangeResponse::offset`]. Dropping the body closes the connection.
    fn open<'a>(
        &'a self,
        digest: &'a Digest,
        size_bytes: u64,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<RangeResponse, SourceError>>;
}

/// A response to a range request, after its headers.
pub struct RangeResponse {
    /// Offset of the body's first byte in the blob. 0 if the source ignores ranges.
    pub offset: u64,
    /// The body.
    pub body: Box<dyn Body>,
}

/// A streamed response body.
pub trait Body: Send {
    /// Returns the next bytes, or `None` at the end. The body may be shorter or longer than the requested range.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>>;
}

/// Error of a request to a source. The variant decides how the caller reacts; the text is for users.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SourceError {
    /// The connection failed, or the server reported an internal error (5xx, 408). A retry may succeed.
    #[error("{host}: {reason}")]
    Broken {
        /// The host of the source.
        host: String,
        /// The cause.
        reason: String,
        /// Whether the server sent a response, which was unusable.
        answered: bool,
    },
    /// The server asks to retry later (429, or 503 with `Retry-After`).
    #[error("{host} asks to wait")]
    Busy {
        /// The host of the source.
        host: String,
        /// The requested delay, if the server sent one.
        retry_after: Option<Duration>,
    },
    /// The source does not have the blob or manifest (404).
    #[error("{host} does not have it")]
    Absent {
        /// The host of the source.
        host: String,
    },
    /// The source refuses permanently (401 after authentication, 403, another 4xx, a token server on another host).
    #[error("{host} refused: {reason}")]
    Refused {
        /// The host of the source.
        host: String,
        /// The HTTP status, if the response itself is the refusal.
        status: Option<u16>,
        /// The server's message, or what is wrong with its response.
        reason: String,
    },
    /// The source sent a manifest that is not valid.
    #[error("{host} sent an invalid manifest: {reason}")]
    InvalidManifest {
        /// The host of the source.
        host: String,
        /// Why the manifest is invalid.
        reason: String,
    },
    /// The server could not be authenticated by TLS, so no request was sent. A retry does not help.
    #[error("cannot verify the identity of {host}: {cause}")]
    Untrusted {
        /// The host of the source.
        host: String,
        /// Why its identity could not be verified.
        cause: TlsError,
    },
}

/// Why a server's identity could not be verified by TLS.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The issuer of the certificate is not trusted.
    #[error("its certificate is from an issuer that this machine does not trust")]
    UnknownIssuer,
    /// The certificate is for another host.
    #[error("its certificate is for {}, and not for {requested}", host_names(names))]
    WrongHost {
        /// The requested host.
        requested: String,
        /// The hosts in the certificate.
        names: Vec<String>,
    },
    /// The certificate has expired, by this machine's clock.
    #[error("its certificate has expired")]
    Expired,
    /// The certificate is not valid yet, by this machine's clock.
    #[error("its certificate is not valid yet")]
    NotYetValid,
    /// The issuer revoked the certificate.
    #[error("its certificate was revoked")]
    Revoked,
    /// The server does not use TLS.
    #[error("it speaks plain http on an https address")]
    PlainHttp,
    /// Another error of the certificate.
    #[error("its certificate is invalid ({0})")]
    Other(String),
}

fn host_names(names: &[String]) -> String {
    if names.is_empty() { "another host".to_owned() } else { names.join(", ") }
}

impl SourceError {
    /// The host of the source.
    #[must_use]
    pub fn host(&self) -> &str {
        match self {
            Self::Broken { host, .. }
            | Self::Busy { host, .. }
            | Self::Absent { host }
            | Self::Refused { host, .. }
            | Self::InvalidManifest { host, .. }
            | Self::Untrusted { host, .. } => host,
        }
    }
}

//! Errors and notices of downloads.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cairn_store::{Digest, StagingError};

use crate::TlsError;

/// Error of a download. Unless noted otherwise, partial data is kept and the next attempt resumes.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DownloadError {
    /// The download was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The sources failed repeatedly without enough progress in between.
    #[error("Connection dropped {times} times at {}. Nothing is lost. ({last})", Of(*held_bytes, *size_bytes))]
    Dropped {
        /// Failures in a row.
        times: u32,
        /// Received bytes.
        held_bytes: u64,
        /// Size of the blob.
        size_bytes: u64,
        /// The last failure, with the host.
        last: String,
    },
    /// The sources repeatedly sent unusable responses.
    #[error("{last}, at {}, after {times} attempts. Nothing is lost.", Of(*held_bytes, *size_bytes))]
    Unusable {
        /// Failures in a row.
        times: u32,
        /// Received bytes.
        held_bytes: u64,
        /// Size of the blob.
        size_bytes: u64,
        /// The error of the last response, with the host.
        last: String,
    },
    /// The sources accepted connections and sent no data.
    #[error(
        "No data received for {} s, {times} times, at {}. Nothing is lost.",
        stall.as_secs_f32(),
        Of(*held_bytes, *size_bytes)
    )]
    Stalled {
        /// Failures in a row.
        times: u32,
        /// Duration of each stall.
        stall: Duration,
        /// Received bytes.
        held_bytes: u64,
        /// Size of the blob.
        size_bytes: u64,
    },
    /// A source requests a longer delay than the configured maximum.
    #[error("{host} asks to wait for {} s", retry_after.as_secs())]
    Busy {
        /// The host.
        host: String,
        /// The requested delay.
        retry_after: Duration,
    },
    /// No source has the blob.
    #[error("{}", absent(hosts, digest))]
    Absent {
        /// The blob.
        digest: Digest,
        /// The hosts that were asked.
        hosts: Vec<String>,
    },
    /// A source refused, and the others do not have the blob.
    #[error("{host} refused: {reason}")]
    Refused {
        /// The host.
        host: String,
        /// The HTTP status, if the response itself is the refusal.
        status: Option<u16>,
        /// The reason.
        reason: String,
    },
    /// A source could not be authenticated by TLS, and the others do not have the blob.
    #[error("cannot verify the identity of {host}: {cause}")]
    Untrusted {
        /// The host.
        host: String,
        /// Why its identity could not be verified.
        cause: TlsError,
    },
    /// The downloaded data has another digest. It was deleted.
    #[error("digest mismatch, file must be downloaded again: want {want}, got {got}{}", from(hosts))]
    Mismatch {
        /// The expected digest.
        want: Digest,
        /// The digest of the data.
        got: Digest,
        /// The hosts that sent it.
        hosts: Vec<String>,
    },
    /// The disk has not enough free space.
    #[error(
        "Not enough space in {}: {} needed (including a reserve of {}), {} free",
        folder.display(),
        Size(*need_bytes),
        Size(*reserve_bytes),
        Size(*free_bytes)
    )]
    NoSpace {
        /// Remaining bytes of all running downloads, plus the reserve.
        need_bytes: u64,
        /// The reserve that must stay free.
        reserve_bytes: u64,
        /// Free bytes.
        free_bytes: u64,
        /// The folder.
        folder: PathBuf,
    },
    /// The download has no source.
    #[error("no source for {0}")]
    NoSource(Digest),
    /// A disk operation failed.
    #[error("{0}")]
    Staging(Arc<StagingError>),
    /// The process is shutting down, or a task panicked.
    #[error("the download was aborted")]
    Aborted,
}

impl From<StagingError> for DownloadError {
    fn from(error: StagingError) -> Self {
        Self::Staging(Arc::new(error))
    }
}

/// A message about a running download, for users.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DownloadNotice {
    /// A source failed and is retried later.
    #[error("{reason}; trying again in {:.0} s", wait.as_secs_f32().ceil())]
    Waiting {
        /// The failure, with the host.
        reason: String,
        /// The backoff.
        wait: Duration,
    },
    /// The download switched to another source.
    #[error("{to} instead of {from}: {reason}")]
    FellBack {
        /// The previous host.
        from: String,
        /// The new host.
        to: String,
        /// Why it switched.
        reason: String,
    },
    /// A second source is used in parallel, because the preferred one alone would take long.
    #[error("also downloading from {host}, in parallel with {leader}")]
    Joined {
        /// The additional host.
        host: String,
        /// The preferred host.
        leader: String,
    },
    /// A silent or slow stream was reopened.
    #[error("a stream from {host} was {why}; reopened")]
    Reopened {
        /// The host.
        host: String,
        /// `slow` or `silent`.
        why: &'static str,
    },
    /// The data has the wrong digest and is downloaded again.
    #[error("digest mismatch; downloading again from {again} only")]
    Mismatch {
        /// The new host.
        again: String,
    },
    /// A source was found to have sent wrong bytes.
    #[error("{host} sent wrong bytes and is not used for {digest} any more")]
    WrongBytes {
        /// The host.
        host: String,
        /// The blob.
        digest: Digest,
    },
    /// Another process downloads the same blob; this download waits for it.
    #[error("another process is downloading it")]
    OtherProcess,
}

/// Formats a number of bytes.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..10_000 => write!(f, "{} bytes", self.0),
            10_000..10_000_000 => write!(f, "{} kB", self.0 / 1000),
            10_000_000..1_000_000_000 => write!(f, "{} MB", self.0 / 1_000_000),
            _ => write!(f, "{:.1} GB", self.0 as f64 / 1e9),
        }
    }
}

/// Formats two numbers of bytes: "6.5 of 6.6 GB".
struct Of(u64, u64);

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            0..10_000 => write!(f, "{} of {} bytes", self.0, self.1),
            10_000..10_000_000 => write!(f, "{} of {} kB", self.0 / 1000, self.1 / 1000),
            10_000_000..1_000_000_000 => write!(f, "{} of {} MB", self.0 / 1_000_000, self.1 / 1_000_000),
            _ => write!(f, "{:.1} of {:.1} GB", self.0 as f64 / 1e9, self.1 as f64 / 1e9),
        }
    }
}

fn from(hosts: &[String]) -> String {
    if hosts.is_empty() { String::new() } else { format!(" (from {})", hosts.join(", ")) }
}

fn absent(hosts: &[String], digest: &Digest) -> String {
    match hosts {
        [host] => format!("{host} does not have {digest}"),
        _ => format!("{} do not have {digest}", hosts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_texts_are_complete() {
        let dropped = DownloadError::Dropped {
            times: 6,
            held_bytes: 6_512_000_000,
            size_bytes: 6_601_000_000,
            last: "nas: reset".to_owned(),
        };
        let expected = "Connection dropped 6 times at 6.5 of 6.6 GB. Nothing is lost. (nas: reset)";
        assert_eq!(dropped.to_string(), expected, "the text says that nothing is lost");
        let digest = Digest::of(b"");
        let absent = |hosts: &[&str]| {
            DownloadError::Absent { digest, hosts: hosts.iter().map(|host| (*host).to_owned()).collect() }.to_string()
        };
        assert_eq!(absent(&["nas"]), format!("nas does not have {digest}"), "one host");
        assert_eq!(absent(&["nas", "hub"]), format!("nas, hub do not have {digest}"), "two hosts");
        let space = DownloadError::NoSpace {
            need_bytes: 7_000_000_000,
            reserve_bytes: 500_000_000,
            free_bytes: 41_000_000,
            folder: "/models".into(),
        };
        let expected = "Not enough space in /models: 7.0 GB needed (including a reserve of 500 MB), 41 MB free";
        assert_eq!(space.to_string(), expected, "needed and free bytes");
    }
}

//! Why a blob was not fetched, and what is worth saying while it is.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cairn_store::{Digest, StagingError};

use crate::Distrust;

/// Why a blob was not fetched. Unless it says otherwise, what was fetched is kept, and the next try goes on from there.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DownloadError {
    /// Whoever wanted it wants it no more.
    #[error("cancelled")]
    Cancelled,
    /// The sources failed again and again, without enough bytes in between to go on.
    #[error("Connection dropped {times} times at {}. Nothing is lost. ({last})", Of(*held_bytes, *size_bytes))]
    Dropped {
        /// How often in a row.
        times: u32,
        /// How much was here.
        held_bytes: u64,
        /// Of how much.
        size_bytes: u64,
        /// What happened last, with the host.
        last: String,
    },
    /// The sources answered again and again with what is of no use.
    #[error("{last}, at {}, after {times} tries. Nothing is lost.", Of(*held_bytes, *size_bytes))]
    Unusable {
        /// How often in a row.
        times: u32,
        /// How much was here.
        held_bytes: u64,
        /// Of how much.
        size_bytes: u64,
        /// What was wrong with the last answer, with the host.
        last: String,
    },
    /// The sources took connections and then sent nothing.
    #[error(
        "Nothing came for {} s, {times} times, at {}. Nothing is lost.",
        stall.as_secs_f32(),
        Of(*held_bytes, *size_bytes)
    )]
    Stalled {
        /// How often in a row.
        times: u32,
        /// How long each time.
        stall: Duration,
        /// How much was here.
        held_bytes: u64,
        /// Of how much.
        size_bytes: u64,
    },
    /// A source asks for a longer wait than is worth waiting.
    #[error("{host} asks to wait for {} s", retry_after.as_secs())]
    Busy {
        /// Which one.
        host: String,
        /// For how long.
        retry_after: Duration,
    },
    /// No source has it.
    #[error("{}", absent(hosts, digest))]
    Absent {
        /// What was asked for.
        digest: Digest,
        /// Who was asked.
        hosts: Vec<String>,
    },
    /// A source will not give it, and the others do not have it.
    #[error("{host} refused: {reason}")]
    Refused {
        /// Which one.
        host: String,
        /// The status of its answer, where that is the refusal.
        status: Option<u16>,
        /// What it said.
        reason: String,
    },
    /// Whoever answers for a source does not prove to be it, and the others do not have it.
    #[error("{host} does not prove who it is: {distrust}")]
    Untrusted {
        /// Which one.
        host: String,
        /// What is wrong with its proof.
        distrust: Distrust,
    },
    /// What came is not what was asked for. It was thrown away.
    #[error("digest mismatch, file must be downloaded again: want {want}, got {got}{}", from(hosts))]
    Mismatch {
        /// The digest that was asked for.
        want: Digest,
        /// The digest of what came.
        got: Digest,
        /// Who sent it.
        hosts: Vec<String>,
    },
    /// There is no room for it.
    #[error(
        "Not enough space in {}: {} needed, {} kept free included, and {} free",
        folder.display(),
        Size(*need_bytes),
        Size(*reserve_bytes),
        Size(*free_bytes)
    )]
    NoSpace {
        /// What is still to be fetched, by other downloads too, and the reserve.
        need_bytes: u64,
        /// What is to be kept free.
        reserve_bytes: u64,
        /// What is free.
        free_bytes: u64,
        /// Where.
        folder: PathBuf,
    },
    /// There is no source to ask.
    #[error("there is no source for {0}")]
    NoSource(Digest),
    /// The disk refused.
    #[error("{0}")]
    Staging(Arc<StagingError>),
    /// The program is ending, or has a fault.
    #[error("the download ended unexpectedly")]
    Ended,
}

impl From<StagingError> for DownloadError {
    fn from(error: StagingError) -> Self {
        Self::Staging(Arc::new(error))
    }
}

/// What happens to a download that goes on. Its text is for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Notice {
    /// A source failed and is asked again later.
    #[error("{reason}; trying again in {:.0} s", wait.as_secs_f32().ceil())]
    Waiting {
        /// What happened, with the host.
        reason: String,
        /// For how long it is left alone.
        wait: Duration,
    },
    /// Bytes come from another source than before.
    #[error("{to} instead of {from}: {reason}")]
    FellBack {
        /// Who was asked before.
        from: String,
        /// Who is asked now.
        to: String,
        /// What was wrong.
        reason: String,
    },
    /// Another source sends too, because the one that leads would take long by itself.
    #[error("{host} sends too, beside {beside}")]
    Joined {
        /// Who.
        host: String,
        /// Who leads.
        beside: String,
    },
    /// A stream that had stopped or was slow was opened anew.
    #[error("a stream from {host} was {why}; reopened")]
    Reopened {
        /// From where.
        host: String,
        /// What was wrong.
        why: &'static str,
    },
    /// What came was not what was asked for; it is fetched again.
    #[error("what came has the wrong digest; fetching it again from {again} alone")]
    Mismatch {
        /// Who is asked now.
        again: String,
    },
    /// It is now known who sent wrong bytes.
    #[error("{host} sent wrong bytes and is not asked for {digest} again")]
    WrongBytes {
        /// Who.
        host: String,
        /// Of what.
        digest: Digest,
    },
    /// Another process fetches the same blob; this one waits for it.
    #[error("another process is fetching it")]
    Elsewhere,
}

/// A number of bytes for people.
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

/// "6.5 of 6.6 GB".
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
    fn errors_are_lines_for_people() {
        let dropped = DownloadError::Dropped {
            times: 6,
            held_bytes: 6_512_000_000,
            size_bytes: 6_601_000_000,
            last: "nas: reset".to_owned(),
        };
        let said = "Connection dropped 6 times at 6.5 of 6.6 GB. Nothing is lost. (nas: reset)";
        assert_eq!(dropped.to_string(), said, "the user's first question is what is lost");
        let digest = Digest::of(b"");
        let absent = |hosts: &[&str]| {
            DownloadError::Absent { digest, hosts: hosts.iter().map(|host| (*host).to_owned()).collect() }.to_string()
        };
        assert_eq!(absent(&["nas"]), format!("nas does not have {digest}"), "one");
        assert_eq!(absent(&["nas", "hub"]), format!("nas, hub do not have {digest}"), "two");
        let space = DownloadError::NoSpace {
            need_bytes: 7_000_000_000,
            reserve_bytes: 500_000_000,
            free_bytes: 41_000_000,
            folder: "/models".into(),
        };
        let said = "Not enough space in /models: 7.0 GB needed, 500 MB kept free included, and 41 MB free";
        assert_eq!(space.to_string(), said, "need and have");
    }
}

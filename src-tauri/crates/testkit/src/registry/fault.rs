//! What can be wrong with an answer, and how often it is.

use std::time::Duration;

use crate::Random;

/// Something wrong with one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection closes after some of the bytes.
    Drop,
    /// Some of the bytes come, then none for this long, then the connection closes.
    Stall(Duration),
    /// The answer promises fewer bytes than were asked for, and sends those.
    Short,
    /// The answer promises and sends more bytes than were asked for.
    Long,
    /// One bit is another.
    Flip,
    /// This and the next answers, so many in all, are nothing but this status: 401, 429, 500, 502, 503.
    Storm {
        /// Which status.
        status: u16,
        /// How many answers.
        answers: u32,
    },
    /// The bytes come slowly.
    Slow {
        /// How slowly.
        bytes_per_second: u64,
    },
    /// All bytes from the first one on, with status 200.
    IgnoreRange,
    /// The answer begins one byte late, and says so.
    OffByOne,
    /// The blob has another `ETag` than before.
    OtherEtag,
    /// Tokens and addresses of storage that were given out are worthless from now on.
    Expire,
}

/// How a registry behaves.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// Faults of answers with blobs, each with how many of 1,000 answers have it.
    pub of_1000: Vec<(Fault, u32)>,
    /// Faults that may still happen; `None` for no end.
    pub budget: Option<u32>,
    /// Manifests and blobs need a token, which the registry gives to whoever asks.
    pub sign_in: bool,
    /// Blobs are at another host, to which the registry sends.
    pub redirect: bool,
    /// Pace of every answer with a blob; `None` for as fast as it goes.
    pub bytes_per_second: Option<u64>,
}

impl Faults {
    /// The fault of the next answer, if any, which is then one fewer.
    pub(super) fn draw(&mut self, random: &mut Random) -> Option<Fault> {
        if self.budget == Some(0) {
            return None;
        }
        let mut drawn = random.below(1000);
        let fault = self.of_1000.iter().find_map(|(fault, of_1000)| match drawn.checked_sub(u64::from(*of_1000)) {
            None => Some(*fault),
            Some(left) => {
                drawn = left;
                None
            }
        })?;
        self.budget = self.budget.map(|left| left - 1);
        Some(fault)
    }
}

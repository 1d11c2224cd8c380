//! Faults of responses, and their rates.

use std::time::Duration;

use crate::Random;

/// Fault of one response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection closes after some of the bytes.
    Drop,
    /// After some of the bytes, nothing is sent for this long, then the connection closes.
    Stall(Duration),
    /// `Content-Length` and body have fewer bytes than requested.
    Short,
    /// `Content-Length` and body have more bytes than requested.
    Long,
    /// One bit is flipped.
    Flip,
    /// This and the next responses fail with one status: 401, 429, 500, 502, 503.
    Storm {
        /// The status.
        status: u16,
        /// Number of failed responses.
        responses: u32,
    },
    /// The body is sent slowly.
    Slow {
        /// Transfer rate.
        bytes_per_second: u64,
    },
    /// The whole body with status 200, ignoring the range.
    IgnoreRange,
    /// The range begins one byte late, in header and body.
    OffByOne,
    /// The `ETag` differs from the previous one.
    OtherEtag,
    /// All issued tokens and storage addresses become invalid.
    Expire,
}

/// Configuration of a registry's behaviour.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// Faults of blob responses, each with its rate per 1,000 responses.
    pub per_1000: Vec<(Fault, u32)>,
    /// Maximum number of further faults; `None` for no limit.
    pub budget: Option<u32>,
    /// Manifests and blobs require a token, which every client gets on request.
    pub sign_in: bool,
    /// Requests for blobs are redirected to the storage host.
    pub redirect: bool,
    /// Transfer rate of all blob responses; `None` for no limit.
    pub bytes_per_second: Option<u64>,
}

impl Faults {
    /// Draws the fault of the next response and charges it to the budget.
    pub(super) fn draw(&mut self, random: &mut Random) -> Option<Fault> {
        if self.budget == Some(0) {
            return None;
        }
        let mut drawn = random.below(1000);
        let fault =
            self.per_1000.iter().find_map(|(fault, per_1000)| match drawn.checked_sub(u64::from(*per_1000)) {
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

//! Where readers of a blob that is still coming wait: bytes that somebody wants now, however late in the blob they are.
//!
//! A client that fetches a blob in parts reads all of them at once, and gives up on one that stays silent. So a reader that
//! has waited for a while says where, and a little is fetched from there before what is next in order.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Wishes that are kept; readers say theirs again.
const MAX_WISHES: usize = 256;

/// Positions in a blob, the one that was wished for first in front.
#[derive(Debug, Default)]
pub(crate) struct Wishes(Mutex<VecDeque<u64>>);

impl Wishes {
    pub(crate) fn add(&self, position: u64) {
        let mut wishes = self.lock();
        if wishes.len() < MAX_WISHES && !wishes.contains(&position) {
            wishes.push_back(position);
        }
    }

    /// All of them, which are none of its business any more.
    pub(super) fn take(&self) -> VecDeque<u64> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

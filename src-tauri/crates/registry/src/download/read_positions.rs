//! Positions at which readers wait for bytes of an unfinished download.
//!
//! A client that downloads a blob in parallel parts aborts a part without data. So a waiting reader registers its position,
//! and some bytes from there are downloaded out of order.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Maximum number of positions; readers register again.
const MAX_POSITIONS: usize = 256;

/// Queue of positions in a blob, oldest first.
#[derive(Debug, Default)]
pub(crate) struct ReadPositions(Mutex<VecDeque<u64>>);

impl ReadPositions {
    pub(crate) fn add(&self, position: u64) {
        let mut positions = self.0.lock();
        if positions.len() < MAX_POSITIONS && !positions.contains(&position) {
            positions.push_back(position);
        }
    }

    /// Removes and returns all positions.
    pub(super) fn take(&self) -> VecDeque<u64> {
        std::mem::take(&mut *self.0.lock())
    }
}

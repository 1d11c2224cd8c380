//! Snapshots: the recurrent states of all layers after some token of a sequence.
//!
//! A page grows by rows, and a row is written once. A recurrent state is replaced by every row, so it has no place in pages. A run
//! reads the states of a sequence from one snapshot and writes them to others. The first one stays as it is, so that a run can be
//! repeated, and several sequences can continue from it.
//!
//! ```text
//! layer 0 | layer 1 | ...     f32, each layer at a multiple of 64 bytes
//! ```

use std::ops::Range;

use crate::state::{Recurrent, RecurrentId};

/// A snapshot of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SnapshotId(pub u32);

/// Byte ranges of the states in a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotLayout {
    /// By [`RecurrentId`].
    pub sections: Vec<Range<usize>>,
    /// Bytes of a snapshot; 0 if a plan has no recurrent states.
    pub bytes: usize,
}

impl SnapshotLayout {
    /// Returns the layout of snapshots of these states.
    pub fn new(states: &[Recurrent]) -> Self {
        let mut bytes = 0usize;
        let section = |state: &Recurrent| {
            let start = bytes;
            bytes += (state.elements * size_of::<f32>()).next_multiple_of(64);
            start..start + state.elements * size_of::<f32>()
        };
        let sections = states.iter().map(section).collect();
        Self { sections, bytes }
    }

    /// The elements of one state, as positions in a snapshot of f32.
    pub(crate) fn elements(&self, state: RecurrentId) -> Range<usize> {
        let Range { start, end } = self.sections[state.0 as usize];
        start / size_of::<f32>()..end / size_of::<f32>()
    }
}

/// Recurrent states of one sequence in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SnapshotTable {
    /// The states before the first row; none at the start of a sequence, where all states are zero.
    pub from: Option<SnapshotId>,
    /// Snapshots that receive the states after this many tokens of the sequence, in ascending order. The last one is after the last
    /// row.
    pub to: Vec<(u32, SnapshotId)>,
}

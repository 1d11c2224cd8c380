//! Snapshots of recurrent states. Each has memory of its own, which the system backs at first touch.

use std::ops::Range;

use crate::backend::BackendError;
use crate::snapshot::{SnapshotId, SnapshotLayout};
use crate::state::RecurrentId;
use crate::team::Worker;
use crate::team::share::{OutOfMemory, Read, Shared, Write};

/// Snapshots of one layout.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    layout: SnapshotLayout,
    snapshots: Vec<Shared<f32>>,
    threads: usize,
}

impl Snapshots {
    /// Sets the layout of the first plan, for teams of up to `threads` threads.
    pub(super) fn set_layout(&mut self, layout: &SnapshotLayout, threads: usize) {
        self.layout.clone_from(layout);
        self.threads = threads;
    }

    /// Number of snapshots.
    pub(super) fn len(&self) -> usize {
        self.snapshots.len()
    }

    /// Grows to at least this many snapshots.
    pub(super) fn grow(&mut self, count: usize) -> Result<(), BackendError> {
        while self.snapshots.len() < count {
            let refused = |OutOfMemory(need_bytes)| BackendError::Memory { what: "snapshots", need_bytes };
            let snapshot = Shared::zeroed(1, self.layout.bytes / size_of::<f32>(), self.threads);
            self.snapshots.push(snapshot.map_err(refused)?);
        }
        Ok(())
    }

    /// Claims some elements of a state for reads.
    pub(super) fn read(
        &self,
        worker: &Worker<'_>,
        id: SnapshotId,
        state: RecurrentId,
        elements: Range<usize>,
    ) -> Read<'_, f32> {
        self.snapshots[id.0 as usize].read(worker, self.place(state, &elements))
    }

    /// Claims some elements of a state for writes.
    pub(super) fn write(
        &self,
        worker: &Worker<'_>,
        id: SnapshotId,
        state: RecurrentId,
        elements: Range<usize>,
    ) -> Write<'_, f32> {
        self.snapshots[id.0 as usize].write(worker, self.place(state, &elements))
    }

    /// Reads a state's bytes.
    pub(super) fn read_bytes(&self, id: SnapshotId, state: RecurrentId, out: &mut [u8]) {
        let mut values = vec![0.0; out.len() / size_of::<f32>()];
        self.snapshots[id.0 as usize].copy_to(self.layout.elements(state), &mut values);
        let bytes = out.as_chunks_mut().0.iter_mut();
        bytes.zip(values).for_each(|(bytes, value)| *bytes = value.to_le_bytes());
    }

    /// Writes a state's bytes.
    pub(super) fn write_bytes(&mut self, id: SnapshotId, state: RecurrentId, bytes: &[u8]) {
        let values = &mut self.snapshots[id.0 as usize].all_mut()[self.layout.elements(state)];
        let bytes = bytes.as_chunks().0.iter();
        values.iter_mut().zip(bytes).for_each(|(value, bytes)| *value = f32::from_le_bytes(*bytes));
    }

    /// Positions of a state's elements in a snapshot.
    fn place(&self, state: RecurrentId, elements: &Range<usize>) -> Range<usize> {
        let Range { start, end } = self.layout.elements(state);
        assert!(elements.end <= end - start, "elements {elements:?} leave a state of {}", end - start);
        start + elements.start..start + elements.end
    }
}

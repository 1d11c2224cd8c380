//! Recurrent states, token by token.

use super::step::Step;
use crate::state::RecurrentId;

impl Step<'_> {
    /// Calls `token` with the index of each row of the batch and the state before it. A sequence begins with its snapshot or with zeros,
    /// and the requested snapshots are written.
    pub(super) fn recur(&mut self, id: RecurrentId, mut token: impl FnMut(&mut Self, usize, &mut [f32])) {
        let (batch, section) = (self.batch, self.layout.snapshot.elements(id));
        let mut index = 0;
        for rows in batch.rows.chunk_by(|a, b| a.seq == b.seq) {
            let table = &batch.snapshots[rows[0].seq as usize];
            let mut state = match table.from {
                Some(from) => self.snapshots[from.0 as usize][section.clone()].to_vec(),
                None => vec![0.0; section.len()],
            };
            for row in rows {
                token(self, index, &mut state);
                for (_, to) in table.to.iter().filter(|(tokens, _)| *tokens == row.slot + 1) {
                    self.snapshots[to.0 as usize][section.clone()].copy_from_slice(&state);
                }
                index += 1;
            }
        }
    }
}

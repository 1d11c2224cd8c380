//! Prefetches into RAM: prefixes that will be needed soon, and restores that timed out while the tier was slow.

use std::time::Duration;

use super::TierKind;
use super::restore_job::{RestoreJob, Slot};
use super::state::{State, high_mark};
use crate::chunk::{ChunkId, Group};
use crate::coverage::{ReadRequest, RestoreStep};

impl State {
    /// Starts to load the chunks of a prefix that are below RAM, as far as there is room.
    pub(super) fn prefetch(&mut self, path: &[ChunkId], now: Duration) {
        let Some(last) = path.first() else { return };
        let loads = |job: &RestoreJob| job.is_prefetch && job.requests.iter().any(|request| request.step.id == *last);
        if self.jobs.values().any(loads) {
            return;
        }
        // Full-attention chunks first, then the window chunks at the end that are stored.
        let window = path.iter().map(|id| id.in_group(Group::Window));
        let seen = window.take_while(|id| self.catalog.get(id).is_some());
        let all: Vec<ChunkId> = seen.chain(path.iter().copied()).collect();
        let requests = all.iter().rev().map_while(|id| {
            let entry = self.catalog.get(id)?;
            let (keys, rows) = (entry.keys.clone()?, 0..entry.tokens as usize);
            let step = RestoreStep {
                id: *id,
                parent: entry.parent,
                first_position: entry.first_position,
                rows: rows.len(),
                tier: TierKind::Ram,
                bytes: Some(entry.payload_bytes),
            };
            Some(ReadRequest { step, keys, rows, class: Some(entry.class.clone()), allow_lossy: true })
        });
        let requests = requests.collect();
        let number = self.begin_job(requests, now, Duration::MAX, true);
        self.advance_prefetch(number);
    }

    /// Continues a restore as a prefetch after its reader gave up.
    pub(super) fn continue_as_prefetch(&mut self, number: u64) {
        if let Some(job) = self.jobs.get_mut(&number) {
            job.is_prefetch = true;
            job.waker = None;
        }
        self.advance_prefetch(number);
    }

    /// Skips a prefetch's read if RAM has the chunk meanwhile. Returns whether it was skipped.
    pub(super) fn skip_if_in_ram(&mut self, number: u64, index: usize) -> bool {
        let Some(job) = self.jobs.get_mut(&number).filter(|job| job.is_prefetch) else { return false };
        let in_ram = |id: &ChunkId| self.catalog.get(id).is_some_and(|entry| entry.ram.is_some());
        let is_in_ram = in_ram(&job.requests[index].step.id);
        if is_in_ram {
            job.slots[index] = Slot::Taken;
            self.advance_prefetch(number);
        }
        is_in_ram
    }

    /// Moves a prefetch's finished reads to RAM. Ends the job when it is complete or RAM is full.
    pub(super) fn advance_prefetch(&mut self, number: u64) {
        loop {
            let used = self.ram_used();
            let high = high_mark(self.catalog.tier(TierKind::Ram).budget());
            let Some(job) = self.jobs.get_mut(&number).filter(|job| job.is_prefetch) else { return };
            let slot = job.slots.get_mut(job.taken);
            let chunk = match slot {
                Some(Slot::Due(_) | Slot::Reading(..)) => return,
                Some(slot @ Slot::Ready(_)) => match std::mem::replace(slot, Slot::Taken) {
                    Slot::Ready(restored) => restored.chunk,
                    _ => return,
                },
                Some(Slot::Taken) => {
                    job.taken += 1;
                    continue;
                }
                Some(Slot::Missed(_)) | None => break,
            };
            job.taken += 1;
            let (id, bytes) = (chunk.head.id, chunk.head.payload_bytes());
            if self.catalog.get(&id).is_some_and(|entry| entry.ram.is_some()) {
                continue;
            }
            if used + bytes > high {
                self.to_free.push((chunk, 0));
                break;
            }
            self.catalog.insert_ram(chunk);
            self.counts.stored(TierKind::Ram, bytes);
        }
        let rest = self.end_job(number).into_iter().flat_map(|job| job.slots);
        let rows =
            rest.filter_map(|slot| if let Slot::Ready(restored) = slot { Some((restored.chunk, 0)) } else { None });
        self.to_free.extend(rows);
    }
}

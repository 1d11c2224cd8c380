//! Restores that nobody waits for: a context that will be wanted soon, and what a place was too slow to give to who waited for it. What
//! they bring goes to RAM, as long as there is room.

use std::time::Duration;

use super::Place;
use super::read::{Job, Slot};
use super::state::{State, high_mark};
use crate::chunk::{ChunkId, Group};
use crate::coverage::{Ask, Step};

impl State {
    /// Has what is kept below RAM of a context brought up, as long as there is room.
    pub(super) fn prefetch(&mut self, path: &[ChunkId], now: Duration) {
        let Some(last) = path.first() else { return };
        let brings = |job: &Job| job.ahead && job.asks.iter().any(|ask| ask.step.id == *last);
        if self.jobs.values().any(brings) {
            return;
        }
        // Windows last: those that the end sees are kept, if any are.
        let window = path.iter().map(|id| id.in_group(Group::Window));
        let seen = window.take_while(|id| self.catalog.get(id).is_some());
        let all: Vec<ChunkId> = seen.chain(path.iter().copied()).collect();
        let known = all.iter().rev().map_while(|id| {
            let entry = self.catalog.get(id)?;
            let (keys, rows) = (entry.keys.clone()?, 0..entry.tokens as usize);
            let step = Step {
                id: *id,
                parent: entry.parent,
                first_position: entry.first_position,
                rows: rows.len(),
                place: Place::Ram,
                bytes: Some(entry.payload_bytes),
            };
            Some(Ask { step, keys, rows, class: Some(entry.class.clone()), lossy: true })
        });
        let asks = known.collect();
        let number = self.begin_job(asks, now, Duration::MAX, true);
        self.step_ahead(number);
    }

    /// Lets a restore go on that nobody waits for any more.
    pub(super) fn leave(&mut self, number: u64) {
        if let Some(job) = self.jobs.get_mut(&number) {
            job.ahead = true;
        }
        self.step_ahead(number);
    }

    /// Whether what is to be read for nobody in particular has come to RAM meanwhile, and need not be read.
    pub(super) fn is_ahead_of(&mut self, number: u64, index: usize) -> bool {
        let Some(job) = self.jobs.get_mut(&number).filter(|job| job.ahead) else { return false };
        let there = |id: &ChunkId| self.catalog.get(id).is_some_and(|entry| entry.ram.is_some());
        let is_there = there(&job.asks[index].step.id);
        if is_there {
            job.slots[index] = Slot::Taken;
            self.step_ahead(number);
        }
        is_there
    }

    /// Moves what has come for nobody in particular to RAM, and ends when there is no more, or no room.
    pub(super) fn step_ahead(&mut self, number: u64) {
        loop {
            let used = self.ram_used();
            let high = high_mark(self.catalog.shelf(Place::Ram).budget());
            let Some(job) = self.jobs.get_mut(&number).filter(|job| job.ahead) else { return };
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
                self.trash.push((chunk, 0));
                break;
            }
            self.catalog.put_ram(chunk);
            self.counts.stored(Place::Ram, bytes);
        }
        let rest = self.end_job(number).into_iter().flat_map(|job| job.slots);
        let rows =
            rest.filter_map(|slot| if let Slot::Ready(restored) = slot { Some((restored.chunk, 0)) } else { None });
        self.trash.extend(rows);
    }
}

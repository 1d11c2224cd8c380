//! What can be told of the tiers: levels, flows since the start, and events as they happen.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use super::queue::Writable;
use super::state::State;
use super::{End, Tiers};
use crate::catalog::{LOWER, PLACES};
use crate::owner::Owner;
use crate::tier::Place;

/// Events that wait for a slow listener; beyond that it misses some.
const FEED: usize = 256;
/// How much of a new measurement goes into a rate.
const RATE_PART: f64 = 0.2;

/// What a place has done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    /// Tokens whose rows came from here.
    pub hit_tokens: u64,
    /// Chunks and bytes that came from here.
    pub restored_chunks: u64,
    /// See [`Flow::restored_chunks`].
    pub restored_bytes: u64,
    /// Bytes that reads give in a second, lately; none before the first.
    pub read_bytes_per_s: Option<f64>,
    /// Chunks and bytes that were put here.
    pub stored_chunks: u64,
    /// See [`Flow::stored_chunks`].
    pub stored_bytes: u64,
    /// Chunks and bytes that had to go to make room.
    pub evicted_chunks: u64,
    /// See [`Flow::evicted_chunks`].
    pub evicted_bytes: u64,
    /// Bytes that left, for each reason by [`Gone`]'s order.
    pub gone_bytes: [u64; Gone::COUNT],
    /// Chunks that were damaged.
    pub damaged: u64,
    /// Chunks that were listed and not there.
    pub lost: u64,
    /// Calls that failed.
    pub failed: u64,
}

/// How a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// All is well.
    Up,
    /// Its chunks are being listed.
    Scanning,
    /// It is full, or a write failed: it is read, and written to again in a while.
    ReadOnly,
    /// It gave several damaged chunks: it is read and not written to until the next start.
    Suspect,
    /// It does not answer, and is asked again in a while.
    Away,
}

/// A place now.
#[derive(Clone, Debug, PartialEq)]
pub struct PlaceStatus {
    /// Which.
    pub place: Place,
    /// How it is.
    pub health: Health,
    /// Why it is not well, where it is not.
    pub trouble: Option<String>,
    /// Bytes that it may hold.
    pub budget_bytes: u64,
    /// Bytes that it holds, with what is on its way in or out.
    pub used_bytes: u64,
    /// Chunks in it.
    pub chunks: usize,
    /// Chunks that wait to be written to it.
    pub queued_chunks: usize,
    /// Bytes of these.
    pub queued_bytes: u64,
    /// Bytes written to it today (UTC).
    pub written_today_bytes: u64,
    /// What it has done.
    pub flow: Flow,
}

/// Chunks that were to be written below RAM and were not, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// The queue was full.
    pub queue_full: u64,
    /// The place was full.
    pub no_room: u64,
    /// Enough was written that day.
    pub daily_cap: u64,
    /// What came before it was not written.
    pub orphaned: u64,
    /// The place failed.
    pub failed: u64,
}

/// How restores ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// All chunks came.
    pub complete: u64,
    /// A chunk was not to be had.
    pub missed: u64,
    /// A chunk did not come in time.
    pub deadline: u64,
}

/// All tiers now.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Those that there are, nearest first.
    pub places: Vec<PlaceStatus>,
    /// What was not written.
    pub dropped: Dropped,
    /// How restores ended.
    pub ends: Ends,
    /// Offers that RAM had no room for.
    pub refused: u64,
}

/// Why a place has a chunk no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// Room was needed.
    Evicted,
    /// It was not used for long.
    Expired,
    /// It was deleted.
    Deleted,
    /// Rows of another arithmetic took its place.
    Replaced,
    /// It was damaged.
    Damaged,
    /// It was listed and not there.
    Lost,
}

impl Gone {
    /// Reasons that there are.
    pub const COUNT: usize = 6;
}

/// What happens in the tiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A chunk was put somewhere.
    Stored(Place, u64),
    /// A chunk of this many bytes left a place.
    Gone(Place, u64, Gone),
    /// A chunk's rows for this many tokens came back.
    Restored(Place, u32),
    /// A restore ended.
    Ended(End),
    /// A place is as it was not before.
    Health(Place, Health),
    /// What only this owner had was deleted.
    Forgotten(Owner),
    /// Everything was deleted.
    Cleared,
}

/// What is counted, behind the lock.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) flows: [Flow; 3],
    pub(super) dropped: Dropped,
    pub(super) ends: Ends,
    pub(super) refused: u64,
    health: [Option<Health>; 3],
    listeners: Vec<SyncSender<Event>>,
}

impl Counts {
    pub(super) fn flow(&mut self, place: Place) -> &mut Flow {
        &mut self.flows[place as usize]
    }

    /// Tells all who listen. Who lags behind misses it, who is gone is forgotten.
    pub(super) fn tell(&mut self, event: &Event) {
        self.listeners.retain(|listener| {
            let sent = listener.try_send(event.clone());
            !matches!(sent, Err(std::sync::mpsc::TrySendError::Disconnected(_)))
        });
    }

    pub(super) fn stored(&mut self, place: Place, bytes: u64) {
        let flow = self.flow(place);
        flow.stored_chunks += 1;
        flow.stored_bytes += bytes;
        self.tell(&Event::Stored(place, bytes));
    }

    pub(super) fn gone(&mut self, place: Place, bytes: u64, why: Gone) {
        let flow = self.flow(place);
        flow.gone_bytes[why as usize] += bytes;
        match why {
            Gone::Evicted => {
                flow.evicted_chunks += 1;
                flow.evicted_bytes += bytes;
            }
            Gone::Damaged => flow.damaged += 1,
            Gone::Lost => flow.lost += 1,
            Gone::Expired | Gone::Deleted | Gone::Replaced => {}
        }
        self.tell(&Event::Gone(place, bytes, why));
    }

    pub(super) fn restored(&mut self, place: Place, tokens: usize, bytes: u64) {
        let flow = self.flow(place);
        flow.hit_tokens += tokens as u64;
        flow.restored_chunks += 1;
        flow.restored_bytes += bytes;
        self.tell(&Event::Restored(place, tokens as u32));
    }

    pub(super) fn read(&mut self, place: Place, bytes: u64, took: Duration) {
        let rate = bytes as f64 / took.as_secs_f64().max(1e-6);
        let flow = self.flow(place);
        flow.read_bytes_per_s = Some(flow.read_bytes_per_s.map_or(rate, |before| before + RATE_PART * (rate - before)));
    }

    pub(super) fn ended(&mut self, end: &End) {
        match end {
            End::Complete => self.ends.complete += 1,
            End::Missed(_) => self.ends.missed += 1,
            End::Deadline | End::Silence => self.ends.deadline += 1,
            End::Closed => {}
        }
        self.tell(&Event::Ended(end.clone()));
    }
}

impl State {
    fn health(&self, place: Place, now: Duration) -> Health {
        if place == Place::Ram {
            return Health::Up;
        }
        let hand = self.hand(place);
        match hand.writable {
            _ if self.is_away(place, now) => Health::Away,
            Writable::No => Health::Suspect,
            _ if !hand.is_writable(now) => Health::ReadOnly,
            _ if hand.scanned_at.is_none() => Health::Scanning,
            _ => Health::Up,
        }
    }

    /// Tells of places whose health has changed. All begin with being listed.
    pub(super) fn watch_health(&mut self, now: Duration) {
        for place in LOWER {
            if !self.hand(place).present {
                continue;
            }
            let health = self.health(place, now);
            let before = self.counts.health[place as usize].replace(health);
            if before.unwrap_or(Health::Scanning) != health {
                self.counts.tell(&Event::Health(place, health));
            }
        }
    }
}

impl Tiers {
    /// Levels and flows now.
    pub fn status(&self) -> Status {
        let (now, today) = (self.inner.clock.now(), self.inner.clock.unix_s() / (24 * 3600));
        let state = self.inner.lock();
        let present = |place: &Place| *place == Place::Ram || state.hand(*place).present;
        let places = PLACES.into_iter().filter(present).map(|place| {
            let hand = (place != Place::Ram).then(|| state.hand(place));
            let shelf = state.catalog.shelf(place);
            let health = state.health(place, now);
            let ill = !matches!(health, Health::Up | Health::Scanning);
            PlaceStatus {
                place,
                health,
                trouble: hand.filter(|_| ill).and_then(|hand| hand.trouble.clone()),
                budget_bytes: shelf.budget(),
                used_bytes: if place == Place::Ram { state.ram_used() } else { state.used_bytes(place) },
                chunks: shelf.len(),
                queued_chunks: hand.map_or(0, |hand| hand.queue.len() + usize::from(hand.saving.is_some())),
                queued_bytes: hand.map_or(0, |hand| hand.queue.bytes() + hand.saving.map_or(0, |(_, bytes)| bytes)),
                written_today_bytes: hand.map_or(0, |hand| if hand.written.0 == today { hand.written.1 } else { 0 }),
                flow: state.counts.flows[place as usize],
            }
        });
        Status {
            places: places.collect(),
            dropped: state.counts.dropped,
            ends: state.counts.ends,
            refused: state.counts.refused,
        }
    }

    /// What happens from now on. A listener that lags far behind misses events, and reads [`Tiers::status`] instead.
    pub fn events(&self) -> Receiver<Event> {
        let (sender, receiver) = sync_channel(FEED);
        self.inner.lock().counts.listeners.push(sender);
        receiver
    }
}

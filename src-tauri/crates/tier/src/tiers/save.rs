//! A save of a chunk below RAM, which another thread repeats if the first one makes no progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use super::background::{BackgroundWorker, Priority};
use super::lower::OVERHEAD_BYTES;
use super::{BUSY_TICK, Inner, LowerTier, catch_panic};
use crate::chunk::{Chunk, ChunkId};
use crate::tier::{ChunkRequest, Miss, SaveControl, StoredChunk, TierError};

/// Alignment of a section.
const SECTION_BYTES: u64 = 4 << 10;

/// Source of the rows to write.
#[derive(Clone)]
pub(super) enum ChunkSource {
    Ram(Chunk),
    /// To be read from the tier above.
    Above(Box<ChunkIdentity>),
}

/// Identity of a chunk that must be read from the tier above.
#[derive(Clone)]
pub(super) struct ChunkIdentity {
    pub(super) parent: crate::ChunkHash,
    pub(super) first_position: u64,
    pub(super) keys: Option<Arc<[crate::Key]>>,
}

/// Result of a save: `None` if there was no room, or if another attempt publishes the chunk.
pub(super) type Saved = Result<Option<StoredChunk>, TierError>;

/// Runs a save and returns its result. If it has not begun to publish the chunk at `overdue_at`, a thread with normal
/// priority does the same again, and the first attempt publishes nothing.
pub(super) fn run_save<'env, Save: FnOnce() -> Saved + Send + 'env>(
    inner: &Inner,
    background: &BackgroundWorker<'env>,
    priority: Priority,
    overdue_at: Option<Duration>,
    save: impl Fn(&Arc<SaveAttempt>) -> Save,
) -> Saved {
    let attempt = Arc::default();
    let running = background.begin(priority, save(&attempt));
    if let Some(overdue_at) = overdue_at.filter(|_| priority < Priority::Normal) {
        loop {
            if let Some(saved) = running.wait_for(BUSY_TICK) {
                return saved;
            }
            if inner.clock.now() >= overdue_at {
                if attempt.abandon() {
                    return background.begin(Priority::Normal, save(&Arc::default())).wait();
                }
                break;
            }
        }
    }
    running.wait()
}

/// One of at most two concurrent attempts to save a chunk, of which only one publishes it.
#[derive(Debug, Default)]
pub(super) struct SaveAttempt(AtomicU8);

impl SaveAttempt {
    const PUBLISHES: u8 = 1;
    const IS_ABANDONED: u8 = 2;

    /// Begins to publish the chunk. Returns whether this attempt may.
    pub(super) fn begin_publish(&self) -> bool {
        self.set(Self::PUBLISHES)
    }

    /// Abandons the attempt, unless it has begun to publish. Returns whether it is abandoned.
    pub(super) fn abandon(&self) -> bool {
        self.set(Self::IS_ABANDONED)
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::IS_ABANDONED
    }

    fn set(&self, to: u8) -> bool {
        self.0.compare_exchange(0, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

pub(super) fn panicked<T>() -> Result<T, TierError> {
    Err(TierError::Failed("the tier panicked".to_owned()))
}

/// Returns whether other processes have filled the tier, which the catalog notices only at the next scan.
fn others_filled(lower: &LowerTier, budget: u64, source: &ChunkSource) -> bool {
    let ChunkSource::Ram(chunk) = source else { return false };
    let used = lower.used_bytes.as_ref().and_then(|used_bytes| catch_panic(|| used_bytes()).flatten());
    used.is_some_and(|used| used.saturating_add(most_bytes(chunk)) > budget)
}

/// Writes a chunk if enough space stays free. Returns `None` if other processes have filled the tier, or if the attempt
/// was abandoned.
pub(super) fn save(
    inner: &Inner,
    lower: &LowerTier,
    id: &ChunkId,
    source: ChunkSource,
    budget: u64,
    control: &dyn SaveControl,
) -> Saved {
    if others_filled(lower, budget, &source) {
        return Ok(None);
    }
    let chunk = match source {
        ChunkSource::Ram(chunk) => chunk,
        ChunkSource::Above(head) => read_above(inner, id, &head)?,
    };
    if let Some(floor) = &lower.min_free {
        let free = (floor.free)().ok_or_else(|| TierError::Failed("the free disk space is unknown".to_owned()))?;
        if free < floor.bytes.saturating_add(most_bytes(&chunk)) {
            return Err(TierError::Full(format!("{free} bytes are free, and {} must stay free", floor.bytes)));
        }
    }
    lower.tier.save_if(&chunk, control)
}

fn read_above(inner: &Inner, id: &ChunkId, head: &ChunkIdentity) -> Result<Chunk, TierError> {
    let above = inner.config.ssd.as_ref().ok_or_else(|| TierError::Failed("there is no tier above".to_owned()))?;
    let requested = ChunkRequest {
        id: *id,
        parent: head.parent,
        first_position: head.first_position,
        keys: head.keys.as_deref().unwrap_or_default(),
        class: None,
        allow_lossy: true,
    };
    let loaded = catch_panic(|| above.tier.load(&requested)).unwrap_or_else(|| panicked().map_err(Miss::from));
    loaded.map_err(|miss| TierError::Unavailable(miss.to_string()))
}

/// Returns the maximum size of a chunk on disk.
pub(super) fn most_bytes(chunk: &Chunk) -> u64 {
    let sections = chunk.head.sections.len() as u64;
    chunk.head.payload_bytes() + sections * SECTION_BYTES + OVERHEAD_BYTES
}

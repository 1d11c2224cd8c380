//! Fake tiers, clocks and models for tests.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cairn_gguf::DType;
use parking_lot::{Condvar, Mutex};

use crate::identity::{CHUNK_TOKENS, Chain, WeightsDigest};
use crate::tier::Unconditional;
use crate::*;

/// A clock that the test advances.
#[derive(Default)]
pub(crate) struct ManualClock(AtomicU64);

impl ManualClock {
    /// Advances the clock.
    pub(crate) fn pass(&self, span: Duration) {
        self.0.fetch_add(span.as_millis() as u64, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn unix_s(&self) -> u64 {
        1_800_000_000 + self.now().as_secs()
    }
}

/// The system clock.
pub(crate) struct WallClock(pub(super) std::time::Instant);

impl Clock for WallClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn unix_s(&self) -> u64 {
        1_800_000_000 + self.now().as_secs()
    }
}

/// A model whose rows are a hash of its tokens, so that each chunk can be verified.
#[derive(Clone)]
pub(crate) struct ToyModel {
    pub(crate) namespace: Namespace,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) class: NumericClass,
    pub(crate) groups: Groups,
    /// Size of a chunk's rows.
    pub(crate) bytes: u32,
}

impl ToyModel {
    pub(crate) fn new() -> Self {
        Self {
            namespace: Namespace::new(&[7; 32], "me"),
            fingerprint: Fingerprint::new(WeightsDigest([1; 32]), [("arch", b"toy".as_slice())]),
            class: NumericClass::new("cpu/scalar/1").expect("the name is short"),
            groups: Groups::FULL,
            bytes: 4096,
        }
    }

    pub(crate) fn prefix(&self, keys: &[Key]) -> Prefix {
        Prefix {
            namespace: self.namespace.clone(),
            fingerprint: self.fingerprint,
            keys: Arc::from(keys),
            class: Some(self.class.clone()),
            allow_lossy: false,
            groups: self.groups,
        }
    }

    /// Returns the expected rows of the chunk that ends these keys.
    pub(crate) fn rows(&self, keys_so_far: &[Key], group: Group) -> Arc<Vec<u8>> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.class.as_str().as_bytes());
        hasher.update(&[group as u8]);
        for key in keys_so_far {
            hasher.update(&key.to_le_bytes());
        }
        let mut rows = vec![0; self.bytes as usize];
        hasher.finalize_xof().fill(&mut rows);
        rows.into()
    }

    /// Returns all chunks of a sequence, in order.
    pub(crate) fn chunks(&self, keys: &[Key]) -> Vec<Chunk> {
        let mut chain = Chain::new(&self.namespace, &self.fingerprint);
        let mut chunks = Vec::new();
        for (index, part) in keys.chunks(CHUNK_TOKENS).enumerate() {
            let parent = chain.last();
            let hash = chain.push(part);
            let groups = [(Group::Full, self.groups.full), (Group::Window, self.groups.window_tokens.is_some())];
            for (group, _) in groups.into_iter().filter(|(_, has)| *has) {
                let first = index * CHUNK_TOKENS;
                let head = ChunkHead {
                    id: ChunkId { fingerprint: self.fingerprint, hash, group },
                    parent,
                    first_position: first as u64,
                    keys: Arc::from(part),
                    class: self.class.clone(),
                    rows: RowTypes { keys: DType::F16, values: DType::F16 },
                    flags: Flags { tail: part.len() < CHUNK_TOKENS, ..Flags::default() },
                    created_unix_s: 1_800_000_000,
                    sections: Arc::new([SectionShape { layer: 0, kind: SectionKind::Keys, bytes: self.bytes }]),
                };
                let payload = self.rows(&keys[..first + part.len()], group);
                chunks.push(Chunk { head: Arc::new(head), payload });
            }
        }
        chunks
    }
}

/// Returns consecutive tokens from `first`.
pub(crate) fn keys(first: u32, count: usize) -> Vec<Key> {
    (0..count as u32).map(|index| Key::token(first + index)).collect()
}

/// An injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    Fail,
    Full,
    Lose,
    Damage,
    /// Returns another chunk under the requested id.
    Mix,
    /// Panics.
    Panic,
    /// Delays the call.
    Slow(Duration),
    /// Blocks until `release`.
    Hang,
}

type Faults = Box<dyn Fn(&'static str) -> Fault + Send + Sync>;

/// An in-memory tier with injected faults.
pub(crate) struct FakeTier {
    tier: TierKind,
    pub(crate) files: Mutex<HashMap<ChunkId, Chunk>>,
    faults: Mutex<Faults>,
    /// Scans find nothing, as in a store that is expensive to list.
    pub(crate) unlisted: std::sync::atomic::AtomicBool,
    /// Fault of loads of one chunk.
    one: Mutex<Option<(ChunkId, Fault)>>,
    hanging: Mutex<bool>,
    released: Condvar,
    /// Maximum size ever, and total bytes written.
    pub(crate) most_bytes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    /// Number of saves that were not published.
    pub(crate) abandoned: AtomicU64,
}

impl FakeTier {
    pub(crate) fn new(tier: TierKind) -> Arc<Self> {
        Arc::new(Self {
            tier,
            files: Mutex::default(),
            faults: Mutex::new(Box::new(|_| Fault::None)),
            unlisted: Default::default(),
            one: Mutex::default(),
            hanging: Mutex::new(true),
            released: Condvar::new(),
            most_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            abandoned: AtomicU64::new(0),
        })
    }

    /// Sets the faults of later calls, by method name.
    pub(crate) fn set_faults(&self, faults: impl Fn(&'static str) -> Fault + Send + Sync + 'static) {
        *self.faults.lock() = Box::new(faults);
    }

    /// Sets the fault of later loads of this chunk.
    pub(crate) fn fail_one(&self, id: ChunkId, fault: Fault) {
        *self.one.lock() = Some((id, fault));
    }

    /// Releases all blocked calls.
    pub(crate) fn release(&self) {
        *self.hanging.lock() = false;
        self.released.notify_all();
    }

    pub(crate) fn len(&self) -> usize {
        self.files.lock().len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.lock().values().map(stored_bytes).sum()
    }

    fn fault(&self, call: &'static str) -> Result<Fault, TierError> {
        let fault = (self.faults.lock())(call);
        self.apply_fault(fault)
    }

    fn apply_fault(&self, fault: Fault) -> Result<Fault, TierError> {
        match fault {
            Fault::Fail => return Err(TierError::Failed("injected fault".to_owned())),
            Fault::Full => return Err(TierError::Full("injected fault".to_owned())),
            Fault::Panic => panic!("injected fault"),
            Fault::Slow(span) => std::thread::sleep(span),
            Fault::Hang => {
                self.released.wait_while(&mut self.hanging.lock(), |hanging| *hanging);
            }
            Fault::None | Fault::Lose | Fault::Damage | Fault::Mix => {}
        }
        Ok(fault)
    }
}

/// Size of a chunk in a fake tier: whole blocks.
pub(crate) fn stored_bytes(chunk: &Chunk) -> u64 {
    chunk.payload.len() as u64 + 8192
}

fn stored(chunk: &Chunk) -> StoredChunk {
    let head = &chunk.head;
    StoredChunk {
        id: head.id,
        parent: head.parent,
        first_position: head.first_position,
        tokens: head.keys.len() as u32,
        bytes: stored_bytes(chunk),
        class: head.class.clone(),
        flags: head.flags,
        created_unix_s: head.created_unix_s,
        keys: Some(Arc::clone(&head.keys)),
    }
}

impl Tier for FakeTier {
    fn kind(&self) -> TierKind {
        self.tier
    }

    fn scan(&self, each: &mut dyn FnMut(StoredChunk)) -> Result<(), TierError> {
        self.fault("scan")?;
        if self.unlisted.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.files.lock().values().for_each(|chunk| each(stored(chunk)));
        Ok(())
    }

    fn may_contain(&self, id: &ChunkId) -> bool {
        self.unlisted.load(Ordering::SeqCst) && self.files.lock().contains_key(id)
    }

    fn load(&self, wanted: &ChunkRequest<'_>) -> Result<Chunk, Miss> {
        let one = *self.one.lock();
        let fault = match one {
            Some((id, fault)) if id == wanted.id => self.apply_fault(fault)?,
            _ => self.fault("load")?,
        };
        let mut files = self.files.lock();
        match fault {
            Fault::Lose => {
                files.remove(&wanted.id);
                return Err(Miss::Absent);
            }
            Fault::Damage => {
                files.remove(&wanted.id);
                return Err(Miss::Damaged("injected fault"));
            }
            // This tier does not verify; the reader must detect the wrong chunk.
            Fault::Mix => {
                let other = files.values().find(|chunk| chunk.head.id != wanted.id);
                return other.cloned().ok_or(Miss::Absent);
            }
            _ => {}
        }
        files.get(&wanted.id).cloned().ok_or(Miss::Absent)
    }

    fn save(&self, chunk: &Chunk) -> Result<StoredChunk, TierError> {
        Ok(self.save_if(chunk, &Unconditional)?.expect("the chunk may be published"))
    }

    fn save_if(&self, chunk: &Chunk, control: &dyn SaveControl) -> Result<Option<StoredChunk>, TierError> {
        self.fault("save")?;
        if !control.may_publish() {
            self.abandoned.fetch_add(1, Ordering::SeqCst);
            return Ok(None);
        }
        let mut files = self.files.lock();
        files.entry(chunk.head.id).or_insert_with(|| {
            self.written_bytes.fetch_add(stored_bytes(chunk), Ordering::SeqCst);
            chunk.clone()
        });
        self.most_bytes.fetch_max(files.values().map(stored_bytes).sum(), Ordering::SeqCst);
        Ok(Some(stored(chunk)))
    }

    fn remove(&self, id: &ChunkId) -> Result<(), TierError> {
        self.fault("remove")?;
        self.files.lock().remove(id);
        Ok(())
    }
}

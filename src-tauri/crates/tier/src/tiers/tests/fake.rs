//! What tests put in the place of disks, clocks and models.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use cairn_gguf::DType;

use crate::identity::{CHUNK_TOKENS, Chain, WeightsDigest};
use crate::*;

/// A clock whose hands the test turns.
#[derive(Default)]
pub(crate) struct HandClock(AtomicU64);

impl HandClock {
    /// Lets time pass.
    pub(crate) fn pass(&self, span: Duration) {
        self.0.fetch_add(span.as_millis() as u64, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn unix_s(&self) -> u64 {
        1_800_000_000 + self.now().as_secs()
    }
}

/// The clock on the wall.
pub(crate) struct WallClock(pub(super) std::time::Instant);

impl Clock for WallClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn unix_s(&self) -> u64 {
        1_800_000_000 + self.now().as_secs()
    }
}

/// Numbers that look random and are the same each time.
pub(crate) struct Dice(pub(super) u64);

impl Dice {
    pub(crate) fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// A model whose rows are told from its tokens, so that each chunk can be checked.
#[derive(Clone)]
pub(crate) struct Toy {
    pub(crate) namespace: Namespace,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) class: NumericClass,
    pub(crate) groups: Groups,
    /// Bytes of a chunk's rows.
    pub(crate) bytes: u32,
}

impl Toy {
    pub(crate) fn new() -> Self {
        Self {
            namespace: Namespace::new(&[7; 32], "me"),
            fingerprint: Fingerprint::new(WeightsDigest([1; 32]), [("arch", b"toy".as_slice())]),
            class: NumericClass::new("cpu/scalar/1").expect("short"),
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
            lossy: false,
            groups: self.groups,
        }
    }

    /// The rows that the chunk ending these keys must have.
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

    /// All chunks of a sequence, in order.
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

/// Tokens that count up from `first`.
pub(crate) fn keys(first: u32, count: usize) -> Vec<Key> {
    (0..count as u32).map(|index| Key::token(first + index)).collect()
}

/// What a fake place does to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    Fail,
    Full,
    Lose,
    Damage,
    /// Gives another chunk's rows under the wanted name.
    Mix,
    /// Panics.
    Panic,
    /// Takes so long.
    Slow(Duration),
    /// Waits until the place is let go.
    Hang,
}

type Faults = Box<dyn Fn(&'static str) -> Fault + Send + Sync>;

/// A place in memory that fails when told.
pub(crate) struct FakePlace {
    place: Place,
    pub(crate) files: Mutex<HashMap<ChunkId, Chunk>>,
    faults: Mutex<Faults>,
    /// Scans find nothing, as where listing is too dear.
    pub(crate) unlisted: std::sync::atomic::AtomicBool,
    /// What happens to loads of one chunk.
    one: Mutex<Option<(ChunkId, Fault)>>,
    hanging: Mutex<bool>,
    released: Condvar,
    /// The most bytes that it ever held, and bytes ever written.
    pub(crate) most_bytes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
}

impl FakePlace {
    pub(crate) fn new(place: Place) -> Arc<Self> {
        Arc::new(Self {
            place,
            files: Mutex::default(),
            faults: Mutex::new(Box::new(|_| Fault::None)),
            unlisted: Default::default(),
            one: Mutex::default(),
            hanging: Mutex::new(true),
            released: Condvar::new(),
            most_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
        })
    }

    /// What happens to calls from now on, by their name.
    pub(crate) fn set_faults(&self, faults: impl Fn(&'static str) -> Fault + Send + Sync + 'static) {
        *self.faults.lock().unwrap() = Box::new(faults);
    }

    /// What happens to loads of this chunk from now on.
    pub(crate) fn fail_one(&self, id: ChunkId, fault: Fault) {
        *self.one.lock().unwrap() = Some((id, fault));
    }

    /// Lets go all calls that hang.
    pub(crate) fn release(&self) {
        *self.hanging.lock().unwrap() = false;
        self.released.notify_all();
    }

    pub(crate) fn len(&self) -> usize {
        self.files.lock().unwrap().len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.lock().unwrap().values().map(stored_bytes).sum()
    }

    fn fault(&self, call: &'static str) -> Result<Fault, TierError> {
        let fault = (self.faults.lock().unwrap())(call);
        self.suffer(fault)
    }

    fn suffer(&self, fault: Fault) -> Result<Fault, TierError> {
        match fault {
            Fault::Fail => return Err(TierError::Failed("told to".to_owned())),
            Fault::Full => return Err(TierError::Full("told to".to_owned())),
            Fault::Panic => panic!("told to"),
            Fault::Slow(span) => std::thread::sleep(span),
            Fault::Hang => {
                let hanging = self.hanging.lock().unwrap();
                drop(self.released.wait_while(hanging, |hanging| *hanging).unwrap());
            }
            Fault::None | Fault::Lose | Fault::Damage | Fault::Mix => {}
        }
        Ok(fault)
    }
}

/// What a chunk takes in a fake place: whole blocks.
pub(crate) fn stored_bytes(chunk: &Chunk) -> u64 {
    chunk.payload.len() as u64 + 8192
}

fn stored(chunk: &Chunk) -> Stored {
    let head = &chunk.head;
    Stored {
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

impl Tier for FakePlace {
    fn place(&self) -> Place {
        self.place
    }

    fn scan(&self, each: &mut dyn FnMut(Stored)) -> Result<(), TierError> {
        self.fault("scan")?;
        if self.unlisted.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.files.lock().unwrap().values().for_each(|chunk| each(stored(chunk)));
        Ok(())
    }

    fn may_hold(&self, id: &ChunkId) -> bool {
        self.unlisted.load(Ordering::SeqCst) && self.files.lock().unwrap().contains_key(id)
    }

    fn load(&self, wanted: &Wanted<'_>) -> Result<Chunk, Miss> {
        let one = *self.one.lock().unwrap();
        let fault = match one {
            Some((id, fault)) if id == wanted.id => self.suffer(fault)?,
            _ => self.fault("load")?,
        };
        let mut files = self.files.lock().unwrap();
        match fault {
            Fault::Lose => {
                files.remove(&wanted.id);
                return Err(Miss::Absent);
            }
            Fault::Damage => {
                files.remove(&wanted.id);
                return Err(Miss::Damaged("told to"));
            }
            // A place that does not verify: what it gives must be caught by its reader.
            Fault::Mix => {
                let other = files.values().find(|chunk| chunk.head.id != wanted.id);
                return other.cloned().ok_or(Miss::Absent);
            }
            _ => {}
        }
        files.get(&wanted.id).cloned().ok_or(Miss::Absent)
    }

    fn save(&self, chunk: &Chunk) -> Result<Stored, TierError> {
        self.fault("save")?;
        let mut files = self.files.lock().unwrap();
        files.entry(chunk.head.id).or_insert_with(|| {
            self.written_bytes.fetch_add(stored_bytes(chunk), Ordering::SeqCst);
            chunk.clone()
        });
        self.most_bytes.fetch_max(files.values().map(stored_bytes).sum(), Ordering::SeqCst);
        Ok(stored(chunk))
    }

    fn remove(&self, id: &ChunkId) -> Result<(), TierError> {
        self.fault("remove")?;
        self.files.lock().unwrap().remove(id);
        Ok(())
    }
}

//! Files: what is written is read, and nothing else is.

use std::sync::Arc;

use cairn_gguf::DType;
use cairn_testkit::random::Random;

use super::*;
use crate::chunk::{Chunk, ChunkHead, ChunkId, Flags, Group, NumericClass, RowTypes, SectionKind, SectionShape};
use crate::identity::{Chain, Fingerprint, WeightsDigest};
use crate::key::Key;
use crate::tier::Wanted;

/// A sequence whose chunks are made one after the other.
pub(crate) struct Sequence {
    pub(crate) fingerprint: Fingerprint,
    chain: Chain,
    position: u64,
    random: Random,
    /// Layers, and bytes of one layer's K or V.
    pub(crate) layers: u16,
    pub(crate) section_bytes: u32,
    pub(crate) dtype: DType,
}

impl Sequence {
    pub(crate) fn new(namespace: &str, weights: u8, seed: u64) -> Self {
        let fingerprint = Fingerprint::new(WeightsDigest([weights; 32]), []);
        let chain = Chain::new(&Namespace::new(b"secret", namespace), &fingerprint);
        let random = Random::new(seed);
        Self { fingerprint, chain, position: 0, random, layers: 3, section_bytes: 5000, dtype: DType::F16 }
    }

    /// The next chunk, with as many tokens.
    pub(crate) fn chunk(&mut self, tokens: usize) -> Chunk {
        let keys: Arc<[Key]> = (0..tokens).map(|_| Key::token(self.random.below(32_000) as u32)).collect();
        self.chunk_of(keys)
    }

    pub(crate) fn chunk_of(&mut self, keys: Arc<[Key]>) -> Chunk {
        let parent = self.chain.last();
        let hash = self.chain.push(&keys);
        let kinds = [SectionKind::Keys, SectionKind::Values];
        let shapes = (0..self.layers).flat_map(|layer| kinds.map(|kind| (layer, kind)));
        let bytes = self.section_bytes;
        let sections: Arc<[SectionShape]> = shapes.map(|(layer, kind)| SectionShape { layer, kind, bytes }).collect();
        let mut payload = vec![0; sections.len() * bytes as usize];
        rows(&mut self.random, self.dtype, &mut payload);
        let first_position = self.position;
        self.position += keys.len() as u64;
        let head = ChunkHead {
            id: ChunkId { fingerprint: self.fingerprint, hash, group: Group::Full },
            parent,
            first_position,
            flags: Flags { tail: keys.len() < 256, ..Flags::default() },
            keys,
            class: class(),
            rows: RowTypes { keys: self.dtype, values: self.dtype },
            created_unix_s: 1_700_000_000,
            sections,
        };
        Chunk { head: Arc::new(head), payload: payload.into() }
    }
}

/// Rows as they are computed: around zero, with a few large ones, as keys have.
fn rows(random: &mut Random, dtype: DType, payload: &mut [u8]) {
    let elements = payload.len() / dtype.block_bytes() * dtype.block();
    let x: Vec<f32> = (0..elements).map(|at| random.normal() * if at % 64 == 3 { 8.0 } else { 1.0 }).collect();
    let mut encoded = Vec::new();
    dtype.encode(&x, &mut encoded).expect("it has an encoder");
    payload[..encoded.len()].copy_from_slice(&encoded);
}

pub(crate) fn class() -> NumericClass {
    NumericClass::new("cpu/avx2/1").expect("a short name")
}

pub(crate) fn keys() -> FileKeys {
    FileKeys::new(&Namespace::new(b"secret", "disk"))
}

pub(crate) fn wanted(chunk: &Chunk) -> Wanted<'_> {
    let head = &chunk.head;
    Wanted {
        id: head.id,
        parent: head.parent,
        first_position: head.first_position,
        keys: &head.keys,
        class: Some(&head.class),
        lossy: false,
    }
}

fn same(one: &Chunk, other: &Chunk) -> bool {
    one.head == other.head && one.payload == other.payload
}

fn write(chunk: &Chunk, keys: &FileKeys) -> Vec<u8> {
    let encoded = encode(chunk, Packing::Raw, keys, [7; NONCE_BYTES]).expect("it fits");
    let file = encoded.to_vec();
    assert_eq!(encoded.header().file_bytes, file.len() as u64, "a header knows the file's length");
    assert!(file.len().is_multiple_of(BLOCK_BYTES), "a file is whole blocks");
    file
}

fn all_keys() -> [FileKeys; 3] {
    [keys(), keys().checked(Check::Keyed), keys().sealed([9; 32])]
}

#[test]
fn what_is_written_is_read() {
    let mut sequence = Sequence::new("me", 1, 1);
    let media = (0..200).map(|at| if at == 7 { Key::media(u128::MAX / 3) } else { Key::token(at) }).collect();
    for keys in all_keys() {
        sequence.section_bytes = 4096;
        let aligned = sequence.chunk(256);
        sequence.section_bytes = 5000;
        sequence.layers = 130;
        let chunks = [aligned, sequence.chunk(1), sequence.chunk_of(Arc::clone(&media))];
        for chunk in chunks {
            let file = write(&chunk, &keys);
            let read = decode(&file, &keys, &wanted(&chunk)).expect("it is what was written");
            assert!(same(&read, &chunk), "{keys:?}: a chunk of {} keys comes back", chunk.head.keys.len());
        }
    }
}

/// Every byte of a file is flipped in turn, with one bit of it.
#[test]
fn no_byte_of_a_file_goes_unchecked() {
    let mut sequence = Sequence::new("me", 1, 2);
    sequence.layers = 1;
    sequence.section_bytes = 300;
    let chunk = sequence.chunk(3);
    for keys in all_keys() {
        let mut file = write(&chunk, &keys);
        for at in 0..file.len() {
            file[at] ^= 1 << (at % 8);
            let read = decode(&file, &keys, &wanted(&chunk));
            assert!(matches!(read, Err(Miss::Damaged(_))), "{keys:?}: byte {at} of {} counts: {read:?}", file.len());
            file[at] ^= 1 << (at % 8);
        }
        for len in (0..file.len()).step_by(97).chain([file.len() - 1]) {
            let read = decode(&file[..len], &keys, &wanted(&chunk));
            assert!(matches!(read, Err(Miss::Damaged(_))), "{keys:?}: {len} of {} bytes are none", file.len());
        }
        file.push(0);
        assert!(decode(&file, &keys, &wanted(&chunk)).is_err(), "{keys:?}: nothing may follow");
    }
}

#[test]
fn a_whole_file_that_is_not_wanted_is_a_miss() {
    let chunk = Sequence::new("me", 1, 3).chunk(40);
    let file = write(&chunk, &keys());
    let more: Vec<Key> = chunk.head.keys.iter().copied().chain([Key::token(1)]).collect();
    let mut changed = chunk.head.keys.to_vec();
    changed[39] = Key::token(40_000);
    let class = NumericClass::new("cpu/scalar/1").expect("a short name");
    let wanted = wanted(&chunk);
    let check = |wanted: Wanted<'_>, why: &str| {
        let read = decode(&file, &keys(), &wanted);
        assert!(matches!(read, Err(Miss::Other(_))), "{why}: {read:?}");
    };
    check(Wanted { parent: chunk.head.id.hash, ..wanted.clone() }, "another parent");
    check(Wanted { first_position: 256, ..wanted.clone() }, "another position");
    check(Wanted { keys: &more, ..wanted.clone() }, "more tokens");
    check(Wanted { keys: &changed, ..wanted.clone() }, "another token");
    check(Wanted { class: Some(&class), ..wanted.clone() }, "another arithmetic");
    decode(&file, &keys(), &Wanted { keys: &chunk.head.keys[..7], ..wanted.clone() }).expect("its beginning is enough");
    decode(&file, &keys(), &Wanted { class: None, ..wanted }).expect("any arithmetic is allowed");
}

#[test]
fn foreign_files_are_refused() {
    let chunk = Sequence::new("me", 1, 4).chunk(40);
    let sealed = write(&chunk, &keys().sealed([9; 32]));
    let check = |file: &[u8], keys: FileKeys, why: &str| {
        let read = decode(file, &keys, &wanted(&chunk));
        assert!(read.is_err(), "{why}");
    };
    check(&write(&chunk, &keys()), FileKeys::new(&Namespace::new(b"other", "disk")), "another installation");
    check(&write(&chunk, &keys()), FileKeys::new(&Namespace::new(b"secret", "remote")), "another place");
    check(&sealed, keys().sealed([8; 32]), "another seal");
    let unopened = decode(&sealed, &keys(), &wanted(&chunk));
    assert!(matches!(unopened, Err(Miss::Other(_))), "without a key it may still be whole: {unopened:?}");
    assert!(
        !sealed.windows(16).any(|window| window == &chunk.payload[..16]),
        "nothing of the rows can be read in a sealed file"
    );
}

#[test]
fn sealed_sections_do_not_change_places() {
    let mut sequence = Sequence::new("me", 1, 5);
    sequence.section_bytes = 4096;
    let chunk = sequence.chunk(40);
    let keys = keys().sealed([9; 32]);
    let twice = [[1; NONCE_BYTES], [2; NONCE_BYTES]]
        .map(|nonce| encode(&chunk, Packing::Raw, &keys, nonce).expect("it fits").to_vec());
    let rows = 3 * BLOCK_BYTES..4 * BLOCK_BYTES;
    assert_ne!(twice[0][rows.clone()], twice[1][rows.clone()], "the nonce counts");
    let mut mixed = twice[0].clone();
    mixed[rows.clone()].copy_from_slice(&twice[1][rows]);
    assert!(decode(&mixed, &keys, &wanted(&chunk)).is_err(), "a section of another file does not fit");
}

#[test]
fn a_chunk_that_does_not_fit_together_is_not_written() {
    let chunk = Sequence::new("me", 1, 6).chunk(40);
    let none = |head: ChunkHead, payload: Arc<Vec<u8>>, why: &str| {
        let chunk = Chunk { head: Arc::new(head), payload };
        assert!(encode(&chunk, Packing::Raw, &keys(), [0; NONCE_BYTES]).is_err(), "{why}");
    };
    let head = || (*chunk.head).clone();
    none(head(), chunk.payload[1..].to_vec().into(), "rows are missing");
    none(ChunkHead { keys: Arc::new([]), ..head() }, Arc::clone(&chunk.payload), "no tokens");
    none(ChunkHead { keys: vec![Key::token(1); 257].into(), ..head() }, Arc::clone(&chunk.payload), "too many tokens");
}

//! Tests of the format: written chunks decode, everything else is rejected.

use std::sync::Arc;

use cairn_gguf::DType;
use cairn_testkit::random::Random;

use super::*;
use crate::chunk::{Chunk, ChunkHead, ChunkId, Flags, Group, NumericClass, RowTypes, SectionKind, SectionShape};
use crate::identity::{Chain, Fingerprint, WeightsDigest};
use crate::key::Key;
use crate::tier::ChunkRequest;

/// Generator of a sequence's chunks.
pub(crate) struct Sequence {
    pub(crate) fingerprint: Fingerprint,
    chain: Chain,
    position: u64,
    random: Random,
    /// Number of layers, and size of one layer's K or V section.
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

    /// Returns the next chunk, with this many tokens.
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

/// Realistic rows: normally distributed, with a few large values, as keys have.
fn rows(random: &mut Random, dtype: DType, payload: &mut [u8]) {
    let elements = payload.len() / dtype.block_bytes() * dtype.block();
    let x: Vec<f32> = (0..elements).map(|at| random.normal() * if at % 64 == 3 { 8.0 } else { 1.0 }).collect();
    let mut encoded = Vec::new();
    dtype.encode(&x, &mut encoded).expect("the type has an encoder");
    payload[..encoded.len()].copy_from_slice(&encoded);
}

pub(crate) fn class() -> NumericClass {
    NumericClass::new("cpu/avx2/1").expect("the name is short")
}

pub(crate) fn keys() -> FileKeys {
    FileKeys::new(&Namespace::new(b"secret", "disk"))
}

pub(crate) fn wanted(chunk: &Chunk) -> ChunkRequest<'_> {
    let head = &chunk.head;
    ChunkRequest {
        id: head.id,
        parent: head.parent,
        first_position: head.first_position,
        keys: &head.keys,
        class: Some(&head.class),
        allow_lossy: false,
    }
}

fn same(one: &Chunk, other: &Chunk) -> bool {
    one.head == other.head && one.payload == other.payload
}

fn write(chunk: &Chunk, keys: &FileKeys) -> Vec<u8> {
    let encoded = encode(chunk, Packing::Raw, keys, [7; NONCE_BYTES]).expect("the chunk is valid");
    let file = encoded.to_vec();
    assert_eq!(encoded.header().file_bytes, file.len() as u64, "the header contains the file's length");
    assert!(file.len().is_multiple_of(BLOCK_BYTES), "a file is whole blocks");
    file
}

fn all_keys() -> [FileKeys; 3] {
    [keys(), keys().with_checksum(Checksum::Keyed), keys().with_encryption([9; 32])]
}

#[test]
fn encoded_chunk_file_decodes_to_equal_chunk() {
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
            let read = decode(&file, &keys, &wanted(&chunk)).expect("the file was just written");
            assert!(same(&read, &chunk), "{keys:?}: a chunk of {} keys decodes", chunk.head.keys.len());
        }
    }
}

/// Flips one bit of every byte in turn.
#[test]
fn damage_of_any_byte_is_detected() {
    let mut sequence = Sequence::new("me", 1, 2);
    sequence.layers = 1;
    sequence.section_bytes = 300;
    let chunk = sequence.chunk(3);
    for keys in all_keys() {
        let mut file = write(&chunk, &keys);
        for at in 0..file.len() {
            file[at] ^= 1 << (at % 8);
            let read = decode(&file, &keys, &wanted(&chunk));
            assert!(
                matches!(read, Err(Miss::Damaged(_))),
                "{keys:?}: damage of byte {at} of {} is detected: {read:?}",
                file.len()
            );
            file[at] ^= 1 << (at % 8);
        }
        for len in (0..file.len()).step_by(97).chain([file.len() - 1]) {
            let read = decode(&file[..len], &keys, &wanted(&chunk));
            assert!(matches!(read, Err(Miss::Damaged(_))), "{keys:?}: {len} of {} bytes are rejected", file.len());
        }
        file.push(0);
        assert!(decode(&file, &keys, &wanted(&chunk)).is_err(), "{keys:?}: trailing bytes are rejected");
    }
}

#[test]
fn valid_file_of_another_request_is_a_mismatch() {
    let chunk = Sequence::new("me", 1, 3).chunk(40);
    let file = write(&chunk, &keys());
    let more: Vec<Key> = chunk.head.keys.iter().copied().chain([Key::token(1)]).collect();
    let mut changed = chunk.head.keys.to_vec();
    changed[39] = Key::token(40_000);
    let class = NumericClass::new("cpu/scalar/1").expect("the name is short");
    let wanted = wanted(&chunk);
    let check = |wanted: ChunkRequest<'_>, why: &str| {
        let read = decode(&file, &keys(), &wanted);
        assert!(matches!(read, Err(Miss::Mismatch(_))), "{why}: {read:?}");
    };
    check(ChunkRequest { parent: chunk.head.id.hash, ..wanted.clone() }, "another parent");
    check(ChunkRequest { first_position: 256, ..wanted.clone() }, "another position");
    check(ChunkRequest { keys: &more, ..wanted.clone() }, "more tokens");
    check(ChunkRequest { keys: &changed, ..wanted.clone() }, "another token");
    check(ChunkRequest { class: Some(&class), ..wanted.clone() }, "another arithmetic");
    decode(&file, &keys(), &ChunkRequest { keys: &chunk.head.keys[..7], ..wanted.clone() })
        .expect("a prefix of the keys is enough");
    decode(&file, &keys(), &ChunkRequest { class: None, ..wanted }).expect("any class is accepted");
}

#[test]
fn file_with_other_keys_is_rejected() {
    let chunk = Sequence::new("me", 1, 4).chunk(40);
    let sealed = write(&chunk, &keys().with_encryption([9; 32]));
    let check = |file: &[u8], keys: FileKeys, why: &str| {
        let read = decode(file, &keys, &wanted(&chunk));
        assert!(read.is_err(), "{why}");
    };
    check(&write(&chunk, &keys()), FileKeys::new(&Namespace::new(b"other", "disk")), "another installation");
    check(&write(&chunk, &keys()), FileKeys::new(&Namespace::new(b"secret", "remote")), "another tier");
    check(&sealed, keys().with_encryption([8; 32]), "another encryption key");
    let unopened = decode(&sealed, &keys(), &wanted(&chunk));
    assert!(matches!(unopened, Err(Miss::Mismatch(_))), "without the key the file may be valid: {unopened:?}");
    assert!(
        !sealed.windows(16).any(|window| window == &chunk.payload[..16]),
        "an encrypted file contains no plain rows"
    );
}

#[test]
fn encrypted_section_cannot_be_moved() {
    let mut sequence = Sequence::new("me", 1, 5);
    sequence.section_bytes = 4096;
    let chunk = sequence.chunk(40);
    let keys = keys().with_encryption([9; 32]);
    let twice = [[1; NONCE_BYTES], [2; NONCE_BYTES]]
        .map(|nonce| encode(&chunk, Packing::Raw, &keys, nonce).expect("the chunk is valid").to_vec());
    let rows = 3 * BLOCK_BYTES..4 * BLOCK_BYTES;
    assert_ne!(twice[0][rows.clone()], twice[1][rows.clone()], "the nonce changes the ciphertext");
    let mut mixed = twice[0].clone();
    mixed[rows.clone()].copy_from_slice(&twice[1][rows]);
    assert!(decode(&mixed, &keys, &wanted(&chunk)).is_err(), "a section of another file is rejected");
}

#[test]
fn states_are_stored_without_loss() {
    let mut sequence = Sequence::new("me", 1, 8);
    sequence.section_bytes = 1 << 16;
    let mut chunk = sequence.chunk(256);
    let mut head = (*chunk.head).clone();
    let shapes = (0..2).map(|layer| SectionShape { layer, kind: SectionKind::State, bytes: 1 << 16 });
    head.sections = head.sections.iter().copied().chain(shapes).collect();
    let mut states = vec![0; 2 << 16];
    rows(&mut Random::new(9), DType::F32, &mut states);
    chunk.payload = Arc::new([&chunk.payload[..], &states].concat());
    chunk.head = Arc::new(head);
    for packing in [Packing::Raw, Packing::Lossless, Packing::Compact] {
        let file = encode(&chunk, packing, &keys(), [0; NONCE_BYTES]).expect("the chunk is valid").to_vec();
        let mut requested = wanted(&chunk);
        requested.allow_lossy = true;
        let decoded = decode(&file, &keys(), &requested).expect("the file is valid");
        assert_eq!(decoded.head.sections, chunk.head.sections, "{packing:?}: all sections are described");
        let stored = &decoded.payload[decoded.payload.len() - states.len()..];
        assert!(stored == states, "{packing:?}: a state has the bits that were written");
    }
}

#[test]
fn inconsistent_chunk_is_not_encoded() {
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

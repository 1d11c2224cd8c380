//! Modifications of a chunk's file. Some are signed again with the right keys, because the MAC rejects all others.
//!
//! ```text
//! 0   bits 0-1: check (fast, keyed, sealed), bit 2: F16 or Q8_0, bits 3-4: packing, bit 5: sign the table, bit 6: sign the header
//! 1   blocks to cut off the end
//! 2.. changes: place u16, byte u8
//! ```
//!
//! Guarantees: no panic; bounded memory; unsigned changes are detected; a decoded chunk can be encoded and decoded
//! again without a difference.

use std::sync::Arc;

use cairn_gguf::DType;
use cairn_testkit::allocation::peak_bytes;
use cairn_tier::chunk::{Chunk, ChunkHead, ChunkId, Flags, Group, NumericClass, RowTypes, SectionKind, SectionShape};
use cairn_tier::format::{BLOCK_BYTES, NONCE_BYTES, decode, encode};
use cairn_tier::{Chain, Checksum, ChunkRequest, FileKeys, Fingerprint, Key, Namespace, Packing, WeightsDigest};

/// Rows that a signed table may claim: a section has 64 MiB at most, and the file has four.
const MOST_BYTES: usize = 4 * (64 << 20) + (1 << 20) * 64 * 3 + (1 << 20);
/// Where a header says how long its table's digest is, and where its MAC is (`cairn_tier::format`).
const TABLE_DIGEST: usize = 176;
const MAC: usize = BLOCK_BYTES - 32;

/// Runs this fuzz target on one input.
pub fn run(input: &[u8]) {
    let Some((&[options, cut], changes)) = input.split_first_chunk() else { return };
    let place = Namespace::new(b"an installation's secret, which is long", "place");
    let keys = match options & 3 {
        0 => FileKeys::new(&place),
        1 => FileKeys::new(&place).with_checksum(Checksum::Keyed),
        _ => FileKeys::new(&place).with_encryption([7; 32]),
    };
    let packing = match options >> 3 & 3 {
        0 => Packing::Raw,
        1 => Packing::Lossless,
        _ => Packing::Compact,
    };
    let chunk = chunk(if options & 4 == 0 { DType::F16 } else { DType::Q8_0 });
    let written = encode(&chunk, packing, &keys, [3; NONCE_BYTES]).expect("the chunk fits together").to_vec();
    let mut file = written.clone();
    for change in changes.as_chunks::<3>().0 {
        if let Some(byte) = file.get_mut(usize::from(u16::from_le_bytes([change[0], change[1]]))) {
            *byte = change[2];
        }
    }
    file.truncate(file.len().saturating_sub(usize::from(cut) * BLOCK_BYTES));
    sign(&mut file, &place, options);

    let wanted = ChunkRequest {
        id: chunk.head.id,
        parent: chunk.head.parent,
        first_position: chunk.head.first_position,
        keys: &chunk.head.keys[..7],
        class: None,
        allow_lossy: true,
    };
    let (read, bytes) = peak_bytes(|| decode(&file, &keys, &wanted));
    assert!(bytes <= MOST_BYTES, "{bytes} bytes to read a file of {}", file.len());
    match read {
        Ok(read) => {
            assert!(read.head.id == chunk.head.id, "another chunk than the wanted one");
            assert!(read.head.keys.starts_with(wanted.keys), "other tokens than the wanted ones");
            if options & 0x60 == 0 {
                assert!(file == written, "a change was not found");
            }
            let again = encode(&read, Packing::Raw, &keys, [4; NONCE_BYTES]).expect("it fits together").to_vec();
            let again = decode(&again, &keys, &wanted).expect("it was written just now");
            assert!(again.head == read.head && again.payload == read.payload, "it is the same again");
        }
        Err(miss) => {
            assert!(!miss.to_string().is_empty(), "a miss says why");
            assert!(file != written, "a whole file is read");
        }
    }
}

/// Makes a changed table or header one that a holder of the keys wrote.
fn sign(file: &mut [u8], place: &Namespace, options: u8) {
    let sections =
        file.get(140..144).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes).unwrap_or_default();
    let table_bytes = (sections as usize).saturating_mul(40).next_multiple_of(BLOCK_BYTES);
    let table = file.get(BLOCK_BYTES..BLOCK_BYTES.saturating_add(table_bytes));
    let digest = table.map(|table| blake3::keyed_hash(&place.derive("kvc1 sections"), table));
    if options & 0x20 != 0
        && let Some((digest, bytes)) = digest.zip(file.get_mut(TABLE_DIGEST..TABLE_DIGEST + 32))
    {
        bytes.copy_from_slice(digest.as_bytes());
    }
    if options & 0x60 != 0
        && let Some((header, mac)) = file.get_mut(..BLOCK_BYTES).and_then(|block| block.split_at_mut_checked(MAC))
    {
        mac.copy_from_slice(blake3::keyed_hash(&place.derive("kvc1 header"), header).as_bytes());
    }
}

/// Two layers of a few tokens.
fn chunk(dtype: DType) -> Chunk {
    let namespace = Namespace::new(b"an installation's secret, which is long", "me");
    let fingerprint = Fingerprint::new(WeightsDigest([1; 32]), []);
    let mut chain = Chain::new(&namespace, &fingerprint);
    let keys: Arc<[Key]> = (0..9).map(Key::token).collect();
    let parent = chain.last();
    let hash = chain.push(&keys);
    let elements = 2048;
    let x: Vec<f32> = (0..4 * elements).map(|at| ((at * 37 % 101) as f32 - 50.0) / 9.0).collect();
    let mut payload = Vec::new();
    dtype.encode(&x, &mut payload).expect("it has an encoder");
    let bytes = dtype.row_bytes(elements) as u32;
    let kinds = [SectionKind::Keys, SectionKind::Values];
    let sections = (0..2).flat_map(|layer| kinds.map(|kind| SectionShape { layer, kind, bytes })).collect();
    let head = ChunkHead {
        id: ChunkId { fingerprint, hash, group: Group::Full },
        parent,
        first_position: 0,
        keys,
        class: NumericClass::new("cpu/1").expect("a short name"),
        rows: RowTypes { keys: dtype, values: dtype },
        flags: Flags { tail: true, ..Flags::default() },
        created_unix_s: 1,
        sections,
    };
    Chunk { head: Arc::new(head), payload: payload.into() }
}

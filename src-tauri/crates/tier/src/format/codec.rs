//! Codecs: encodings of a section's bytes.
//!
//! ```text
//! 0  raw       as they are
//! 1  planes    F16, BF16 and F32: the elements' lower bytes one plane after the other as they are, then zstd of the highest bytes
//! 2  scales    Q8_0 and Q4_0: zstd of the blocks' highest scale bytes, then their lower ones, then the quants
//! 3  compact   lossy: as 2, of the rows as Q8_0
//! ```
//!
//! An element's highest byte contains its sign and most of its exponent, which vary little within a layer. The lower
//! bytes are nearly random, so compressing them only costs time. zstd at its fastest level serves as an entropy coder:
//! there are no repetitions, so LZ4 and similar codecs gain nothing.
//!
//! A codec is used only if it saves a tenth of the size; otherwise the section is stored raw.

use std::borrow::Cow;

use cairn_gguf::DType;
use zstd::zstd_safe::CParameter;

use super::{BLOCK_BYTES, Damage, padded};
use crate::chunk::{RowTypes, SectionKind};

/// The fastest zstd level with entropy coding.
const LEVEL: i32 = 1;
/// Number of sections of one kind that may fail to shrink before the rest of the chunk is stored raw.
const TRIES: u32 = 2;

/// Compression of stored rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// None: for disks faster than about 3 GB/s.
    #[default]
    Raw,
    /// Lossless compression where it saves space.
    Lossless,
    /// Rounded to Q8_0, about half the size of F16. Such chunks are marked as lossy.
    Compact,
}

impl Packing {
    /// Returns whether rows may be rounded.
    pub const fn is_lossy(self) -> bool {
        matches!(self, Self::Compact)
    }
}

/// Encoding of one section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Raw,
    Planes,
    Scales,
    Compact,
}

impl Codec {
    const ALL: [(Self, u8); 4] = [(Self::Raw, 0), (Self::Planes, 1), (Self::Scales, 2), (Self::Compact, 3)];

    pub(super) fn number(self) -> u8 {
        Self::ALL.iter().find(|(codec, _)| *codec == self).expect("all codecs are listed").1
    }

    pub(super) fn of(number: u8) -> Option<Self> {
        Self::ALL.iter().find(|(_, other)| *other == number).map(|(codec, _)| *codec)
    }

    pub(super) fn is_lossy(self) -> bool {
        self == Self::Compact
    }

    /// Returns the codec for rows of this type.
    fn for_rows(packing: Packing, dtype: DType) -> Self {
        match (packing, dtype) {
            (Packing::Lossless, DType::F16 | DType::BF16 | DType::F32) => Self::Planes,
            (Packing::Lossless | Packing::Compact, DType::Q8_0 | DType::Q4_0) => Self::Scales,
            (Packing::Compact, DType::F16 | DType::BF16 | DType::F32) => Self::Compact,
            _ => Self::Raw,
        }
    }
}

/// Reusable buffers for decoding.
#[derive(Debug, Default)]
pub struct Workspace {
    plane: Vec<u8>,
    blocks: Vec<u8>,
    floats: Vec<f32>,
}

/// Encodes the sections of one chunk.
pub(super) struct Packer {
    packing: Packing,
    rows: RowTypes,
    /// Remaining attempts for keys, for values and for states.
    tries: [u32; 3],
}

impl Packer {
    pub(super) fn new(packing: Packing, rows: RowTypes) -> Self {
        Self { packing, rows, tries: [TRIES; 3] }
    }

    pub(super) fn pack<'a>(&mut self, kind: SectionKind, raw: &'a [u8]) -> (Codec, Cow<'a, [u8]>) {
        let dtype = self.rows.of(kind);
        let packing = match (kind, self.packing) {
            // All further tokens depend on a state, so that its errors would grow.
            (SectionKind::State, Packing::Compact) => Packing::Lossless,
            (_, packing) => packing,
        };
        let codec = Codec::for_rows(packing, dtype);
        let tries = match kind {
            SectionKind::Keys => &mut self.tries[0],
            SectionKind::Values => &mut self.tries[1],
            SectionKind::State => &mut self.tries[2],
        };
        if *tries > 0
            && let Some(packed) = pack(codec, dtype, raw)
        {
            if padded(packed.len() as u64) * 11 <= padded(raw.len() as u64) * 10 {
                return (codec, Cow::Owned(packed));
            }
            // The size of very small sections is not representative.
            *tries -= u32::from(raw.len() > 16 * BLOCK_BYTES);
        }
        (Codec::Raw, Cow::Borrowed(raw))
    }
}

/// Encodes a section, or returns `None` if the codec does not apply.
fn pack(codec: Codec, dtype: DType, raw: &[u8]) -> Option<Vec<u8>> {
    match codec {
        Codec::Raw => None,
        Codec::Planes => {
            let (count, width) = elements(raw.len(), dtype)?;
            let mut packed = vec![0; count * width];
            let (low, high) = packed.split_at_mut(count * (width - 1));
            match width {
                2 => split::<2>(raw, low, high),
                _ => split::<4>(raw, low, high),
            }
            let coded = compress(high)?;
            packed.truncate(count * (width - 1));
            packed.extend_from_slice(&coded);
            Some(packed)
        }
        Codec::Scales => pack_blocks(dtype, raw),
        Codec::Compact => {
            let (count, _) = elements(raw.len(), dtype)?;
            let mut floats = vec![0.0; count];
            dtype.decode(raw, &mut floats);
            let mut blocks = Vec::new();
            DType::Q8_0.encode(&floats, &mut blocks).ok()?;
            pack_blocks(DType::Q8_0, &blocks)
        }
    }
}

/// Decodes a section into rows of this type.
pub(super) fn unpack(
    codec: Codec,
    dtype: DType,
    stored: &[u8],
    rows: &mut [u8],
    work: &mut Workspace,
) -> Result<(), Damage> {
    const LENGTH: Damage = Damage("a section has the wrong length");
    const TYPE: Damage = Damage("a section's codec does not fit its type");
    match codec {
        Codec::Raw if stored.len() == rows.len() => rows.copy_from_slice(stored),
        Codec::Raw => return Err(LENGTH),
        Codec::Planes => {
            let (count, width) = elements(rows.len(), dtype).ok_or(TYPE)?;
            let (low, coded) = stored.split_at_checked(count * (width - 1)).ok_or(LENGTH)?;
            let high = expand(coded, count, &mut work.plane)?;
            match width {
                2 => join::<2>(low, high, rows),
                _ => join::<4>(low, high, rows),
            }
        }
        Codec::Scales => unpack_blocks(dtype, stored, rows, &mut work.plane)?,
        Codec::Compact => {
            let (count, width) = elements(rows.len(), dtype).ok_or(TYPE)?;
            if !count.is_multiple_of(DType::Q8_0.block()) {
                return Err(LENGTH);
            }
            work.blocks.resize(DType::Q8_0.row_bytes(count), 0);
            unpack_blocks(DType::Q8_0, stored, &mut work.blocks, &mut work.plane)?;
            work.floats.resize(count, 0.0);
            DType::Q8_0.decode(&work.blocks, &mut work.floats);
            work.plane.clear();
            dtype.encode(&work.floats, &mut work.plane).map_err(|_| TYPE)?;
            debug_assert_eq!(work.plane.len(), count * width, "plain elements have a fixed width");
            rows.copy_from_slice(&work.plane);
        }
    }
    Ok(())
}

/// Returns the number of elements of a plain type, and their width in bytes.
fn elements(bytes: usize, dtype: DType) -> Option<(usize, usize)> {
    let width = match dtype {
        DType::F16 | DType::BF16 => 2,
        DType::F32 => 4,
        _ => return None,
    };
    bytes.is_multiple_of(width).then_some((bytes / width, width))
}

/// Splits elements of `W` bytes into `W - 1` planes of lower bytes, and the plane of the highest bytes.
fn split<const W: usize>(raw: &[u8], low: &mut [u8], high: &mut [u8]) {
    let (raw, _) = raw.as_chunks::<W>();
    for (plane, bytes) in low.chunks_exact_mut(raw.len().max(1)).chain([high]).enumerate() {
        bytes.iter_mut().zip(raw).for_each(|(byte, element)| *byte = element[plane]);
    }
}

/// Reverses [`split`].
fn join<const W: usize>(low: &[u8], high: &[u8], rows: &mut [u8]) {
    let (rows, _) = rows.as_chunks_mut::<W>();
    if W == 2 {
        // Both bytes at once is several times as fast.
        rows.iter_mut().zip(low.iter().zip(high)).for_each(|(element, (low, high))| {
            element[0] = *low;
            element[1] = *high;
        });
        return;
    }
    for (plane, bytes) in low.chunks_exact(high.len().max(1)).chain([high]).enumerate() {
        rows.iter_mut().zip(bytes).for_each(|(element, byte)| element[plane] = *byte);
    }
}

/// Size of a block's scale, which comes first.
const SCALE_BYTES: usize = 2;

/// Returns the block size of a type whose blocks are a scale and quants.
fn block_bytes(bytes: usize, dtype: DType) -> Option<usize> {
    let block = dtype.block_bytes();
    (matches!(dtype, DType::Q8_0 | DType::Q4_0) && bytes.is_multiple_of(block)).then_some(block)
}

fn pack_blocks(dtype: DType, blocks: &[u8]) -> Option<Vec<u8>> {
    let block = block_bytes(blocks.len(), dtype)?;
    let count = blocks.len() / block;
    let mut apart = vec![0; blocks.len()];
    let (scales, quants) = apart.split_at_mut(count * SCALE_BYTES);
    let (high, low) = scales.split_at_mut(count);
    let parts = high.iter_mut().zip(low).zip(quants.chunks_exact_mut(block - SCALE_BYTES));
    for (block, ((high, low), quants)) in blocks.chunks_exact(block).zip(parts) {
        let (scale, values) = block.split_at(SCALE_BYTES);
        (*low, *high) = (scale[0], scale[1]);
        quants.copy_from_slice(values);
    }
    compress(&apart)
}

fn unpack_blocks(dtype: DType, stored: &[u8], blocks: &mut [u8], apart: &mut Vec<u8>) -> Result<(), Damage> {
    let block = block_bytes(blocks.len(), dtype).ok_or(Damage("a section's codec does not fit its type"))?;
    let count = blocks.len() / block;
    let apart = expand(stored, blocks.len(), apart)?;
    let (scales, quants) = apart.split_at(count * SCALE_BYTES);
    let (high, low) = scales.split_at(count);
    let parts = high.iter().zip(low).zip(quants.chunks_exact(block - SCALE_BYTES));
    for (block, ((high, low), quants)) in blocks.chunks_exact_mut(block).zip(parts) {
        let (scale, values) = block.split_at_mut(SCALE_BYTES);
        scale.copy_from_slice(&[*low, *high]);
        values.copy_from_slice(quants);
    }
    Ok(())
}

/// Compresses at the speed of an entropy coder. Matches shorter than 7 bytes save nothing here. A small hash table
/// still finds the long ones, such as the zeros after the last token.
fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut compressor = zstd::bulk::Compressor::new(LEVEL).ok()?;
    for parameter in [CParameter::MinMatch(7), CParameter::HashLog(8)] {
        compressor.set_parameter(parameter).ok()?;
    }
    compressor.compress(bytes).ok()
}

/// Decompresses to exactly `len_bytes` bytes.
fn expand<'a>(coded: &[u8], len_bytes: usize, into: &'a mut Vec<u8>) -> Result<&'a [u8], Damage> {
    into.resize(len_bytes, 0);
    match zstd::bulk::decompress_to_buffer(coded, into.as_mut_slice()) {
        Ok(count) if count == len_bytes => Ok(into),
        _ => Err(Damage("a section does not decompress")),
    }
}

#[cfg(test)]
mod tests {
    use cairn_testkit::random::Random;

    use super::*;

    fn check(packing: Packing, dtype: DType, x: &[f32], expected: Codec) -> (f64, Vec<u8>, Vec<u8>) {
        let mut raw = Vec::new();
        dtype.encode(x, &mut raw).expect("the type has an encoder");
        let mut packer = Packer::new(packing, RowTypes { keys: dtype, values: dtype });
        let (codec, stored) = packer.pack(SectionKind::Keys, &raw);
        assert_eq!(codec, expected, "{packing:?} of {dtype:?}");
        assert_eq!(Codec::of(codec.number()), Some(codec), "codec numbers are unique");
        let mut rows = vec![1; raw.len()];
        unpack(codec, dtype, &stored, &mut rows, &mut Workspace::default()).expect("the section was just encoded");
        for wrong in [&stored[..stored.len() - 1], &[stored.as_ref(), &[0]].concat(), &[]] {
            let unpacked = unpack(codec, dtype, wrong, &mut rows.clone(), &mut Workspace::default());
            assert!(unpacked.is_err(), "{packing:?} of {dtype:?}: {} bytes for {}", wrong.len(), stored.len());
        }
        (raw.len() as f64 / stored.len() as f64, raw, rows)
    }

    fn normal(count: usize) -> Vec<f32> {
        let mut random = Random::new(3);
        (0..count).map(|_| random.normal()).collect()
    }

    #[test]
    fn lossless_packing_is_smaller_and_exact() {
        let x = normal(1 << 17);
        let types = [(DType::F16, 1.1), (DType::BF16, 1.3), (DType::F32, 1.1)];
        for (dtype, least) in types {
            let (ratio, raw, rows) = check(Packing::Lossless, dtype, &x, Codec::Planes);
            assert!(raw == rows, "{dtype:?} decodes exactly");
            assert!(ratio > least, "{dtype:?} is smaller by {ratio:.3}");
        }
        // Most rows of a tail chunk may be zeros.
        let tail: Vec<f32> = x.iter().enumerate().map(|(at, x)| if at % 4 == 0 { *x } else { 0.0 }).collect();
        for dtype in [DType::Q8_0, DType::Q4_0] {
            let (_, raw, rows) = check(Packing::Lossless, dtype, &tail, Codec::Scales);
            assert!(raw == rows, "{dtype:?} decodes exactly");
        }
    }

    #[test]
    fn incompressible_section_is_stored_raw() {
        let mut random = Random::new(4);
        let mut noise = vec![0; 1 << 17];
        random.fill(&mut noise);
        let mut packer = Packer::new(Packing::Lossless, RowTypes { keys: DType::F16, values: DType::F16 });
        for _ in 0..4 {
            let (codec, stored) = packer.pack(SectionKind::Keys, &noise);
            assert!(codec == Codec::Raw && *stored == noise, "noise is stored raw");
        }
        assert_eq!(packer.tries, [0, TRIES, TRIES], "attempts are used up for keys but not for values");
        let (_, raw, rows) = check(Packing::Raw, DType::F16, &normal(1 << 14), Codec::Raw);
        assert!(raw == rows, "raw sections decode exactly");
        check(Packing::Lossless, DType::Q5_0, &normal(1 << 14), Codec::Raw);
    }

    #[test]
    fn compact_packing_halves_size_with_small_error() {
        let x = normal(1 << 17);
        for dtype in [DType::F16, DType::BF16] {
            let (ratio, raw, rows) = check(Packing::Compact, dtype, &x, Codec::Compact);
            assert!(ratio > 1.85, "{dtype:?} is smaller by {ratio:.3}");
            let (mut before, mut after) = (vec![0.0; x.len()], vec![0.0; x.len()]);
            dtype.decode(&raw, &mut before);
            dtype.decode(&rows, &mut after);
            let worst = before.iter().zip(&after).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            // Half a step of 3.5 / 127, and the rounding of the result.
            assert!(worst > 0.0 && worst < 0.03, "the error of {dtype:?} is {worst}");
        }
    }
}

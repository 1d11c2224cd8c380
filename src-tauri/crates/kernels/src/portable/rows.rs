//! Rows of keys and values in the types that pages have: written, and read back as `f32`.
//!
//! A row is one position's key or value for one head, encoded separately, so that it depends on no neighbour. Reading
//! is exact in every type, since a block's scale has eleven bits and its elements eight: what a row holds is the same
//! number in every variant.

use cairn_gguf::DType;

use super::Arith;
use super::arith::{LANES, Lanes, widen};
use crate::attention::PAGE_POSITIONS;

/// Elements of a quantised block.
const BLOCK: usize = 32;

/// Elements of one position of a page, for all positions.
type Column = [f32; PAGE_POSITIONS];

/// Type of the rows of keys and values. Numbers of elements are constants, so that copies have fixed lengths.
pub(crate) trait KvRowType {
    /// The bytes of `N` elements, read together.
    type Chunk: AsMut<[u8]>;
    /// A chunk of zeros, which pads rows whose last chunk is not whole.
    const EMPTY: Self::Chunk;
    /// `[N]` elements of one row.
    type Values: AsMut<[f32]>;
    /// `[N]` elements of sixteen rows.
    type Tile: AsRef<[Lanes]>;
    /// `[N]` elements of a page.
    type Columns: AsMut<[Column]>;
    /// Splits a row into whole chunks and the remaining bytes.
    fn chunks(row: &[u8]) -> (&[Self::Chunk], &[u8]);
    /// Splits an output row into the elements of whole chunks and the remaining ones.
    fn values(row: &mut [f32]) -> (&mut [Self::Values], &mut [f32]);
    /// Splits an output page into the columns of whole chunks and the remaining ones.
    fn columns(page: &mut [Column]) -> (&mut [Self::Columns], &mut [Column]);
    fn transpose<A: Arith>(rows: [&Self::Chunk; LANES]) -> Self::Tile;
    fn read<A: Arith>(chunk: &Self::Chunk) -> Self::Values;
}

macro_rules! kv_row_types {
    ($($(#[$doc:meta])* $name:ident: $elements:literal in $bytes:literal bytes, $transpose:path, $read:path;)*) => { $(
        $(#[$doc])*
        pub(crate) struct $name;
        impl KvRowType for $name {
            type Chunk = [u8; $bytes];
            const EMPTY: Self::Chunk = [0; $bytes];
            type Values = [f32; $elements];
            type Tile = [Lanes; $elements];
            type Columns = [Column; $elements];
            #[inline(always)]
            fn chunks(row: &[u8]) -> (&[Self::Chunk], &[u8]) {
                row.as_chunks()
            }
            #[inline(always)]
            fn values(row: &mut [f32]) -> (&mut [Self::Values], &mut [f32]) {
                row.as_chunks_mut()
            }
            #[inline(always)]
            fn columns(page: &mut [Column]) -> (&mut [Self::Columns], &mut [Column]) {
                page.as_chunks_mut()
            }
            #[inline(always)]
            fn transpose<A: Arith>(rows: [&Self::Chunk; LANES]) -> Self::Tile {
                $transpose(rows)
            }
            #[inline(always)]
            fn read<A: Arith>(chunk: &Self::Chunk) -> Self::Values {
                $read(chunk)
            }
        }
    )* };
}
kv_row_types! {
    /// Binary16.
    Half: 16 in 32 bytes, A::transpose_f16, A::read_f16;
    /// The upper half of binary32.
    UpperHalf: 16 in 32 bytes, A::transpose_bf16, A::read_bf16;
    /// A binary16 scale and 32 signed bytes.
    Q80: 32 in 34 bytes, transpose_q8_0::<A>, read_q8_0::<A>;
    /// A binary16 scale and 32 times four bits: element `i` in the lower half of byte `i`, element `i + 16` in the upper.
    Q40: 32 in 18 bytes, transpose_q4_0::<A>, read_q4_0::<A>;
}

/// A page's rows to `[elements, PAGE_POSITIONS]`. Meanwhile `next`, the bytes that are read after it, is prefetched.
#[inline(always)]
pub(crate) fn transpose<A: Arith, T: KvRowType>(page: &[u8], row_bytes: usize, out: &mut [Column], next: &[u8]) {
    let (whole, rest) = T::columns(out);
    let part = next.len().div_ceil((PAGE_POSITIONS / LANES * whole.len()).max(1)).max(1);
    let mut next = next.chunks(part);
    for group in 0..PAGE_POSITIONS / LANES {
        let row = |lane: usize| T::chunks(&page[(group * LANES + lane) * row_bytes..][..row_bytes]);
        for (chunk, columns) in whole.iter_mut().enumerate() {
            let rows = std::array::from_fn(|lane| row(lane).0.get(chunk).expect("all rows have as many chunks"));
            A::prefetch(next.next().unwrap_or_default());
            place(T::transpose::<A>(rows).as_ref(), columns.as_mut(), group);
        }
        if !rest.is_empty() {
            let mut padded = [T::EMPTY; LANES];
            for (lane, padded) in padded.iter_mut().enumerate() {
                let tail = row(lane).1;
                padded.as_mut()[..tail.len()].copy_from_slice(tail);
            }
            place(T::transpose::<A>(padded.each_ref()).as_ref(), rest, group);
        }
    }
}

/// Puts elements of sixteen rows where the `group`th sixteen of a page are.
#[inline(always)]
fn place(tile: &[Lanes], columns: &mut [Column], group: usize) {
    for (column, lanes) in columns.iter_mut().zip(tile) {
        column[group * LANES..(group + 1) * LANES].copy_from_slice(lanes);
    }
}

/// Rows with equal distances.
#[derive(Clone, Copy)]
pub(crate) struct Strided<'a> {
    /// From the first row to the end of the last one.
    pub(crate) rows: &'a [u8],
    /// Bytes of a row.
    pub(crate) row_bytes: usize,
    /// Bytes from one row to the next, at least those of a row.
    pub(crate) stride: usize,
}

/// Rows one after the other, `[rows, elements]`. Meanwhile `next`, the rows that are read after them, is prefetched.
#[inline(always)]
pub(crate) fn read<A: Arith, T: KvRowType>(rows: Strided<'_>, elements: usize, out: &mut [f32], next: &[u8]) {
    let Strided { rows, row_bytes, stride } = rows;
    let mut next = next.chunks(stride);
    for (row, out) in rows.chunks(stride).zip(out.chunks_exact_mut(elements)) {
        A::prefetch(next.next().unwrap_or_default());
        let ((chunks, bytes), (whole, rest)) = (T::chunks(&row[..row_bytes]), T::values(out));
        for (chunk, values) in chunks.iter().zip(whole) {
            *values = T::read::<A>(chunk);
        }
        if !rest.is_empty() {
            let mut padded = T::EMPTY;
            padded.as_mut()[..bytes.len()].copy_from_slice(bytes);
            rest.copy_from_slice(&T::read::<A>(&padded).as_mut()[..rest.len()]);
        }
    }
}

#[inline(always)]
fn transpose_q8_0<A: Arith>(rows: [&[u8; 34]; LANES]) -> [Lanes; BLOCK] {
    A::transpose_i8(rows.map(|row| row[2..].as_array().expect("32 bytes follow the scale")), &scales::<A, 34>(&rows))
}

#[inline(always)]
fn read_q8_0<A: Arith>(block: &[u8; 34]) -> [f32; BLOCK] {
    read_i8::<A>(&block[2..], widen(u16::from_le_bytes([block[0], block[1]])))
}

#[inline(always)]
fn transpose_q4_0<A: Arith>(rows: [&[u8; 18]; LANES]) -> [Lanes; BLOCK] {
    let unpacked = rows.map(nibbles::<A>);
    A::transpose_i8(unpacked.each_ref(), &scales::<A, 18>(&rows))
}

#[inline(always)]
fn read_q4_0<A: Arith>(block: &[u8; 18]) -> [f32; BLOCK] {
    read_i8::<A>(&nibbles::<A>(block), widen(u16::from_le_bytes([block[0], block[1]])))
}

#[inline(always)]
fn read_i8<A: Arith>(bytes: &[u8], factor: f32) -> [f32; BLOCK] {
    let mut out = [0.0; BLOCK];
    for (out, bytes) in out.as_chunks_mut().0.iter_mut().zip(bytes.as_chunks().0) {
        *out = A::read_i8(bytes, factor);
    }
    out
}

/// The scales of sixteen rows.
#[inline(always)]
fn scales<A: Arith, const BYTES: usize>(rows: &[&[u8; BYTES]; LANES]) -> Lanes {
    A::widen(&rows.map(|row| u16::from_le_bytes([row[0], row[1]])))
}

/// A block's elements as signed bytes.
#[inline(always)]
fn nibbles<A: Arith>(block: &[u8; 18]) -> [u8; BLOCK] {
    A::nibbles(block[2..].as_array().expect("16 bytes follow the scale"))
}

/// Writes one row.
#[inline(always)]
pub(crate) fn encode<A: Arith>(dtype: DType, x: &[f32], row: &mut [u8]) {
    assert!(x.len().is_multiple_of(dtype.block()), "{} elements are no whole blocks of {dtype}", x.len());
    assert_eq!(row.len(), dtype.row_bytes(x.len()), "a row has room for its elements");
    match dtype {
        DType::F16 => halves(x, row, A::narrow),
        DType::BF16 => halves(x, row, |x| x.map(upper_half)),
        DType::Q8_0 => blocks(x, row, q8_0),
        DType::Q4_0 => blocks(x, row, q4_0),
        other => unreachable!("{other} is no type of keys and values"),
    }
}

#[inline(always)]
fn halves(x: &[f32], row: &mut [u8], narrow: impl Fn(&Lanes) -> [u16; LANES]) {
    for (x, row) in x.chunks(LANES).zip(row.chunks_mut(2 * LANES)) {
        let mut padded = [0.0; LANES];
        padded[..x.len()].copy_from_slice(x);
        for (half, bytes) in narrow(&padded).iter().zip(row.as_chunks_mut().0) {
            *bytes = half.to_le_bytes();
        }
    }
}

#[inline(always)]
fn blocks<const BYTES: usize>(x: &[f32], row: &mut [u8], encode: impl Fn(&[f32; BLOCK], &mut [u8; BYTES])) {
    for (x, block) in x.as_chunks().0.iter().zip(row.as_chunks_mut().0) {
        encode(x, block);
    }
}

/// Rounds to the nearest bfloat16 (the upper half of an f32), ties to even. NaN becomes a quiet NaN.
#[inline(always)]
fn upper_half(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = if x.is_nan() { bits | 0x0040_0000 } else { bits + 0x7fff + (bits >> 16 & 1) };
    (rounded >> 16) as u16
}

/// Returns the bits of the largest magnitude. Bits are ordered like magnitudes, with infinity and then NaN on top.
#[inline(always)]
fn largest(x: &[f32; BLOCK]) -> u32 {
    x.iter().map(|x| x.to_bits() & 0x7fff_ffff).fold(0, u32::max)
}

/// The scale as it is stored, and what elements are multiplied by.
#[inline(always)]
fn scale(d: f32, block: &mut [u8]) -> f32 {
    block[..2].copy_from_slice(&half::f16::from_f32_const(d).to_le_bytes());
    if d == 0.0 { 0.0 } else { 1.0 / d }
}

/// Maps the largest magnitude to 127 and rounds half away from zero.
#[inline(always)]
fn q8_0(x: &[f32; BLOCK], block: &mut [u8; 34]) {
    // The greatest number below a half: with a half, a number just below one would be rounded up.
    const NEARLY_HALF: f32 = 0.5 - f32::EPSILON / 4.0;
    let inverse = scale(f32::from_bits(largest(x)) / 127.0, block);
    for (&x, byte) in x.iter().zip(&mut block[2..]) {
        let y = x * inverse;
        *byte = ((y + NEARLY_HALF.copysign(y)) as i32).clamp(-128, 127) as i8 as u8;
    }
}

/// Maps the element of the largest magnitude, the first of equals, to -8, because the grid reaches further down than up.
#[inline(always)]
fn q4_0(x: &[f32; BLOCK], block: &mut [u8; 18]) {
    let most = largest(x);
    let first = x.iter().copied().find(|x| x.to_bits() & 0x7fff_ffff == most);
    let first = if most == 0 { 0.0 } else { first.expect("one element is the largest") };
    let inverse = scale(first / -8.0, block);
    let mut quants = [0; BLOCK];
    for (&x, quant) in x.iter().zip(&mut quants) {
        *quant = ((x * inverse + 8.5) as i32).clamp(0, 15) as u8;
    }
    let (low, high) = quants.split_at(BLOCK / 2);
    for ((low, high), byte) in low.iter().zip(high).zip(&mut block[2..]) {
        *byte = low | high << 4;
    }
}

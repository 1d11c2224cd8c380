//! How activations meet a weight type: the column, one token's activations as one range of bytes.
//!
//! A column has up to three parts, each starting at a multiple of 64 bytes from the column's start and padded with
//! zeros, all numbers little-endian:
//!
//! ```text
//! F32      values f32[k]
//! Q8x32    scales f32[k / 32]  | sums i32[k / 32]  | values i8[k]       one scale and one sum per 32 elements
//! Q8x256   scales f32[k / 256] | sums i16[k / 16]  | values i8[k]       one scale per 256, one sum per 16 elements
//! ```
//!
//! A value is `round(x * 127 / max|x|)` in -127..=127, ties to even, over the elements that share a scale, and the scale
//! is `max|x| / 127`; so `x` is about `scale * value`. A sum is that of the values it covers: weights stored with an
//! offset or a minimum need it. Not-a-number and infinity among the activations become such a scale, so that they reach
//! the result instead of vanishing in a conversion to integers.

use cairn_gguf::DType;

/// Every part of a column starts at a multiple of this many bytes.
const PART_BYTES: usize = 64;

/// How the activations that meet a weight type are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// As they are.
    F32,
    /// Signed bytes, a scale for each 32.
    Q8x32,
    /// Signed bytes, a scale for each 256.
    Q8x256,
}

impl Format {
    /// The format that weights of `dtype` are multiplied with.
    ///
    /// # Panics
    /// When `dtype` is not a type for weights.
    #[must_use]
    pub const fn of(dtype: DType) -> Self {
        assert!(dtype.is_weight(), "not a type for weights");
        match dtype.block() {
            1 => Self::F32,
            256 => Self::Q8x256,
            _ => Self::Q8x32,
        }
    }

    /// Elements that share a scale; a column holds whole blocks.
    #[must_use]
    pub const fn block(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::Q8x32 => 32,
            Self::Q8x256 => 256,
        }
    }

    /// Bytes of a column of `k` elements, a multiple of 64.
    #[must_use]
    pub const fn column_bytes(self, k: usize) -> usize {
        let [scales, sums, values] = self.parts(k);
        scales + sums + values
    }

    /// Padded bytes of scales, sums and values.
    const fn parts(self, k: usize) -> [usize; 3] {
        let parts = match self {
            Self::F32 => [0, 0, 4 * k],
            Self::Q8x32 => [k / 32 * 4, k / 32 * 4, k],
            Self::Q8x256 => [k / 256 * 4, k / 16 * 2, k],
        };
        [
            parts[0].next_multiple_of(PART_BYTES),
            parts[1].next_multiple_of(PART_BYTES),
            parts[2].next_multiple_of(PART_BYTES),
        ]
    }

    /// The parts of a column that is written.
    pub(crate) fn split_mut(self, k: usize, column: &mut [u8]) -> [&mut [u8]; 3] {
        assert_eq!(column.len(), self.column_bytes(k), "a column of {k} in {self:?}");
        let [scales, sums, _] = self.parts(k);
        let (scales, rest) = column.split_at_mut(scales);
        let (sums, values) = rest.split_at_mut(sums);
        [scales, sums, values]
    }

    /// The parts of a column that is read.
    fn split(self, k: usize, column: &[u8]) -> [&[u8]; 3] {
        let [scales, sums, _] = self.parts(k);
        let (scales, rest) = column.split_at(scales);
        let (sums, values) = rest.split_at(sums);
        [scales, sums, values]
    }
}

/// Converted activations of some tokens.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    /// Format of the columns.
    pub format: Format,
    /// Elements of a column.
    pub k: usize,
    /// Columns of [`Format::column_bytes`] each, one after the other.
    pub bytes: &'a [u8],
    /// Number of columns.
    pub count: usize,
}

impl<'a> Columns<'a> {
    /// The bytes of column `index`.
    pub(crate) fn column(&self, index: usize) -> &'a [u8] {
        let bytes = self.format.column_bytes(self.k);
        &self.bytes[index * bytes..(index + 1) * bytes]
    }

    /// Column `index` of the format [`Format::Q8x32`].
    pub(crate) fn q8x32(&self, index: usize) -> Q8x32<'a> {
        let blocks = self.k / 32;
        let [scales, sums, values] = self.format.split(self.k, self.column(index));
        Q8x32 {
            scales: &scales.as_chunks().0[..blocks],
            sums: &sums.as_chunks().0[..blocks],
            values: &values.as_chunks().0[..blocks],
        }
    }

    /// Column `index` of the format [`Format::Q8x256`].
    pub(crate) fn q8x256(&self, index: usize) -> Q8x256<'a> {
        let blocks = self.k / 256;
        let [scales, sums, values] = self.format.split(self.k, self.column(index));
        Q8x256 {
            scales: &scales.as_chunks().0[..blocks],
            sums: &sums.as_chunks().0[..blocks],
            values: &values.as_chunks().0[..blocks],
        }
    }
}

/// A column of [`Format::Q8x32`], by blocks of 32 elements.
#[derive(Clone, Copy)]
pub(crate) struct Q8x32<'a> {
    /// One `f32` per block.
    pub(crate) scales: &'a [[u8; 4]],
    /// One `i32` per block.
    pub(crate) sums: &'a [[u8; 4]],
    /// 32 `i8` per block.
    pub(crate) values: &'a [[u8; 32]],
}

/// A column of [`Format::Q8x256`], by blocks of 256 elements.
#[derive(Clone, Copy)]
pub(crate) struct Q8x256<'a> {
    /// One `f32` per block.
    pub(crate) scales: &'a [[u8; 4]],
    /// Sixteen `i16` per block.
    pub(crate) sums: &'a [[u8; 32]],
    /// 256 `i8` per block.
    pub(crate) values: &'a [[u8; 256]],
}

/// Defines how `N` columns from `first` on are read, cut to their first blocks: with one local number for all columns, a
/// loop over blocks needs no further checks, which gives prefill with AVX-512 two fifths more speed. (Closures are avoided
/// in functions with target features: they would have them too, and are then not inlined where the library calls
/// them.)
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! several {
    ($column:ident, $one:ident, $several:ident) => {
        impl<'a> Columns<'a> {
            #[inline(always)]
            pub(crate) fn $several<const N: usize>(&self, first: usize, blocks: usize) -> [$column<'a>; N] {
                std::array::from_fn(|n| {
                    let $column { scales, sums, values } = self.$one(first + n);
                    $column { scales: &scales[..blocks], sums: &sums[..blocks], values: &values[..blocks] }
                })
            }
        }
    };
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
several!(Q8x32, q8x32, several_q8x32);
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
several!(Q8x256, q8x256, several_q8x256);

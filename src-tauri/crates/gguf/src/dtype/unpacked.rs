//! One row of any quantised type as plain integers and scales: the definition that products in integers start from.

use super::integers::Integers;
use super::scales::scale;

/// A quantised row, unpacked without loss. The memory stays when another row is unpacked.
///
/// In blocks of 256, element `i` of block `b` is `scales[b] * sub_scales[16 b + i / 16] * quants[256 b + i]`, less
/// `minimum_scales[b] * sub_minima[16 b + i / 16]`. In smaller blocks it is `scales[b] * quants[i]`, plus
/// `minimum_scales[b]`.
#[derive(Debug, Default)]
pub struct UnpackedRow {
    /// One per element, offsets already subtracted.
    pub quants: Vec<i8>,
    /// One per block. NVFP4: one per 16 elements, since its float scales have no common integer scale.
    pub scales: Vec<f32>,
    /// Blocks of 256: one per 16 elements.
    pub sub_scales: Vec<i32>,
    /// Smaller blocks: the minimum of each block. Blocks of 256: the scale of its minima. Empty for a type without minima.
    pub minimum_scales: Vec<f32>,
    /// Blocks of 256 with minima: one per 16 elements.
    pub sub_minima: Vec<i32>,
}

impl UnpackedRow {
    pub(super) fn clear(&mut self) {
        self.quants.clear();
        self.scales.clear();
        self.sub_scales.clear();
        self.minimum_scales.clear();
        self.sub_minima.clear();
    }

    /// Appends a block that is already decoded to integers (see [`Integers`]).
    pub(super) fn push_integers(&mut self, block: &Integers) {
        self.scales.push(block.d);
        self.sub_scales.extend(block.scales.map(i32::from));
        self.quants.extend(block.quants);
        if let Some(minima) = block.minima {
            self.minimum_scales.push(minima.d);
            self.sub_minima.extend(minima.values.map(i32::from));
        }
    }

    /// Appends the f16 scale at the start of a block. Returns the bytes after it.
    pub(super) fn push_scale<'a>(&mut self, block: &'a [u8]) -> &'a [u8] {
        let (d, rest) = block.split_first_chunk().expect("a block starts with its scale");
        self.scales.push(scale(*d));
        rest
    }

    /// Appends an f16 minimum or scale of minima at the start of `bytes`. Returns the bytes after it.
    pub(super) fn push_minimum_scale<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (m, rest) = bytes.split_first_chunk().expect("a block's minimum follows its scale");
        self.minimum_scales.push(scale(*m));
        rest
    }

    /// Appends the integer scales and minima of eight sub-blocks of 32.
    pub(super) fn push_sub_blocks(&mut self, (scales, minima): ([u8; 8], [u8; 8])) {
        self.sub_scales.extend(scales.iter().flat_map(|&scale| [i32::from(scale); 2]));
        self.sub_minima.extend(minima.iter().flat_map(|&minimum| [i32::from(minimum); 2]));
    }

    /// Appends the values of all low nibbles, then those of all high nibbles.
    pub(super) fn push_nibbles(&mut self, bytes: &[u8], value: impl Fn(u8) -> i8) {
        self.quants.extend(bytes.iter().map(|&b| value(b & 15)));
        self.quants.extend(bytes.iter().map(|&b| value(b >> 4)));
    }

    /// Appends the entry of `codebook` for each nibble of `bytes`.
    #[expect(clippy::indexing_slicing, reason = "a nibble is below 16")]
    pub(super) fn push_indices(&mut self, bytes: &[u8], codebook: &[i8; 16]) {
        self.push_nibbles(bytes, |nibble| codebook[usize::from(nibble)]);
    }

    /// Appends values of five bits less `offset`: four bytes of fifth bits, then nibbles.
    pub(super) fn push_five_bits(&mut self, bytes: &[u8], offset: i8) {
        let (fifths, bytes) = bytes.split_first_chunk().expect("four bytes of fifth bits come first");
        let fifths = u32::from_le_bytes(*fifths);
        let fifth = |i: usize| ((fifths >> i & 1) << 4) as i8;
        self.quants.extend(bytes.iter().enumerate().map(|(i, &b)| ((b & 15) as i8 | fifth(i)) - offset));
        self.quants.extend(bytes.iter().enumerate().map(|(i, &b)| ((b >> 4) as i8 | fifth(i + 16)) - offset));
    }
}

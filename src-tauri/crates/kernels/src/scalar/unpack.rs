//! One row of any quantised type as plain integers. The layouts are drawn in `cairn_gguf::dtype`, one file per type.

use cairn_gguf::DType;
use cairn_gguf::dtype::codebook::{E2M1_TWICE, IQ4, half_e8m0};
use cairn_gguf::dtype::ue4m3_half;

use crate::portable::arith::widen;

/// A row, unpacked without loss.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// One per element, offsets already taken off.
    pub(super) quants: Vec<i8>,
    /// One per block; NVFP4: one per 16 elements, since those floats have no common integer scale.
    pub(super) scales: Vec<f32>,
    /// Blocks of 256: one per 16 elements.
    pub(super) sub_scales: Vec<i32>,
    /// Q4_1 and Q5_1: the minimum of each block. Q2_K, Q4_K and Q5_K: what its minima are multiplied with. Else empty.
    pub(super) minimum_scales: Vec<f32>,
    /// Q2_K, Q4_K and Q5_K: one per 16 elements.
    pub(super) sub_minima: Vec<i32>,
}

impl Row {
    /// Replaces the row by another.
    pub(super) fn read(&mut self, dtype: DType, bytes: &[u8]) {
        self.quants.clear();
        self.scales.clear();
        self.sub_scales.clear();
        self.minimum_scales.clear();
        self.sub_minima.clear();
        for block in bytes.chunks_exact(dtype.block_bytes()) {
            match dtype {
                DType::Q8_0 => self.q8_0(block),
                DType::Q4_0 => self.q4_0(block),
                DType::Q5_0 => self.q5_0(block),
                DType::Q4_1 => self.q4_1(block),
                DType::Q5_1 => self.q5_1(block),
                DType::IQ4_NL => self.iq4_nl(block),
                DType::IQ4_XS => self.iq4_xs(block),
                DType::MXFP4 => self.mxfp4(block),
                DType::Q4_K => self.q4_k(block),
                DType::Q5_K => self.q5_k(block),
                DType::Q6_K => self.q6_k(block),
                DType::NVFP4 => self.nvfp4(block),
                other => self.integers(other, block),
            }
        }
    }

    fn q8_0(&mut self, block: &[u8]) {
        self.scales.push(f16(block, 0));
        self.quants.extend(block[2..].iter().map(|&b| b as i8));
    }

    fn q4_0(&mut self, block: &[u8]) {
        self.scales.push(f16(block, 0));
        self.nibbles(&block[2..], |nibble| nibble as i8 - 8);
    }

    fn q5_0(&mut self, block: &[u8]) {
        self.scales.push(f16(block, 0));
        self.five_bits(&block[2..], -16);
    }

    fn q4_1(&mut self, block: &[u8]) {
        self.scales.push(f16(block, 0));
        self.minimum_scales.push(f16(block, 2));
        self.nibbles(&block[4..], |nibble| nibble as i8);
    }

    fn q5_1(&mut self, block: &[u8]) {
        self.scales.push(f16(block, 0));
        self.minimum_scales.push(f16(block, 2));
        self.five_bits(&block[4..], 0);
    }

    fn iq4_nl(&mut self, block: &[u8]) {
        self.scales.push(f16(block, 0));
        self.nibbles(&block[2..], |nibble| IQ4[usize::from(nibble)]);
    }

    fn iq4_xs(&mut self, block: &[u8]) {
        self.scales.push(f16(block, 0));
        let high = u16::from_le_bytes([block[2], block[3]]);
        for (sub, bytes) in block[8..].chunks_exact(16).enumerate() {
            let low = block[4 + sub / 2] >> (4 * (sub % 2)) & 15;
            let scale = i32::from(low) | i32::from(high >> (2 * sub) & 3) << 4;
            self.sub_scales.extend([scale - 32; 2]);
            self.nibbles(bytes, |nibble| IQ4[usize::from(nibble)]);
        }
    }

    fn mxfp4(&mut self, block: &[u8]) {
        self.scales.push(half_e8m0(block[0]));
        self.nibbles(&block[1..], |nibble| E2M1_TWICE[usize::from(nibble)]);
    }

    /// What low nibbles stand for, then what high ones do.
    fn nibbles(&mut self, bytes: &[u8], value: impl Fn(u8) -> i8) {
        self.quants.extend(bytes.iter().map(|&b| value(b & 15)));
        self.quants.extend(bytes.iter().map(|&b| value(b >> 4)));
    }

    /// Nibbles behind four bytes of fifth bits.
    fn five_bits(&mut self, bytes: &[u8], offset: i8) {
        let (fifths, bytes) = bytes.split_at(4);
        let fifth = |i: usize| ((fifths[i / 8] >> (i % 8) & 1) << 4) as i8;
        self.quants.extend(bytes.iter().enumerate().map(|(i, &b)| ((b & 15) as i8 | fifth(i)) + offset));
        self.quants.extend(bytes.iter().enumerate().map(|(i, &b)| ((b >> 4) as i8 | fifth(i + 16)) + offset));
    }

    fn q4_k(&mut self, block: &[u8]) {
        self.scales_and_minima(block);
        for bytes in block[16..].chunks_exact(32) {
            self.quants.extend(bytes.iter().map(|&b| (b & 15) as i8));
            self.quants.extend(bytes.iter().map(|&b| (b >> 4) as i8));
        }
    }

    fn q5_k(&mut self, block: &[u8]) {
        self.scales_and_minima(block);
        let (fifths, nibbles) = block[16..].split_at(32);
        let fifth = |i: usize, sub: usize| ((fifths[i] >> sub & 1) << 4) as i8;
        for (pair, bytes) in nibbles.chunks_exact(32).enumerate() {
            self.quants.extend(bytes.iter().enumerate().map(|(i, &b)| (b & 15) as i8 | fifth(i, 2 * pair)));
            self.quants.extend(bytes.iter().enumerate().map(|(i, &b)| (b >> 4) as i8 | fifth(i, 2 * pair + 1)));
        }
    }

    fn q6_k(&mut self, block: &[u8]) {
        self.scales.push(f16(block, 208));
        self.sub_scales.extend(block[192..208].iter().map(|&scale| i32::from(scale as i8)));
        for half in 0..2 {
            let (low, high) = (&block[64 * half..], &block[128 + 32 * half..]);
            for group in 0..4 {
                self.quants.extend((0..32).map(|i| {
                    let low = low[32 * (group % 2) + i] >> (4 * (group / 2)) & 15;
                    let high = high[i] >> (2 * group) & 3;
                    (low | high << 4) as i8 - 32
                }));
            }
        }
    }

    fn nvfp4(&mut self, block: &[u8]) {
        let (scales, quants) = block.split_at(4);
        self.scales.extend(scales.iter().map(|&byte| ue4m3_half(byte)));
        for bytes in quants.chunks_exact(8) {
            self.nibbles(bytes, |nibble| E2M1_TWICE[usize::from(nibble)]);
        }
    }

    /// The types whose definition is in integers already.
    fn integers(&mut self, dtype: DType, block: &[u8]) {
        let integers = dtype.integers(block).expect("every other quantised type of weights has integers");
        self.scales.push(integers.d);
        self.sub_scales.extend(integers.scales.map(i32::from));
        self.quants.extend(integers.quants);
        if let Some(minima) = integers.minima {
            self.minimum_scales.push(minima.d);
            self.sub_minima.extend(minima.values.map(i32::from));
        }
    }

    /// The head that Q4_K and Q5_K share: two scales, then eight 6-bit scales and minima in twelve bytes.
    fn scales_and_minima(&mut self, block: &[u8]) {
        self.scales.push(f16(block, 0));
        self.minimum_scales.push(f16(block, 2));
        let packed = &block[4..16];
        for sub in 0..8 {
            let (scale, minimum) = if sub < 4 {
                (packed[sub] & 63, packed[sub + 4] & 63)
            } else {
                (packed[sub + 4] & 15 | packed[sub - 4] >> 6 << 4, packed[sub + 4] >> 4 | packed[sub] >> 6 << 4)
            };
            self.sub_scales.extend([i32::from(scale); 2]);
            self.sub_minima.extend([i32::from(minimum); 2]);
        }
    }
}

/// The binary16 at `offset`.
fn f16(block: &[u8], offset: usize) -> f32 {
    widen(u16::from_le_bytes([block[offset], block[offset + 1]]))
}

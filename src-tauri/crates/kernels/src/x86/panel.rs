//! Unpacking of weight blocks into panels.

use std::arch::x86_64::_mm256_cvtph_ps;

use cairn_gguf::dtype::codebook::half_e8m0;

use super::memory::{load_u16x8, store_f32x8};
use crate::block::{BlockType, minimum_scale_bits, scale, scale_bits, scales_and_minima, sub_scales};
use crate::panel::{Lanes, Line, Panel};
use crate::portable::arith::widen;

impl Panel {
    /// Makes room for rows of `blocks` blocks and fills everything but the quants, of which a 32-element group takes
    /// `lines` lines.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn prepare<T: BlockType, const ROWS: usize>(
        &mut self,
        rows: &[&[T::Block]; ROWS],
        blocks: usize,
        lines: usize,
    ) {
        let subs = blocks * T::BLOCK / 32;
        self.quants.resize(subs * lines, Line([0; 64]));
        self.scales.resize(blocks, Lanes::default());
        self.minimum_scales.resize(if T::MINIMA { blocks } else { 0 }, Lanes::default());
        if T::BLOCK == 32 {
            for (block, scales) in self.scales.iter_mut().enumerate() {
                let mut bits = [0; 16];
                for (bits, row) in bits.iter_mut().zip(rows) {
                    *bits = scale_bits::<T>(row[block].as_ref());
                }
                scales.0 = if T::EXPONENT_SCALE { bits.map(|bits| half_e8m0(bits as u8)) } else { widen_lanes(&bits) };
            }
            for (block, minima) in self.minimum_scales.iter_mut().enumerate() {
                let mut bits = [0; 16];
                for (bits, row) in bits.iter_mut().zip(rows) {
                    *bits = minimum_scale_bits(row[block].as_ref());
                }
                minima.0 = widen_lanes(&bits);
            }
            return;
        }
        let groups = 32 / T::SUB;
        self.sub_scales.resize(subs * groups, Lanes::default());
        self.pairs.resize(subs, Lanes::default());
        for (row, row_blocks) in rows.iter().enumerate() {
            for (index, block) in row_blocks.iter().map(AsRef::as_ref).enumerate() {
                self.scales[index].0[row] = scale::<T>(block);
                let pairs = &mut self.pairs[8 * index..8 * (index + 1)];
                let sub_scales_out = &mut self.sub_scales[8 * groups * index..8 * groups * (index + 1)];
                if T::MINIMA {
                    self.minimum_scales[index].0[row] = widen(minimum_scale_bits(block));
                    let (scales, minima) = scales_and_minima(block);
                    let (scales, minima) = (scales.to_le_bytes(), minima.to_le_bytes());
                    for sub in 0..8 {
                        sub_scales_out[sub].0[row] = i32::from(scales[sub]);
                        pairs[sub].0[row] = pair(minima[sub].into(), minima[sub].into());
                    }
                } else {
                    let scales = sub_scales::<T>(block);
                    for (out, &scale) in sub_scales_out.iter_mut().zip(scales.iter().step_by(T::SUB / 16)) {
                        out.0[row] = i32::from(scale);
                    }
                    for (out, &[a, b]) in pairs.iter_mut().zip(scales.as_chunks::<2>().0) {
                        out.0[row] = pair(a.into(), b.into());
                    }
                }
            }
        }
    }
}

/// Sixteen binary16 as `f32`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn widen_lanes(bits: &[u16; 16]) -> [f32; 16] {
    let mut lanes = [0.0; 16];
    for (lanes, bits) in lanes.as_chunks_mut::<8>().0.iter_mut().zip(bits.as_chunks().0) {
        *lanes = store_f32x8(_mm256_cvtph_ps(load_u16x8(bits)));
    }
    lanes
}

/// Two `i16` in one lane, the first in its low half.
fn pair(low: i16, high: i16) -> i32 {
    i32::from(low as u16) | i32::from(high) << 16
}

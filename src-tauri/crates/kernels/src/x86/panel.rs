//! Unpacking of weight blocks into panels.

use crate::block::{BlockType, minimum_scale_bits, scale, scales_and_minima, sub_scales};
use crate::panel::{Lanes, Line, Panel};
use crate::portable::arith::widen;

impl Panel {
    /// Makes room for rows of `blocks` blocks and fills everything but the quants, of which a 32-element group takes
    /// `lines` lines.
    pub(super) fn prepare<T: BlockType>(&mut self, rows: &[&[u8]], blocks: usize, lines: usize) {
        let subs = blocks * T::BLOCK / 32;
        self.quants.resize(subs * lines, Line([0; 64]));
        self.scales.resize(blocks, Lanes::default());
        self.minimum_scales.resize(if T::MINIMA { blocks } else { 0 }, Lanes::default());
        if T::BLOCK == 32 {
            for (row, bytes) in rows.iter().enumerate() {
                for (block, scales) in T::blocks(bytes, blocks).iter().zip(&mut self.scales) {
                    scales.0[row] = scale::<T>(block.as_ref());
                }
                for (block, minima) in T::blocks(bytes, blocks).iter().zip(&mut self.minimum_scales) {
                    minima.0[row] = widen(minimum_scale_bits(block.as_ref()));
                }
            }
            return;
        }
        let groups = 32 / T::SUB;
        self.sub_scales.resize(subs * groups, Lanes::default());
        self.pairs.resize(subs, Lanes::default());
        for (row, bytes) in rows.iter().enumerate() {
            for (index, block) in T::blocks(bytes, blocks).iter().map(AsRef::as_ref).enumerate() {
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

/// Two `i16` in one lane, the first in its low half.
fn pair(low: i16, high: i16) -> i32 {
    i32::from(low as u16) | i32::from(high) << 16
}

//! Unpacking of weight blocks into panels.

use super::memory::store_i8x16;
use super::quants::weights;
use crate::block::{BlockType, minimum_scale_bits, scale, scales_and_minima, sub_scales};
use crate::panel::{Panel, ROWS};
use crate::portable::arith::widen;

impl Panel {
    /// Unpacks the first `blocks` blocks of each row.
    #[target_feature(enable = "neon")]
    pub(super) fn fill<T: BlockType>(&mut self, rows: [&[u8]; ROWS], blocks: usize) {
        let subs = T::BLOCK / 32;
        self.quants.resize(blocks * subs, [[0; 32]; ROWS]);
        self.scales.resize(blocks, [0.0; ROWS]);
        if T::BLOCK == 256 {
            self.sub_scales.resize(blocks, [[0; 16]; ROWS]);
        }
        if T::MINIMA {
            self.minimum_scales.resize(blocks, [0.0; ROWS]);
        }
        if T::BLOCK == 256 && T::MINIMA {
            self.minima.resize(blocks, [[0; 8]; ROWS]);
        }
        for (r, row) in rows.into_iter().enumerate() {
            for (index, block) in T::blocks(row, blocks).iter().enumerate() {
                let block = block.as_ref();
                self.scales[index][r] = scale::<T>(block);
                if T::MINIMA {
                    self.minimum_scales[index][r] = widen(minimum_scale_bits(block));
                }
                if T::BLOCK == 256 {
                    self.heads::<T>(index, r, block);
                }
                for (sub, quants) in self.quants[index * subs..][..subs].iter_mut().enumerate() {
                    for (quants, w) in quants[r].as_chunks_mut().0.iter_mut().zip(weights::<T>(block, sub)) {
                        store_i8x16(quants, w);
                    }
                }
            }
        }
    }

    /// The integer scales and minima of a block of 256.
    #[inline(always)]
    fn heads<T: BlockType>(&mut self, index: usize, r: usize, block: &[u8]) {
        let scales = &mut self.sub_scales[index][r];
        if T::MINIMA {
            let (subs, minima) = scales_and_minima(block);
            for (out, sub) in scales.as_chunks_mut().0.iter_mut().zip(subs.to_le_bytes()) {
                *out = [i32::from(sub); 2];
            }
            self.minima[index][r] = minima.to_le_bytes().map(i16::from);
        } else {
            *scales = sub_scales::<T>(block).map(i32::from);
        }
    }
}

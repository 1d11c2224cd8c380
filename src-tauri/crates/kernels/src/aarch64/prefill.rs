//! Several columns: panels of four rows, unpacked once and multiplied with all columns, four at a time.
//!
//! Some panels are unpacked before any is multiplied, so that columns fetched into the first-level cache meet all of
//! them.

use std::arch::aarch64::*;

use super::dot::{Dot, dot_32, dot_minima, sums_by_32, totals};
use super::memory::{load_f32x4, load_i16x8, load_pair, store_f32x4};
use crate::block::{BlockType, at};
use crate::matmul::MatMul;
use crate::panel::{Panel, ROWS};

/// Quants of all panels that are multiplied together, in bytes: half of a second-level cache of 256 KiB.
const PANELS_BYTES: usize = 128 * 1024;

/// All products, some panels at a time.
#[target_feature(enable = "neon")]
pub(super) fn matmul<T: BlockType, D: Dot>(m: &mut MatMul<'_>) {
    let mut panels = std::mem::take(&mut m.scratch.panels);
    let together = (PANELS_BYTES / (ROWS * m.k).max(1)).clamp(1, 16);
    panels.resize_with(panels.len().max(together), Panel::default);
    for start in (0..m.rows).step_by(ROWS * together) {
        let firsts = (start..m.rows).step_by(ROWS).take(together);
        for (first, panel) in firsts.clone().zip(&mut panels) {
            panel.fill::<T>(m.panel_rows(first), m.k / T::BLOCK);
        }
        let mut column = 0;
        while column < m.columns.count {
            let width = if m.columns.count - column < 4 { 1 } else { 4 };
            for (first, panel) in firsts.clone().zip(&panels) {
                if width == 4 {
                    tile::<T, D, 4>(m, panel, first, column);
                } else {
                    tile::<T, D, 1>(m, panel, first, column);
                }
            }
            column += width;
        }
    }
    m.scratch.panels = panels;
}

/// A panel times `N` columns.
#[inline]
#[target_feature(enable = "neon")]
fn tile<T: BlockType, D: Dot, const N: usize>(m: &mut MatMul<'_>, panel: &Panel, first: usize, column: usize) {
    let acc = if T::BLOCK == 32 { tile_32::<T, D, N>(m, panel, column) } else { tile_256::<T, D, N>(m, panel, column) };
    let count = ROWS.min(m.rows - first);
    for (n, acc) in acc.into_iter().enumerate() {
        let start = (column + n) * m.out_stride + first;
        m.out[start..start + count].copy_from_slice(&store_f32x4(acc)[..count]);
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn tile_32<T: BlockType, D: Dot, const N: usize>(m: &MatMul<'_>, panel: &Panel, column: usize) -> [float32x4_t; N] {
    let blocks = m.k / 32;
    let columns: [_; N] = m.columns.several_q8x32(column, blocks);
    let mut acc = [vdupq_n_f32(0.0); N];
    for (block, (quants, scales)) in panel.quants[..blocks].iter().zip(&panel.scales).enumerate() {
        let mut dots = [[vdupq_n_s32(0); ROWS]; N];
        for (r, w) in quants.iter().enumerate() {
            let w = load_pair(w);
            for (dots, column) in dots.iter_mut().zip(columns) {
                dots[r] = dot_32::<D>(w, load_pair(&column.values[block]));
            }
        }
        let w_scale = load_f32x4(scales);
        for ((acc, dots), column) in acc.iter_mut().zip(dots).zip(columns) {
            let a_scale = f32::from_le_bytes(column.scales[block]);
            *acc = vfmaq_f32(*acc, vcvtq_f32_s32(totals(dots)), vmulq_n_f32(w_scale, a_scale));
            if T::MINIMA {
                let sum = i32::from_le_bytes(column.sums[block]) as f32;
                *acc = vfmaq_n_f32(*acc, vmulq_n_f32(load_f32x4(&panel.minimum_scales[block]), a_scale), sum);
            }
        }
    }
    acc
}

#[inline]
#[target_feature(enable = "neon")]
fn tile_256<T: BlockType, D: Dot, const N: usize>(m: &MatMul<'_>, panel: &Panel, column: usize) -> [float32x4_t; N] {
    let blocks = m.k / 256;
    let columns: [_; N] = m.columns.several_q8x256(column, blocks);
    let zero = vdupq_n_s32(0);
    let mut acc = [vdupq_n_f32(0.0); N];
    for (block, scales) in panel.scales[..blocks].iter().enumerate() {
        let sub_scales = &panel.sub_scales[block];
        let mut dots = [[zero; ROWS]; N];
        for (sub, quants) in panel.quants[8 * block..][..8].iter().enumerate() {
            for (r, w) in quants.iter().enumerate() {
                let w = load_pair(w);
                for (dots, column) in dots.iter_mut().zip(columns) {
                    let a = load_pair(at(&column.values[block], 32 * sub));
                    dots[r] = if T::SUB == 32 {
                        vmlaq_n_s32(dots[r], dot_32::<D>(w, a), sub_scales[r][2 * sub])
                    } else {
                        let first = vmlaq_n_s32(dots[r], D::dot(zero, w[0], a[0]), sub_scales[r][2 * sub]);
                        vmlaq_n_s32(first, D::dot(zero, w[1], a[1]), sub_scales[r][2 * sub + 1])
                    };
                }
            }
        }
        let w_scale = load_f32x4(scales);
        for ((acc, dots), column) in acc.iter_mut().zip(dots).zip(columns) {
            let a_scale = f32::from_le_bytes(column.scales[block]);
            *acc = vfmaq_f32(*acc, vcvtq_f32_s32(totals(dots)), vmulq_n_f32(w_scale, a_scale));
            if T::MINIMA {
                let sums = sums_by_32(&column.sums[block]);
                let mut with_sums = [zero; ROWS];
                for (with_sums, minima) in with_sums.iter_mut().zip(&panel.minima[block]) {
                    *with_sums = dot_minima(load_i16x8(minima), sums);
                }
                let scale = vmulq_n_f32(load_f32x4(&panel.minimum_scales[block]), a_scale);
                *acc = vfmsq_f32(*acc, vcvtq_f32_s32(totals(with_sums)), scale);
            }
        }
    }
    acc
}

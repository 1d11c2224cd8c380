//! Several columns: panels of sixteen rows, unpacked once and multiplied with all columns, eight at a time.
//!
//! Some panels are unpacked before any is multiplied, so that columns fetched into the first-level cache meet all of
//! them; together they stay within a part of the second-level cache.

use std::arch::x86_64::*;

use super::super::memory::{load_f32x16, load_i32x16, load512, prefetch, store_f32x16, store512};
use super::super::quants::unsigned;
use super::super::strip::rows_of_blocks;
use super::decode::broadcast;
use super::transpose::transpose;
use crate::block::{BlockType, at};
use crate::matmul::MatMul;
use crate::panel::{Lanes, Panel};

/// Rows of a panel.
const ROWS: usize = 16;
/// Cache lines of a panel that hold 32 elements of all rows.
const LINES: usize = ROWS / 2;
/// Quants of all panels that are multiplied together, in bytes: a quarter of the smallest second-level cache that comes
/// with these instructions.
const PANELS_BYTES: usize = 256 * 1024;

/// All products, some panels at a time.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn matmul<T: BlockType>(m: &mut MatMul<'_>) {
    let mut panels = std::mem::take(&mut m.scratch.panels);
    let together = (PANELS_BYTES / (ROWS * m.k).max(1)).clamp(1, 8);
    panels.resize_with(panels.len().max(together), Panel::default);
    for start in (0..m.rows).step_by(ROWS * together) {
        let firsts = (start..m.rows).step_by(ROWS).take(together);
        for (first, panel) in firsts.clone().zip(&mut panels) {
            fill::<T>(m, panel, first);
        }
        let mut column = 0;
        while column < m.columns.count {
            let width = match m.columns.count - column {
                8.. => 8,
                4.. => 4,
                2.. => 2,
                _ => 1,
            };
            for (first, panel) in firsts.clone().zip(&panels) {
                match width {
                    8 => tile::<T, 8>(m, panel, first, column),
                    4 => tile::<T, 4>(m, panel, first, column),
                    2 => tile::<T, 2>(m, panel, first, column),
                    _ => tile::<T, 1>(m, panel, first, column),
                }
            }
            column += width;
        }
    }
    m.scratch.panels = panels;
}

/// Unpacks sixteen rows. The rows after them are prefetched: with few columns, a product takes as long as reading its weights.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn fill<T: BlockType>(m: &MatMul<'_>, panel: &mut Panel, first: usize) {
    let blocks = m.k / T::BLOCK;
    let rows = rows_of_blocks::<T, ROWS>(m.panel_rows(first), blocks);
    panel.prepare::<T, ROWS>(&rows, blocks, LINES);
    let mut next = (first + ROWS) * T::DTYPE.row_bytes(m.k);
    let lines = panel.quants.chunks_exact_mut(LINES * T::BLOCK / 32);
    for (block, lines) in lines.enumerate() {
        for (sub, group) in lines.chunks_exact_mut(LINES).enumerate() {
            prefetch(m.weights, next, ROWS * T::BYTES * 32 / T::BLOCK);
            next += ROWS * T::BYTES * 32 / T::BLOCK;
            let mut quants = [_mm256_setzero_si256(); ROWS];
            for (quants, row) in quants.iter_mut().zip(rows) {
                *quants = unsigned::<T>(row[block].as_ref(), sub);
            }
            for (line, register) in group.iter_mut().zip(transpose(quants)) {
                store512(&mut line.0, register);
            }
        }
    }
}

/// A panel times `N` columns.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn tile<T: BlockType, const N: usize>(m: &mut MatMul<'_>, panel: &Panel, first: usize, column: usize) {
    let acc = if T::BLOCK == 32 { tile_32::<T, N>(m, panel, column) } else { tile_256::<T, N>(m, panel, column) };
    let count = ROWS.min(m.rows - first);
    for (n, acc) in acc.into_iter().enumerate() {
        let start = (column + n) * m.out_stride + first;
        m.out[start..start + count].copy_from_slice(&store_f32x16(acc)[..count]);
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn tile_32<T: BlockType, const N: usize>(m: &MatMul<'_>, panel: &Panel, column: usize) -> [__m512; N] {
    let blocks = m.k / 32;
    let columns: [_; N] = m.columns.several_q8x32(column, blocks);
    let groups = &panel.quants.as_chunks::<LINES>().0[..blocks];
    let mut acc = [_mm512_setzero_ps(); N];
    for (block, (group, scales)) in groups.iter().zip(&panel.scales).enumerate() {
        let mut dots = [_mm512_setzero_si512(); N];
        for (dot, column) in dots.iter_mut().zip(columns) {
            *dot = _mm512_set1_epi32(-T::OFFSET * i32::from_le_bytes(column.sums[block]));
        }
        for (quad, line) in group.iter().enumerate() {
            let w = load512(&line.0);
            for (dot, column) in dots.iter_mut().zip(columns) {
                *dot = _mm512_dpbusd_epi32(*dot, w, dword(&column.values[block], quad));
            }
        }
        let w_scale = load_f32x16(&scales.0);
        for ((acc, dot), column) in acc.iter_mut().zip(dots).zip(columns) {
            let a_scale = broadcast(column.scales[block]);
            let scale = _mm512_mul_ps(w_scale, a_scale);
            *acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scale, *acc);
            if T::MINIMA {
                let scale = _mm512_mul_ps(load_f32x16(&panel.minimum_scales[block].0), a_scale);
                let sum = i32::from_le_bytes(column.sums[block]);
                *acc = _mm512_fmadd_ps(_mm512_set1_ps(sum as f32), scale, *acc);
            }
        }
    }
    acc
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn tile_256<T: BlockType, const N: usize>(m: &MatMul<'_>, panel: &Panel, column: usize) -> [__m512; N] {
    // Integer scales per 32 elements.
    let per_sub = 32 / T::SUB;
    let blocks = m.k / 256;
    let columns: [_; N] = m.columns.several_q8x256(column, blocks);
    let mut acc = [_mm512_setzero_ps(); N];
    for (block, scales) in panel.scales[..blocks].iter().enumerate() {
        let mut dots = [_mm512_setzero_si512(); N];
        for sub in 0..8 {
            let group = &panel.quants[LINES * (8 * block + sub)..][..LINES];
            for (part, lines) in group.chunks_exact(LINES / per_sub).enumerate() {
                let scale = load_i32x16(&panel.sub_scales[per_sub * (8 * block + sub) + part].0);
                let mut partial = [_mm512_setzero_si512(); N];
                for (quad, line) in lines.iter().enumerate() {
                    let w = load512(&line.0);
                    for (partial, column) in partial.iter_mut().zip(columns) {
                        let a = dword(&column.values[block], 8 * sub + part * (LINES / per_sub) + quad);
                        *partial = _mm512_dpbusd_epi32(*partial, w, a);
                    }
                }
                for (dot, partial) in dots.iter_mut().zip(partial) {
                    *dot = _mm512_add_epi32(*dot, _mm512_mullo_epi32(partial, scale));
                }
            }
        }
        let w_scale = load_f32x16(&scales.0);
        let pairs = panel.pairs[8 * block..].first_chunk().expect("a block has eight pairs");
        for ((acc, dot), column) in acc.iter_mut().zip(dots).zip(columns) {
            let with_sums = with_sums(pairs, &column.sums[block]);
            let a_scale = broadcast(column.scales[block]);
            let scale = _mm512_mul_ps(w_scale, a_scale);
            if T::MINIMA {
                *acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scale, *acc);
                let scale = _mm512_mul_ps(load_f32x16(&panel.minimum_scales[block].0), a_scale);
                *acc = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(with_sums), scale, *acc);
            } else {
                let offset = _mm512_set1_epi32(T::OFFSET);
                let dot = _mm512_sub_epi32(dot, _mm512_mullo_epi32(with_sums, offset));
                *acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scale, *acc);
            }
        }
    }
    acc
}

/// Products of a panel's pairs with a column's sixteen sums, added up.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn with_sums(pairs: &[Lanes<i32>; 8], sums: &[u8; 32]) -> __m512i {
    let mut total = _mm512_setzero_si512();
    for (sub, pair) in pairs.iter().enumerate() {
        total = _mm512_dpwssd_epi32(total, load_i32x16(&pair.0), dword(sums, sub));
    }
    total
}

/// Four bytes in all lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn dword<const N: usize>(bytes: &[u8; N], index: usize) -> __m512i {
    _mm512_set1_epi32(i32::from_le_bytes(*at(bytes, 4 * index)))
}

//! Several columns: panels of eight rows, unpacked once and multiplied with all columns, four at a time.
//!
//! Some panels are unpacked before any is multiplied, so that columns fetched into the first-level cache meet all of
//! them.

use std::arch::x86_64::*;

use super::super::memory::{load_f32x8, load_i32x8, load256, prefetch, store_f32x8, store256};
use super::super::strip::rows_of_blocks;
use super::decode::broadcast;
use super::products::{offset, products, weights};
use super::transpose::transpose;
use crate::block::{BlockType, at};
use crate::matmul::MatMul;
use crate::panel::{Lanes, Panel};

/// Rows of a panel.
const ROWS: usize = 8;
/// Cache lines of a panel that hold 32 elements of all rows.
const LINES: usize = ROWS / 2;
/// Quants of all panels that are multiplied together, in bytes: half of a second-level cache of 256 KiB.
const PANELS_BYTES: usize = 128 * 1024;

/// All products, some panels at a time.
#[target_feature(enable = "avx2,fma,f16c")]
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
            let width = if m.columns.count - column < 4 { 1 } else { 4 };
            for (first, panel) in firsts.clone().zip(&panels) {
                if width == 4 {
                    tile::<T, 4>(m, panel, first, column);
                } else {
                    tile::<T, 1>(m, panel, first, column);
                }
            }
            column += width;
        }
    }
    m.scratch.panels = panels;
}

/// Unpacks eight rows. The rows after them are prefetched: with few columns, a product takes as long as reading its weights.
#[target_feature(enable = "avx2,fma,f16c")]
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
                *quants = weights::<T>(row[block].as_ref(), sub);
            }
            let registers = transpose(quants);
            for (line, registers) in group.iter_mut().zip(registers.as_chunks::<2>().0) {
                let (low, high) = line.0.split_at_mut(32);
                store256(low.first_chunk_mut().expect("half a line"), registers[0]);
                store256(high.first_chunk_mut().expect("half a line"), registers[1]);
            }
        }
    }
}

/// A panel times `N` columns.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn tile<T: BlockType, const N: usize>(m: &mut MatMul<'_>, panel: &Panel, first: usize, column: usize) {
    let acc = if T::BLOCK == 32 { tile_32::<T, N>(m, panel, column) } else { tile_256::<T, N>(m, panel, column) };
    let count = ROWS.min(m.rows - first);
    for (n, acc) in acc.into_iter().enumerate() {
        let start = (column + n) * m.out_stride + first;
        m.out[start..start + count].copy_from_slice(&store_f32x8(acc)[..count]);
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn tile_32<T: BlockType, const N: usize>(m: &MatMul<'_>, panel: &Panel, column: usize) -> [__m256; N] {
    let blocks = m.k / 32;
    let columns: [_; N] = m.columns.several_q8x32(column, blocks);
    let groups = &panel.quants.as_chunks::<LINES>().0[..blocks];
    let mut acc = [_mm256_setzero_ps(); N];
    for (block, (group, scales)) in groups.iter().zip(&panel.scales).enumerate() {
        let mut dots = [_mm256_setzero_si256(); N];
        let one = _mm256_set1_epi16(1);
        for quad in 0..8 {
            let w = load256(at(&group[quad / 2].0, 32 * (quad % 2)));
            for (dot, column) in dots.iter_mut().zip(columns) {
                let words = products::<T>(w, dword(&column.values[block], quad));
                *dot = _mm256_add_epi32(*dot, _mm256_madd_epi16(words, one));
            }
        }
        let w_scale = floats(scales);
        for ((acc, dot), column) in acc.iter_mut().zip(dots).zip(columns) {
            let sum = i32::from_le_bytes(column.sums[block]);
            let dot = _mm256_sub_epi32(dot, _mm256_set1_epi32(offset::<T>() * sum));
            let a_scale = broadcast(column.scales[block]);
            let scale = _mm256_mul_ps(w_scale, a_scale);
            *acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), scale, *acc);
            if T::MINIMA {
                let scale = _mm256_mul_ps(floats(&panel.minimum_scales[block]), a_scale);
                *acc = _mm256_fmadd_ps(_mm256_set1_ps(sum as f32), scale, *acc);
            }
        }
    }
    acc
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn tile_256<T: BlockType, const N: usize>(m: &MatMul<'_>, panel: &Panel, column: usize) -> [__m256; N] {
    // Integer scales per 32 elements.
    let per_sub = 32 / T::SUB;
    let blocks = m.k / 256;
    let columns: [_; N] = m.columns.several_q8x256(column, blocks);
    let mut acc = [_mm256_setzero_ps(); N];
    for (block, scales) in panel.scales[..blocks].iter().enumerate() {
        let mut dots = [_mm256_setzero_si256(); N];
        for sub in 0..8 {
            let group = &panel.quants[LINES * (8 * block + sub)..][..LINES];
            for part in 0..per_sub {
                let scale = twice(&panel.sub_scales[per_sub * (8 * block + sub) + part]);
                for quad in part * 8 / per_sub..(part + 1) * 8 / per_sub {
                    let w = load256(at(&group[quad / 2].0, 32 * (quad % 2)));
                    for (dot, column) in dots.iter_mut().zip(columns) {
                        let words = products::<T>(w, dword(&column.values[block], 8 * sub + quad));
                        *dot = _mm256_add_epi32(*dot, _mm256_madd_epi16(words, scale));
                    }
                }
            }
        }
        let w_scale = floats(scales);
        let pairs = panel.pairs[8 * block..].first_chunk().expect("a block has eight pairs");
        for ((acc, dot), column) in acc.iter_mut().zip(dots).zip(columns) {
            let with_sums = with_sums(pairs, &column.sums[block]);
            let a_scale = broadcast(column.scales[block]);
            let scale = _mm256_mul_ps(w_scale, a_scale);
            if T::MINIMA {
                *acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), scale, *acc);
                let scale = _mm256_mul_ps(floats(&panel.minimum_scales[block]), a_scale);
                *acc = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(with_sums), scale, *acc);
            } else {
                let offset = _mm256_set1_epi32(offset::<T>());
                let dot = _mm256_sub_epi32(dot, _mm256_mullo_epi32(with_sums, offset));
                *acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), scale, *acc);
            }
        }
    }
    acc
}

/// Products of a panel's pairs with a column's sixteen sums, added up.
#[inline]
#[target_feature(enable = "avx2")]
fn with_sums(pairs: &[Lanes<i32>; 8], sums: &[u8; 32]) -> __m256i {
    let mut total = _mm256_setzero_si256();
    for (sub, pair) in pairs.iter().enumerate() {
        total = _mm256_add_epi32(total, _mm256_madd_epi16(load_i32x8(&pair.0), dword(sums, sub)));
    }
    total
}

/// Broadcasts the little-endian dword at byte `4 * index` to all eight lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn dword<const N: usize>(bytes: &[u8; N], index: usize) -> __m256i {
    _mm256_set1_epi32(i32::from_le_bytes(*at(bytes, 4 * index)))
}

/// The low `i16` of each lane, twice.
#[inline]
#[target_feature(enable = "avx2")]
fn twice(x: &Lanes<i32>) -> __m256i {
    let low = _mm256_setr_epi8(
        0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13, 0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13,
    );
    _mm256_shuffle_epi8(load_i32x8(&x.0), low)
}

#[inline]
#[target_feature(enable = "avx2")]
fn floats(x: &Lanes<f32>) -> __m256 {
    load_f32x8(x.0.first_chunk().expect("sixteen lanes"))
}

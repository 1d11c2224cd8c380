//! Attention of few queries over keys and values in binary16: a decode step, or a short part of a prompt.
//!
//! Few queries do not share enough work to pay for keys and values that are stored in `f32` and read again. So keys are transposed
//! in registers, sixteen positions by sixteen elements, and multiplied at once; values are converted where they are read. Sums are
//! chains in the order of the portable code, so that the bits are the same.

use std::arch::x86_64::*;

use super::super::memory::{load_f32x16, load256, prefetch, store_f32x16};
use super::transpose::transpose;
use crate::attention::{PAGE_POSITIONS, SPAN_POSITIONS};
use crate::portable::arith::LANES;

/// Bytes of sixteen elements.
const CHUNK: usize = 2 * LANES;

/// Number of queries up to which these functions are faster than the portable code.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn few_queries() -> usize {
    8
}

/// Scores of up to eight queries against a page of keys.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn scores_f16(keys: &[u8], q: &[f32], scores: &mut [[f32; SPAN_POSITIONS]], page: usize, next: &[u8]) {
    match scores.len() {
        0 => {}
        1 => scores_of::<1>(keys, q, scores, page, next),
        2 => scores_of::<2>(keys, q, scores, page, next),
        3 | 4 => scores_of::<4>(keys, q, scores, page, next),
        _ => scores_of::<8>(keys, q, scores, page, next),
    }
}

/// The same for up to `N` queries.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn scores_of<const N: usize>(keys: &[u8], q: &[f32], scores: &mut [[f32; SPAN_POSITIONS]], page: usize, next: &[u8]) {
    let dim = q.len() / scores.len();
    // Missing queries are replaced by the last one.
    let mut queries = [&q[q.len() - dim..]; N];
    for (query, q) in queries.iter_mut().zip(q.chunks_exact(dim)) {
        *query = q;
    }
    let chunks = dim / LANES;
    let ahead = next.len().div_ceil(PAGE_POSITIONS / LANES * chunks);
    for (group, rows) in keys.chunks_exact(2 * dim * LANES).enumerate() {
        let mut acc = [_mm512_setzero_ps(); N];
        for chunk in 0..chunks {
            prefetch(next, (group * chunks + chunk) * ahead, ahead);
            let mut loaded = [_mm256_setzero_si256(); LANES];
            for (loaded, row) in loaded.iter_mut().zip(rows.chunks_exact(2 * dim)) {
                *loaded = load256(row[CHUNK * chunk..].first_chunk().expect("a row has whole chunks"));
            }
            let mut elements = [&queries[0][..LANES]; N];
            for (elements, query) in elements.iter_mut().zip(queries) {
                *elements = &query[LANES * chunk..][..LANES];
            }
            for (pair, dwords) in transpose(loaded).into_iter().enumerate() {
                let columns = [
                    _mm512_cvtph_ps(_mm512_cvtepi32_epi16(dwords)),
                    _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(dwords))),
                ];
                for (half, column) in columns.into_iter().enumerate() {
                    for (acc, elements) in acc.iter_mut().zip(elements) {
                        *acc = _mm512_fmadd_ps(_mm512_set1_ps(elements[2 * pair + half]), column, *acc);
                    }
                }
            }
        }
        for (scores, acc) in scores.iter_mut().zip(acc) {
            scores.as_chunks_mut().0[page * (PAGE_POSITIONS / LANES) + group] = store_f32x16(acc);
        }
    }
}

/// Adds weighted rows of values for one or four queries.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn values_f16(rows: &[u8], weights: &[&[f32]], acc: &mut [f32]) {
    if let Some(&weights) = weights.as_array::<4>() {
        add_values::<4, 4>(rows, weights, acc);
    } else if let Some(&weights) = weights.as_array::<1>() {
        add_values::<1, 8>(rows, weights, acc);
    } else {
        unreachable!("queries are taken by one or four");
    }
}

/// The same, `W` vectors of elements at a time.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn add_values<const N: usize, const W: usize>(rows: &[u8], weights: [&[f32]; N], acc: &mut [f32]) {
    let dim = acc.len() / N;
    let mut d = 0;
    while d + W * LANES <= dim {
        add_values_at::<N, W>(rows, weights, acc, d);
        d += W * LANES;
    }
    while d < dim {
        add_values_at::<N, 1>(rows, weights, acc, d);
        d += LANES;
    }
}

/// The same for the elements from `d` on.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn add_values_at<const N: usize, const W: usize>(rows: &[u8], weights: [&[f32]; N], acc: &mut [f32], d: usize) {
    let dim = acc.len() / N;
    let mut total = [[_mm512_setzero_ps(); W]; N];
    for (total, acc) in total.iter_mut().zip(acc.chunks_exact(dim)) {
        for (total, acc) in total.iter_mut().zip(acc[d..].as_chunks().0) {
            *total = load_f32x16(acc);
        }
    }
    for (index, row) in rows.chunks_exact(2 * dim).enumerate() {
        let mut values = [_mm512_setzero_ps(); W];
        for (values, chunk) in values.iter_mut().zip(row[2 * d..].as_chunks().0) {
            *values = _mm512_cvtph_ps(load256(chunk));
        }
        for (total, weights) in total.iter_mut().zip(weights) {
            let weight = _mm512_set1_ps(weights[index]);
            for (total, values) in total.iter_mut().zip(values) {
                *total = _mm512_fmadd_ps(weight, values, *total);
            }
        }
    }
    for (total, acc) in total.into_iter().zip(acc.chunks_exact_mut(dim)) {
        for (total, acc) in total.into_iter().zip(acc[d..].as_chunks_mut().0) {
            *acc = store_f32x16(total);
        }
    }
}

//! Attention over one span, and the merging of spans.
//!
//! Scores are computed for whole pages, sixty-four lanes of positions at a time, each lane a chain over the head's
//! elements; then the softmax masks the positions that a query does not attend to; then each query adds up its visible
//! values in ascending order. Slots that no query attends to may contain any bits, also NaN: their scores are replaced
//! before use and their values are not read.

use std::ops::Range;

use cairn_gguf::DType;

use super::Arith;
use super::arith::{LANES, Lanes, sum};
use super::exp::{exp, tanh};
use super::rows::{self, Half, Q40, Q80, Strided, UpperHalf};
use crate::attention::{AttendSpan, PAGE_POSITIONS, SPAN_POSITIONS, Softmax};

/// Queries whose scores or values are computed together.
const TOGETHER: usize = 4;

/// Computes the span's result for every query.
#[inline(always)]
pub(crate) fn attend<A: Arith>(mut s: AttendSpan<'_>) {
    s.check();
    s.scratch.scores.resize(s.queries.max(s.scratch.scores.len()), [0.0; SPAN_POSITIONS]);
    let all = (0..s.queries).map(|query| s.visible(query)).filter(|slots| !slots.is_empty());
    let union = all.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0);

    for page in 0..SPAN_POSITIONS / PAGE_POSITIONS {
        if page_part(&union, page).is_empty() {
            continue;
        }
        if has_few_queries::<A>(&s) {
            let next = after_keys(&s, page);
            A::scores_f16(s.k[page], s.q, &mut s.scratch.scores[..s.queries], page, next);
        } else {
            transpose_keys::<A>(&mut s, page);
            let mut query = 0;
            while query + TOGETHER <= s.queries {
                scores::<A, TOGETHER>(&mut s, page, query);
                query += TOGETHER;
            }
            while query < s.queries {
                scores::<A, 1>(&mut s, page, query);
                query += 1;
            }
        }
    }
    for query in 0..s.queries {
        softmax::<A>(&mut s, query);
    }
    s.acc.fill(0.0);
    for page in 0..SPAN_POSITIONS / PAGE_POSITIONS {
        let part = page_part(&union, page);
        if !part.is_empty() {
            if has_few_queries::<A>(&s) {
                A::prefetch(next_visible(&s.v, page + 1).unwrap_or(s.next));
            } else {
                widen_values::<A>(&mut s, page, part);
            }
            let mut query = 0;
            while query + TOGETHER <= s.queries {
                values_together::<A>(&mut s, page, query);
                query += TOGETHER;
            }
            while query < s.queries {
                let part = page_part(&s.visible(query), page);
                values::<A, 1, 4>(&mut s, page, query, part);
                query += 1;
            }
        }
    }
}

/// Whether the variant has its own functions for this call.
#[inline(always)]
fn has_few_queries<A: Arith>(s: &AttendSpan<'_>) -> bool {
    let whole = s.head_dim.is_multiple_of(LANES) && s.value_dim.is_multiple_of(LANES);
    // Values that are parts of keys have gaps between them.
    let dense = s.value_stride == s.dtype.row_bytes(s.value_dim);
    s.dtype == DType::F16 && s.queries <= A::few_queries() && whole && dense
}

/// The part of the slots `slots` that is in `page`, counted from the page's start.
#[inline(always)]
fn page_part(slots: &Range<usize>, page: usize) -> Range<usize> {
    let start = page * PAGE_POSITIONS;
    let inside = |slot: usize| slot.clamp(start, start + PAGE_POSITIONS) - start;
    inside(slots.start)..inside(slots.end)
}

/// Returns the first visible page from `start` on.
#[inline(always)]
fn next_visible<'a>(pages: &[&'a [u8]; SPAN_POSITIONS / PAGE_POSITIONS], start: usize) -> Option<&'a [u8]> {
    pages[start..].iter().copied().find(|page| !page.is_empty())
}

/// The page that is read after a page of keys.
#[inline(always)]
fn after_keys<'a>(s: &AttendSpan<'a>, page: usize) -> &'a [u8] {
    next_visible(&s.k, page + 1).or_else(|| next_visible(&s.v, 0)).unwrap_or_default()
}

/// One page's keys to `[head_dim, PAGE_POSITIONS]` in `f32`.
#[inline(always)]
fn transpose_keys<A: Arith>(s: &mut AttendSpan<'_>, page: usize) {
    let (keys, row_bytes, dim) = (s.k[page], s.dtype.row_bytes(s.head_dim), s.head_dim);
    let next = after_keys(s, page);
    assert_eq!(keys.len(), s.page_bytes(), "a visible page of keys is there");
    s.scratch.keys.resize(dim.max(s.scratch.keys.len()), [0.0; PAGE_POSITIONS]);
    let out = &mut s.scratch.keys[..dim];
    match s.dtype {
        DType::F16 => rows::transpose::<A, Half>(keys, row_bytes, out, next),
        DType::BF16 => rows::transpose::<A, UpperHalf>(keys, row_bytes, out, next),
        DType::Q8_0 => rows::transpose::<A, Q80>(keys, row_bytes, out, next),
        DType::Q4_0 => rows::transpose::<A, Q40>(keys, row_bytes, out, next),
        other => unreachable!("`check` has refused {other}"),
    }
}

/// Scores of `N` queries against all positions of a page.
#[inline(always)]
fn scores<A: Arith, const N: usize>(s: &mut AttendSpan<'_>, page: usize, query: usize) {
    let q: [&[f32]; N] = std::array::from_fn(|n| &s.q[(query + n) * s.head_dim..][..s.head_dim]);
    let mut acc = [[[0.0; LANES]; PAGE_POSITIONS / LANES]; N];
    for (d, keys) in s.scratch.keys[..s.head_dim].iter().enumerate() {
        for (q, acc) in q.iter().zip(&mut acc) {
            for (acc, keys) in acc.iter_mut().zip(keys.as_chunks().0) {
                A::fma_splat(q[d], keys, acc);
            }
        }
    }
    for (acc, scores) in acc.iter().zip(&mut s.scratch.scores[query..query + N]) {
        scores[page * PAGE_POSITIONS..(page + 1) * PAGE_POSITIONS].copy_from_slice(acc.as_flattened());
    }
}

/// Scores to weights `exp(score - max)`, zero where masked.
#[inline(always)]
fn softmax<A: Arith>(s: &mut AttendSpan<'_>, query: usize) {
    let visible = s.visible(query);
    let (start, end) = (visible.start as u32, visible.end as u32);
    let (mut scale, softcap) = (s.scale, s.softcap);
    let scores = &mut s.scratch.scores[query];
    if let Some(bias) = s.bias.get(query) {
        scores.iter_mut().zip(bias).for_each(|(score, bias)| *score = *score * scale + bias);
        scale = 1.0;
    }
    let mut largest: Lanes = [f32::NEG_INFINITY; LANES];
    for (chunk, scores) in scores.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        for (lane, (score, largest)) in scores.iter_mut().zip(&mut largest).enumerate() {
            let slot = (chunk * LANES + lane) as u32;
            let mut x = *score * scale;
            if softcap != 0.0 {
                x = softcap * tanh::<A>(x / softcap);
            }
            *score = if (slot >= start) & (slot < end) { x } else { f32::NEG_INFINITY };
            *largest = if *score > *largest { *score } else { *largest };
        }
    }
    let largest = largest.iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
    let mut sums: Lanes = [0.0; LANES];
    for (chunk, scores) in scores.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        for (lane, (score, sum)) in scores.iter_mut().zip(&mut sums).enumerate() {
            let slot = (chunk * LANES + lane) as u32;
            let weight = exp::<A>(*score - largest);
            *score = if (slot >= start) & (slot < end) { weight } else { 0.0 };
            *sum += *score;
        }
    }
    s.max[query] = largest;
    s.sum[query] = sum(&sums);
}

/// The rows `part` of one page's values to `f32`.
#[inline(always)]
fn widen_values<A: Arith>(s: &mut AttendSpan<'_>, page: usize, part: Range<usize>) {
    let (row_bytes, stride, dim) = (s.dtype.row_bytes(s.value_dim), s.value_stride, s.value_dim);
    assert!(s.v[page].len() >= s.values_bytes(PAGE_POSITIONS), "a visible page of values is there");
    s.scratch.values.resize((PAGE_POSITIONS * dim).max(s.scratch.values.len()), 0.0);
    let next = next_visible(&s.v, page + 1).unwrap_or(s.next);
    let values = &s.v[page][part.start * stride..][..s.values_bytes(part.len())];
    let rows = Strided { rows: values, row_bytes, stride };
    let out = &mut s.scratch.values[part.start * dim..part.end * dim];
    match s.dtype {
        DType::F16 => rows::read::<A, Half>(rows, dim, out, next),
        DType::BF16 => rows::read::<A, UpperHalf>(rows, dim, out, next),
        DType::Q8_0 => rows::read::<A, Q80>(rows, dim, out, next),
        DType::Q4_0 => rows::read::<A, Q40>(rows, dim, out, next),
        other => unreachable!("`check` has refused {other}"),
    }
}

/// Adds a page's visible values for a block of queries. Rows that all queries attend to are added for all of them at
/// once, the others query by query.
#[inline(always)]
fn values_together<A: Arith>(s: &mut AttendSpan<'_>, page: usize, query: usize) {
    let parts: [Range<usize>; TOGETHER] = std::array::from_fn(|n| page_part(&s.visible(query + n), page));
    let start = parts.iter().map(|part| part.start).max().expect("a block has queries");
    let end = parts.iter().map(|part| part.end).min().expect("a block has queries");
    if start >= end {
        for (n, part) in parts.into_iter().enumerate() {
            values::<A, 1, 4>(s, page, query + n, part);
        }
        return;
    }
    for (n, part) in parts.iter().enumerate() {
        values::<A, 1, 4>(s, page, query + n, part.start..start);
    }
    values::<A, TOGETHER, 2>(s, page, query, start..end);
    for (n, part) in parts.iter().enumerate() {
        values::<A, 1, 4>(s, page, query + n, end..part.end);
    }
}

/// Adds the values of the rows `part` of a page for `N` queries that attend to all these rows, `W` vectors of elements
/// at a time.
#[inline(always)]
fn values<A: Arith, const N: usize, const W: usize>(
    s: &mut AttendSpan<'_>,
    page: usize,
    query: usize,
    part: Range<usize>,
) {
    if part.is_empty() {
        return;
    }
    let dim = s.value_dim;
    let slots = page * PAGE_POSITIONS + part.start..page * PAGE_POSITIONS + part.end;
    let weights: [&[f32]; N] = std::array::from_fn(|n| &s.scratch.scores[query + n][slots.clone()]);
    let has_few_queries = has_few_queries::<A>(s);
    let acc = &mut s.acc[query * dim..(query + N) * dim];
    if has_few_queries {
        let row_bytes = s.dtype.row_bytes(dim);
        A::values_f16(&s.v[page][part.start * row_bytes..part.end * row_bytes], &weights, acc);
        return;
    }
    let rows = &s.scratch.values[part.start * dim..part.end * dim];
    let mut d = 0;
    while d + W * LANES <= dim {
        values_at::<A, N, W>(&weights, rows, acc, dim, d);
        d += W * LANES;
    }
    while d + LANES <= dim {
        values_at::<A, N, 1>(&weights, rows, acc, dim, d);
        d += LANES;
    }
    for (weights, acc) in weights.iter().zip(acc.chunks_exact_mut(dim)) {
        for (&weight, row) in weights.iter().zip(rows.chunks_exact(dim)) {
            for (acc, &value) in acc[d..].iter_mut().zip(&row[d..]) {
                *acc = A::fma(weight, value, *acc);
            }
        }
    }
}

/// Adds weighted rows to `W` vectors from element `d` on of `N` accumulators.
#[inline(always)]
fn values_at<A: Arith, const N: usize, const W: usize>(
    weights: &[&[f32]; N],
    rows: &[f32],
    acc: &mut [f32],
    dim: usize,
    d: usize,
) {
    let mut total = [[[0.0; LANES]; W]; N];
    for (n, total) in total.iter_mut().enumerate() {
        total.as_flattened_mut().copy_from_slice(&acc[n * dim + d..][..W * LANES]);
    }
    for (i, row) in rows.chunks_exact(dim).enumerate() {
        let row = row[d..][..W * LANES].as_chunks().0;
        for (weights, total) in weights.iter().zip(&mut total) {
            for (total, values) in total.iter_mut().zip(row) {
                A::fma_splat(weights[i], values, total);
            }
        }
    }
    for (n, total) in total.iter().enumerate() {
        acc[n * dim + d..][..W * LANES].copy_from_slice(total.as_flattened());
    }
}

/// Adds `span` to the result over the spans before it.
#[inline(always)]
pub(crate) fn merge<A: Arith>(before: Softmax<'_>, span: &Softmax<'_>) {
    let queries = before.max.len();
    assert_eq!(span.max.len(), queries, "spans of the same queries");
    assert_eq!(before.acc.len(), span.acc.len(), "heads of one width");
    if queries == 0 {
        return;
    }
    let dim = before.acc.len() / queries;
    for query in 0..queries {
        let (a, b) = (before.max[query], span.max[query]);
        // Nothing visible is neutral; the difference of two negative infinities would be NaN. A span whose
        // scores were all NaN has no maximum either, but a sum that is not zero.
        if b == f32::NEG_INFINITY && span.sum[query] == 0.0 {
            continue;
        }
        let largest = if b > a { b } else { a };
        let (old, new) = (factor::<A>(a, largest), factor::<A>(b, largest));
        before.max[query] = largest;
        before.sum[query] = A::fma(before.sum[query], old, span.sum[query] * new);
        let row = query * dim..(query + 1) * dim;
        for (acc, &span) in before.acc[row.clone()].iter_mut().zip(&span.acc[row]) {
            *acc = A::fma(*acc, old, span * new);
        }
    }
}

/// `exp(max - largest)`, one where both are the same, even infinite.
#[inline(always)]
fn factor<A: Arith>(max: f32, largest: f32) -> f32 {
    if max == largest { 1.0 } else { exp::<A>(max - largest) }
}

/// Divides accumulators by sums.
#[inline(always)]
pub(crate) fn finish(sum: &[f32], acc: &mut [f32]) {
    if sum.is_empty() {
        return;
    }
    let dim = acc.len() / sum.len();
    for (&sum, acc) in sum.iter().zip(acc.chunks_exact_mut(dim.max(1))) {
        let inverse = if sum == 0.0 { 0.0 } else { 1.0 / sum };
        for acc in acc {
            *acc *= inverse;
        }
    }
}

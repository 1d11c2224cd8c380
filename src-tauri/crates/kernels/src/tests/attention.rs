//! Attention over spans, and their merging.

use cairn_gguf::DType;

use super::{Noise, assert_near, bits, usable};
use crate::{AttendScratch, AttendSpan, KV_TYPES, PAGE_POSITIONS, SPAN_POSITIONS, Softmax, Variant};

/// One key/value head over a whole context, and queries on it.
struct Case {
    dtype: DType,
    head_dim: usize,
    value_dim: usize,
    /// Whether values are the last elements of the keys.
    values_in_keys: bool,
    /// `[queries, head_dim]`
    q: Vec<f32>,
    first: Vec<u32>,
    until: Vec<u32>,
    /// Pages of `[64, head_dim]`. The slots past `positions` contain NaN.
    k: Vec<Vec<u8>>,
    /// Pages of `[64, value_dim]`; unused if values are in the keys.
    v: Vec<Vec<u8>>,
    softcap: f32,
    /// By span, `[queries]`; empty without a bias.
    bias: Vec<Vec<[f32; SPAN_POSITIONS]>>,
}

/// Byte that fills unused slots. In every type it decodes to NaN; in block types, because it makes their scales NaN.
const NOT_A_NUMBER: u8 = 0xff;

impl Case {
    /// Creates a causal case: the last query is at the last position, the others at the positions before it. Each
    /// attends to at most `window` positions up to its own.
    fn causal(dtype: DType, head_dim: usize, positions: usize, queries: usize, window: usize, softcap: f32) -> Self {
        Self::with_values(dtype, [head_dim; 2], positions, queries, window, softcap)
    }

    /// Creates a causal case with keys and values of these numbers of elements.
    fn with_values(
        dtype: DType,
        [head_dim, value_dim]: [usize; 2],
        positions: usize,
        queries: usize,
        window: usize,
        softcap: f32,
    ) -> Self {
        let mut noise = Noise((head_dim * 31 + positions * 7 + queries) as u64);
        let mut pages = |head_dim: usize, scale: f32| -> Vec<Vec<u8>> {
            (0..positions.div_ceil(SPAN_POSITIONS) * 4)
                .map(|page| {
                    let filled = positions.saturating_sub(page * PAGE_POSITIONS).min(PAGE_POSITIONS);
                    let values: Vec<f32> = (0..filled * head_dim).map(|_| noise.unit() * scale).collect();
                    let mut slots = Vec::new();
                    dtype.encode(&values, &mut slots).expect("heads are whole blocks");
                    let slot_bytes = if filled == 0 { 0 } else { dtype.row_bytes(head_dim) };
                    slots.resize(PAGE_POSITIONS * slot_bytes, NOT_A_NUMBER);
                    slots
                })
                .collect()
        };
        let (k, v) = (pages(head_dim, 2.0), pages(value_dim, 1.0));
        let until: Vec<u32> = (0..queries).map(|i| (positions - (queries - 1 - i) % positions) as u32).collect();
        let first = until.iter().map(|&until| until.saturating_sub(window as u32)).collect();
        let (q, values_in_keys) = (noise.floats(queries * head_dim), false);
        Self { dtype, head_dim, value_dim, values_in_keys, q, first, until, k, v, softcap, bias: Vec::new() }
    }

    /// Adds random numbers to the scores.
    fn biased(self) -> Self {
        let (spans, queries, mut noise) = (self.k.len() / 4, self.until.len(), Noise(9));
        let mut row = || std::array::from_fn(|_| 3.0 * noise.unit());
        let bias = (0..spans).map(|_| (0..queries).map(|_| row()).collect()).collect();
        Self { bias, ..self }
    }

    /// Values of a page, from the first one on.
    fn values(&self, page: usize) -> &[u8] {
        match self.values_in_keys {
            true => self.k[page].get(self.dtype.row_bytes(self.head_dim - self.value_dim)..).unwrap_or_default(),
            false => &self.v[page],
        }
    }

    /// Bytes from one value to the next.
    fn value_stride(&self) -> usize {
        self.dtype.row_bytes(if self.values_in_keys { self.head_dim } else { self.value_dim })
    }

    fn scale(&self) -> f32 {
        1.0 / (self.head_dim as f32).sqrt()
    }

    /// The result for the queries `queries`, `[queries, value_dim]`.
    fn run(&self, variant: &Variant, queries: std::ops::Range<usize>) -> Vec<f32> {
        let n = queries.len();
        let (dim, value_dim) = (self.head_dim, self.value_dim);
        let (mut max, mut sum, mut acc) = (vec![1.0; n], vec![1.0; n], vec![1.0; n * value_dim]);
        let (mut span_max, mut span_sum, mut span_acc) = (vec![9.0; n], vec![9.0; n], vec![9.0; n * value_dim]);
        let mut scratch = AttendScratch::new();
        Softmax { max: &mut max, sum: &mut sum, acc: &mut acc }.clear();
        for span in 0..self.k.len() / 4 {
            (variant.attend)(AttendSpan {
                q: &self.q[queries.start * dim..queries.end * dim],
                head_dim: dim,
                value_dim,
                queries: n,
                first: &self.first[queries.clone()],
                until: &self.until[queries.clone()],
                span_start: (span * SPAN_POSITIONS) as u32,
                dtype: self.dtype,
                k: std::array::from_fn(|page| self.k[4 * span + page].as_slice()),
                v: std::array::from_fn(|page| self.values(4 * span + page)),
                value_stride: self.value_stride(),
                next: &[],
                scale: self.scale(),
                softcap: self.softcap,
                bias: self.bias.get(span).map_or(&[], |bias| &bias[queries.clone()]),
                scratch: &mut scratch,
                max: &mut span_max,
                sum: &mut span_sum,
                acc: &mut span_acc,
            });
            (variant.merge)(
                Softmax { max: &mut max, sum: &mut sum, acc: &mut acc },
                &Softmax { max: &mut span_max, sum: &mut span_sum, acc: &mut span_acc },
            );
        }
        (variant.finish)(&sum, &mut acc);
        acc
    }

    /// Plain softmax attention in `f64`.
    fn oracle(&self) -> Vec<f64> {
        let dim = self.head_dim;
        let row = |pages: &[Vec<u8>], dim: usize, position: usize| -> Vec<f64> {
            let (bytes, mut values) = (self.dtype.row_bytes(dim), vec![0.0; dim]);
            let slot = position % PAGE_POSITIONS * bytes;
            self.dtype.decode(&pages[position / PAGE_POSITIONS][slot..slot + bytes], &mut values);
            values.into_iter().map(f64::from).collect()
        };
        let key = |position: usize| row(&self.k, dim, position);
        let value = |position: usize| match self.values_in_keys {
            true => key(position).split_off(dim - self.value_dim),
            false => row(&self.v, self.value_dim, position),
        };
        let mut out = Vec::new();
        for (query, q) in self.q.chunks_exact(dim).enumerate() {
            let positions = self.first[query] as usize..self.until[query] as usize;
            let scores: Vec<f64> = positions
                .clone()
                .map(|position| {
                    let dot: f64 = q.iter().zip(key(position)).map(|(&q, k)| f64::from(q) * k).sum();
                    let (score, cap) = (dot * f64::from(self.scale()), f64::from(self.softcap));
                    let bias = self.bias.get(position / SPAN_POSITIONS);
                    let bias = bias.map_or(0.0, |bias| f64::from(bias[query][position % SPAN_POSITIONS]));
                    bias + if cap == 0.0 { score } else { cap * (score / cap).tanh() }
                })
                .collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = scores.iter().map(|score| (score - max).exp()).sum();
            let mut acc = vec![0.0; self.value_dim];
            for (position, score) in positions.zip(&scores) {
                for (acc, v) in acc.iter_mut().zip(value(position)) {
                    *acc += (score - max).exp() / sum * v;
                }
            }
            out.extend(acc);
        }
        out
    }
}

/// Compares the kernel with the oracle. Unused slots contain NaN, so a kernel that reads one of them fails too.
fn check(case: &Case, what: &str) {
    let expected = case.oracle();
    let queries = case.until.len();
    for variant in usable() {
        let what = format!("{} {} {what}", variant.name, case.dtype);
        let got = case.run(variant, 0..queries);
        assert_near(&what, &got, &expected, |_| 1e-5);
        for size in [1, 2, 3, 4, 5, 7, 64] {
            let cut: Vec<u32> = (0..queries)
                .step_by(size)
                .flat_map(|start| bits(&case.run(variant, start..(start + size).min(queries))))
                .collect();
            assert_eq!(cut, bits(&got), "{what}: queries by {size} give the bits of all together");
        }
    }
}

#[test]
fn attention_is_independent_of_queries_computed_together() {
    for dtype in KV_TYPES {
        for head_dim in [8, 16, 20, 64, 80, 96, 128] {
            if head_dim % dtype.block() != 0 {
                continue;
            }
            // Types differ in how a page is read, not in how its rows are used.
            let positions: &[usize] = if dtype == DType::F16 { &[1, 63, 64, 65, 300, 512, 600] } else { &[1, 65, 300] };
            for &positions in positions {
                let case = Case::causal(dtype, head_dim, positions, positions.min(70), usize::MAX >> 40, 0.0);
                check(&case, &format!("head of {head_dim}, {positions} positions"));
            }
        }
    }
}

#[test]
fn values_can_differ_in_size_and_be_parts_of_keys() {
    for dtype in KV_TYPES {
        for dims in [[24, 16], [16, 24], [20, 12], [96, 64], [64, 128], [192, 128], [96, 32]] {
            if dims.iter().any(|dim| dim % dtype.block() != 0) {
                continue;
            }
            for (positions, queries, window) in [(1, 1, 1000), (65, 3, 1000), (300, 70, 1000), (600, 20, 100)] {
                let case = Case::with_values(dtype, dims, positions, queries, window, 0.0);
                let what = format!("keys and values of {dims:?}, {positions} positions");
                check(&case, &what);
                if dims[1] < dims[0] {
                    check(&Case { values_in_keys: true, ..case }, &format!("{what}, values in keys"));
                }
            }
        }
    }
}

#[test]
fn attention_respects_windows_and_caps() {
    for dtype in KV_TYPES {
        for window in [1, 5, 64, 256, 257] {
            check(&Case::causal(dtype, 64, 700, 67, window, 0.0), &format!("window of {window}"));
        }
        for softcap in [0.5, 50.0] {
            check(&Case::causal(dtype, 32, 300, 9, 1000, softcap), &format!("softcap of {softcap}"));
        }
    }
}

#[test]
fn biases_are_added_to_scaled_scores() {
    for dtype in KV_TYPES {
        for (positions, queries, window) in [(1, 1, 1000), (65, 3, 1000), (300, 70, 1000), (600, 20, 100)] {
            let case = Case::causal(dtype, 64, positions, queries, window, 0.0).biased();
            check(&case, &format!("bias, {positions} positions, window of {window}"));
        }
    }
}

#[test]
fn attention_of_no_position_gives_zeros() {
    let mut case = Case::causal(DType::F16, 16, 300, 5, 1000, 0.0);
    case.until[2] = case.first[2];
    for variant in usable() {
        let got = case.run(variant, 0..5);
        assert!(got[2 * 16..3 * 16].iter().all(|&x| x == 0.0), "{}: nothing was seen", variant.name);
        assert!(got.iter().all(|x| x.is_finite()), "{}: the others saw something", variant.name);
    }
}

#[test]
fn nan_row_affects_only_queries_that_attend_to_it() {
    for (dtype, variant) in KV_TYPES.into_iter().flat_map(|dtype| usable().into_iter().map(move |v| (dtype, v))) {
        let mut case = Case::causal(dtype, 64, 200, 12, 1000, 0.0);
        let bytes = dtype.row_bytes(64);
        // Only the last query attends to position 199.
        for pages in [&mut case.k, &mut case.v] {
            (variant.encode_row)(dtype, &[f32::NAN; 64], &mut pages[3][7 * bytes..8 * bytes]);
        }
        let what = format!("{} {dtype}", variant.name);
        let got = case.run(variant, 0..12);
        let (others, last) = got.split_at(11 * 64);
        assert!(others.iter().all(|x| x.is_finite()), "{what}: masked slots do not leak");
        assert!(last.iter().all(|x| x.is_nan()), "{what}: a visible not-a-number is not hidden");
    }
}

#[test]
fn merge_with_empty_span_changes_no_bit() {
    for variant in usable() {
        let (mut max, mut sum, mut acc) = ([3.0, -2.0], [4.0, 0.5], [1.0, -0.0, 7.0, -5.0]);
        let (mut no_max, mut no_sum, mut no_acc) = ([1.0; 2], [1.0; 2], [1.0; 4]);
        let mut nothing = Softmax { max: &mut no_max, sum: &mut no_sum, acc: &mut no_acc };
        nothing.clear();
        (variant.merge)(Softmax { max: &mut max, sum: &mut sum, acc: &mut acc }, &nothing);
        (variant.merge)(nothing, &Softmax { max: &mut max, sum: &mut sum, acc: &mut acc });
        assert_eq!(bits(&acc), bits(&[1.0, -0.0, 7.0, -5.0]), "{}: nothing after", variant.name);
        assert_eq!((no_max, no_sum), (max, sum), "{}: nothing before", variant.name);
        assert_eq!(no_acc, acc, "{}: nothing before", variant.name);
    }
}

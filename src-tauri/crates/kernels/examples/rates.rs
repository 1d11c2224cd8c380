//! What each variant reaches on this machine with one thread: decode in GB/s of weights read from memory, prefill in
//! 10^9 multiplications and additions per second, attention, conversion and recurrences in microseconds.
//!
//! `cargo xtask bench kernels [variant]`

use std::hint::black_box;
use std::time::Instant;

use cairn_gguf::DType;
use cairn_hardware::Machine;
use cairn_kernels::{
    AttendScratch, AttendSpan, Columns, DELTA_COLUMNS, DeltaStep, Format, KV_TYPES, MatMul, SCAN_TOKENS, Scan,
    ScanToken, Scratch, Variant, usable,
};

const K: usize = 2048;
/// More weights than any cache holds.
const WEIGHT_BYTES: usize = 64 << 20;
const PREFILL_COLUMNS: usize = 512;
const PREFILL_ROWS: usize = 256;

fn main() {
    let only = std::env::args().nth(1);
    for variant in usable(&Machine::probe().cpu.features) {
        if only.as_deref().is_none_or(|only| only == variant.name) {
            println!("{}", variant.name);
            measure(variant);
        }
    }
}

fn measure(variant: &Variant) {
    println!("  {:6} {:>12} {:>12} {:>12}", "type", "decode GB/s", "prefill GOP/s", "convert us");
    for dtype in DType::all().filter(|dtype| dtype.is_weight()) {
        let row_bytes = dtype.row_bytes(K);
        let rows = WEIGHT_BYTES / row_bytes / if variant.name == "scalar" { 16 } else { 1 };
        // Scales of 0x2c2c are harmless; the arithmetic's speed does not depend on the values.
        let weights = vec![0x2c; rows * row_bytes];
        let decode = seconds(|| matmul(variant, dtype, &weights, rows, 1));
        let prefill =
            seconds(|| matmul(variant, dtype, &weights[..PREFILL_ROWS * row_bytes], PREFILL_ROWS, PREFILL_COLUMNS));
        let x = vec![0.5; K];
        let mut column = vec![0; Format::of(dtype).column_bytes(K)];
        let convert = seconds(|| (variant.convert)(Format::of(dtype), black_box(&x), &mut column));
        println!(
            "  {:6} {:12.1} {:12.1} {:12.2}",
            dtype.name(),
            (rows * row_bytes) as f64 / decode / 1e9,
            2e-9 * (PREFILL_ROWS * PREFILL_COLUMNS * K) as f64 / prefill,
            convert * 1e6,
        );
    }
    for dtype in KV_TYPES {
        for queries in [1, 2, 4, 8, 64] {
            let seconds = seconds(|| attend(variant, dtype, queries));
            println!("  attend {queries} queries of 128 over 256 positions of {dtype}: {:.2} us", seconds * 1e6);
        }
        let mut row = vec![0; dtype.row_bytes(1024)];
        let x: Vec<f32> = (0..1024).map(|i| i as f32 - 400.0).collect();
        let seconds = seconds(|| (variant.encode_row)(dtype, black_box(&x), &mut row));
        println!("  1024 elements to {dtype}: {:.2} us", seconds * 1e6);
    }
    let (mut gate, up) = (vec![0.5; 8192], vec![0.5; 8192]);
    let swiglu = seconds(|| (variant.swiglu)(black_box(&mut gate), &up));
    let norm = seconds(|| (variant.rms_norm_in_place)(black_box(&mut gate), &up, 1e-5));
    println!("  8192 elements: swiglu {:.2} us, rms_norm {:.2} us", swiglu * 1e6, norm * 1e6);
    recurrences(variant);
}

/// Steps on a state of 128 rows and 32 columns, which fits into the first-level cache; multiplications and additions as operations.
fn recurrences(variant: &Variant) {
    const ROWS: usize = 128;
    let mut state = vec![0.1; ROWS * DELTA_COLUMNS];
    let (row, column) = (vec![0.01; ROWS], vec![0.1; DELTA_COLUMNS]);
    let mut out = vec![0.0; SCAN_TOKENS * DELTA_COLUMNS];
    let delta = seconds(|| {
        (variant.delta)(DeltaStep {
            state: &mut state,
            k: &row,
            q: &row,
            v: &column,
            decay: 0.9,
            beta: 0.5,
            out: black_box(&mut out[..DELTA_COLUMNS]),
        });
    });
    let token = ScanToken { b: &row, c: &row, x: &column, step: 0.1, decay: 0.9 };
    let tokens = [token; SCAN_TOKENS];
    let scan = seconds(|| {
        (variant.scan)(Scan { state: &mut state, tokens: &tokens, skip: 0.5, out: black_box(&mut out) });
    });
    let report = |name: &str, seconds: f64, operations: usize| {
        let rate = (operations * state.len()) as f64 / seconds / 1e9;
        println!("  {name} of {ROWS} x {DELTA_COLUMNS}: {:.2} us, {rate:.1} GOP/s", seconds * 1e6);
    };
    report("delta rule, 1 token", delta, 7);
    report("state space, 4 tokens", scan, 5 * SCAN_TOKENS);
    let (mut x, y) = (vec![0.5; 8192], vec![0.5; 8192]);
    let taps = seconds(|| (variant.add_product)(black_box(&mut x), &y, &y));
    let silu = seconds(|| (variant.silu)(black_box(&mut x)));
    let squared = seconds(|| (variant.relu_squared)(black_box(&mut x)));
    let [taps, silu, squared] = [taps, silu, squared].map(|seconds| seconds * 1e6);
    println!("  8192 elements: tap {taps:.2} us, silu {silu:.2} us, relu squared {squared:.2} us");
}

fn matmul(variant: &Variant, dtype: DType, weights: &[u8], rows: usize, count: usize) {
    thread_local! {
        static BUFFERS: std::cell::RefCell<(Vec<u8>, Vec<f32>, Scratch)> = Default::default();
    }
    let format = Format::of(dtype);
    BUFFERS.with_borrow_mut(|(columns, out, scratch)| {
        columns.resize(count * format.column_bytes(K), 0);
        out.resize(rows * count, 0.0);
        (variant.matmul)(MatMul {
            dtype,
            k: K,
            weights,
            rows,
            columns: Columns { format, k: K, bytes: columns, count },
            out: black_box(out),
            out_stride: rows,
            scratch,
        });
    });
}

fn attend(variant: &Variant, dtype: DType, queries: usize) {
    thread_local! {
        static SCRATCH: std::cell::RefCell<AttendScratch> = Default::default();
    }
    let page = vec![0x2c; 64 * dtype.row_bytes(128)];
    let q = vec![0.1; queries * 128];
    let (mut max, mut sum, mut acc) = (vec![0.0; queries], vec![0.0; queries], vec![0.0; queries * 128]);
    SCRATCH.with_borrow_mut(|scratch| {
        (variant.attend)(AttendSpan {
            q: &q,
            head_dim: 128,
            value_dim: 128,
            queries,
            first: &vec![0; queries],
            until: &vec![256; queries],
            span_start: 0,
            dtype,
            k: [&page; 4],
            v: [&page; 4],
            value_stride: dtype.row_bytes(128),
            next: &[],
            scale: 0.1,
            softcap: 0.0,
            bias: &[],
            scratch,
            max: &mut max,
            sum: &mut sum,
            acc: black_box(&mut acc),
        });
    });
}

/// The fastest of many runs: others may use the machine too.
fn seconds(mut run: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    let all = Instant::now();
    while all.elapsed().as_secs_f64() < 0.15 {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}

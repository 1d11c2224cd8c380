//! What each variant reaches on this machine with one thread: decode in GB/s of weights read from memory, prefill in
//! 10^9 multiplications and additions per second, attention and conversion in microseconds.
//!
//! `cargo run --release -p cairn-kernels --example rates [variant]`

use std::hint::black_box;
use std::time::Instant;

use cairn_gguf::DType;
use cairn_hardware::Machine;
use cairn_kernels::{AttendScratch, AttendSpan, Columns, Format, KV_TYPES, MatMul, Scratch, Variant, usable};

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

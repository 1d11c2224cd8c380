//! Measures attention in long contexts for each page type: a prompt in batches of 512, then single tokens, with random
//! weights in the shape of a 0.6B model with eight layers.
//!
//! `cargo run --release -p cairn-models --example depth [tokens] [rounds] [threads] [type]`

use std::sync::Arc;
use std::time::Instant;

use cairn_gguf::DType;
use cairn_hardware::Machine;
use cairn_kernels::KV_TYPES;
use cairn_models::{Model, ModelFile, load};
use cairn_tensor::{Backend, Batch, Cpu, Limits, PAGE_TOKENS, PageId, Row, Team};
use cairn_testkit::{ModelSpec, Types, families, tiny};

/// Rows of a batch of the prompt.
const ROWS: usize = 512;
/// Tokens that are decoded one by one.
const DECODED: usize = 32;

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |default| args.next().map_or(default, |arg| arg.parse().expect("the argument is a number"));
    let (depth, rounds, threads) = (number(4096), number(5), number(2));
    let only = args.next();
    let mut types = KV_TYPES.to_vec();
    types.retain(|dtype| only.as_ref().is_none_or(|only| dtype.name().eq_ignore_ascii_case(only)));
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("model.gguf");
    let spec = ModelSpec {
        layers: 8,
        width: 1024,
        heads: 16,
        kv_heads: 8,
        head_dim: 128,
        ffn: 3072,
        context: 65_536,
        types: Types::All(DType::Q8_0),
        ..tiny(&families::QWEN3)
    };
    cairn_testkit::write_file(&spec, &path).expect("the folder is writable");
    let file = ModelFile::open(&path).expect("testkit writes whole models");
    let cpu = Machine::probe().cpu;
    let team = Arc::new(Team::new(threads, &cpu.usable_cores).expect("threads can be started"));
    let variant = cairn_kernels::usable(&cpu.features)[0];
    let mut times = vec![[Vec::new(), Vec::new()]; types.len()];
    for _ in 0..rounds {
        // Alternating, because the load of the machine varies.
        for (times, &kv_type) in times.iter_mut().zip(&types) {
            let backend = Cpu::new(variant, Arc::clone(&team)).with_kv_type(kv_type);
            for (all, time) in times.iter_mut().zip(measure(&file, backend, depth)) {
                all.push(time);
            }
        }
    }
    for (times, kv_type) in times.iter_mut().zip(types) {
        for (what, times) in ["prompt", "token"].into_iter().zip(times) {
            times.sort_by(f64::total_cmp);
            let median = times[times.len() / 2];
            println!("{kv_type:4} {what:6}: least {:9.3} ms, median {median:9.3} ms", times[0]);
        }
    }
}

/// Returns the milliseconds of a prompt of `depth` tokens, and of the fastest following token.
fn measure(file: &ModelFile, mut backend: Cpu, depth: usize) -> [f64; 2] {
    let Model { plan, .. } = load(file, depth + DECODED, &mut backend).expect("the model is whole");
    let plan = backend.prepare(plan, Limits { rows: ROWS, logit_rows: 1 }).expect("the plan fits its weights");
    let pages = (depth + DECODED).div_ceil(PAGE_TOKENS);
    backend.grow_pages(pages).expect("the pages fit into memory");
    let table: Vec<PageId> = (0..pages as u32).map(PageId).collect();
    let mut run = |slots: std::ops::Range<usize>| {
        let last = slots.end - 1;
        let rows = slots.map(|slot| Row::text(0, (slot * 31 % 509) as u32, slot as u32, slot == last)).collect();
        let batch = Batch { rows, tables: vec![table.clone()], ..Batch::default() };
        let start = Instant::now();
        backend.run(plan, &batch).expect("the batch is within the limits");
        start.elapsed().as_secs_f64() * 1e3
    };
    let prompt = (0..depth).step_by(ROWS).map(|start| run(start..(start + ROWS).min(depth))).sum();
    let tokens = (depth..depth + DECODED).map(|slot| run(slot..slot + 1));
    [prompt, tokens.fold(f64::INFINITY, f64::min)]
}

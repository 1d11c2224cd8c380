//! Benchmark of reads and writes of page sections, compared with plain copies of the same size: a restore of cached
//! rows must cost little more than the copy.
//!
//! `cargo run --release -p cairn-tensor --example sections [tokens]`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use cairn_hardware::Machine;
use cairn_kernels::KV_TYPES;
use cairn_tensor::{Backend, Cpu, Kv, Limits, PAGE_TOKENS, PageId, Plan, State, StateId, StateKind, Team};

/// Attention layers, key/value heads and their width, as a 0.6B model has them.
const SHAPE: [usize; 3] = [28, 8, 128];
/// Rounds, of which the fastest counts: others may use the machine too.
const ROUNDS: usize = 25;

fn main() {
    let tokens =
        std::env::args().nth(1).map_or(4096, |arg| arg.parse().expect("the first argument is a number of tokens"));
    let pages = tokens / PAGE_TOKENS;
    let variant = cairn_kernels::usable(&Machine::probe().cpu.features)[0];
    let team = Arc::new(Team::new(1, &[]).expect("a thread can be started"));
    println!("GB/s over {pages} pages; first: onto memory that was never touched");
    println!(
        "{:4} {:>8} {:>12} {:>12} {:>12} {:>12} {:>12}",
        "type", "section", "copy first", "write first", "copy", "write", "read"
    );
    for kv_type in KV_TYPES {
        let mut plan = Plan::default();
        let [layers, kv_heads, head_dim] = SHAPE;
        plan.states = vec![State::new(StateKind::Full, kv_heads, head_dim); layers];
        let layout = plan.page_layout(kv_type);
        let mut backend = Cpu::new(variant, Arc::clone(&team)).with_kv_type(kv_type);
        backend.prepare(plan, Limits { rows: 1, logit_rows: 1 }).expect("an empty plan is sound");
        backend.grow_pages(pages).expect("there is memory for the pages");
        let places: Vec<_> = (0..pages)
            .flat_map(|page| {
                (0..layers).flat_map(move |layer| Kv::ALL.map(|kv| (PageId(page as u32), StateId(layer as u32), kv)))
            })
            .collect();
        let section_bytes = layout.section(StateId(0), Kv::Keys).len();
        let source: Vec<u8> = (0..places.len() * section_bytes).map(|at| at as u8).collect();

        let mut plain = vec![0; source.len()];
        let copied = |plain: &mut [u8]| {
            for (to, from) in plain.chunks_mut(section_bytes).zip(source.chunks(section_bytes)) {
                black_box(to).copy_from_slice(from);
            }
        };
        let written = |backend: &mut Cpu| {
            for (&(page, state, kv), bytes) in places.iter().zip(source.chunks(section_bytes)) {
                backend.write_section(page, state, kv, bytes);
            }
        };
        let first = [seconds(|| copied(&mut plain)), seconds(|| written(&mut backend))];
        let mut least = [f64::INFINITY; 3];
        for _ in 0..ROUNDS {
            // Interleaved, so that all cases run under the same load.
            let times = [
                seconds(|| copied(&mut plain)),
                seconds(|| written(&mut backend)),
                seconds(|| {
                    for (&(page, state, kv), bytes) in places.iter().zip(plain.chunks_mut(section_bytes)) {
                        backend.read_section(page, state, kv, bytes);
                    }
                }),
            ];
            least.iter_mut().zip(times).for_each(|(least, time)| *least = time.min(*least));
        }
        assert!(plain == source, "the copy equals the source");
        print!("{kv_type:4} {section_bytes:8}");
        first.iter().chain(&least).for_each(|time| print!(" {:12.2}", source.len() as f64 / time / 1e9));
        println!("   write / copy {:.2}, read / copy {:.2}", least[0] / least[1], least[0] / least[2]);
    }
}

fn seconds(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64()
}

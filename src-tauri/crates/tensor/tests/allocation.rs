//! A run of a prepared plan allocates no memory, as a counting allocator shows.
//!
//! Kernels grow their scratch memory to what the largest call needs, so the first prompt and the first token may still
//! allocate; everything after them must not.

#![expect(unsafe_code, reason = "an allocator that counts is an unsafe trait")]

#[path = "suite/builder.rs"]
mod builder;
#[path = "suite/common.rs"]
mod common;
#[path = "suite/hybrid.rs"]
mod hybrid;
#[path = "suite/latent.rs"]
mod latent;
#[path = "suite/varied.rs"]
mod varied;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use cairn_gguf::DType;
use cairn_tensor::{Backend, Batch, BufferId, Limits, PlanId, Slice};

use common::{VOCABULARY, all_variants, cpu, push_rows, read, table, tiny};
use hybrid::{Snapshots, hybrid, linear, state_space};
use latent::latent;
use varied::{chunked, varied};

/// Allocations so far, on all threads.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator with a counter.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the address came from `alloc` above, so from the system's allocator, with this layout.
        unsafe { System.dealloc(address, layout) }
    }
}

/// Writes a model into a backend.
type Model = fn(&mut dyn Backend, DType, Limits) -> (PlanId, BufferId);

/// The only test of this binary, because allocations of a concurrent test would be counted.
#[test]
fn run_after_the_first_steps_allocates_nothing() {
    check(tiny, 2);
    check(varied, 2);
    check(chunked, 2);
    check(hybrid, 4);
    check(latent, 2);
    check(linear, 3);
    check(state_space, 3);
}

fn check(model: Model, layers: usize) {
    for variant in all_variants() {
        for (dtype, kv_type) in [
            (DType::F32, DType::F16),
            (DType::Q8_0, DType::Q8_0),
            (DType::Q4_K, DType::Q4_0),
            (DType::F32, DType::BF16),
        ] {
            let mut backend = cpu(variant, 2).with_kv_type(kv_type);
            let (plan, logits) = model(&mut backend, dtype, Limits { rows: 300, logit_rows: 2 });
            let tables = vec![table(0, 2, 640), table(1, 2, 640)];
            backend.grow_pages(20).expect("a few pages can be had");
            let mut snapshots = Snapshots::default();
            let mut batch = |first: std::ops::Range<usize>, second: std::ops::Range<usize>, is_complete: bool| {
                let mut batch = Batch { tables: tables.clone(), ..Batch::default() };
                push_rows(&mut batch, 0, first, false);
                push_rows(&mut batch, 1, second, false);
                batch.rows.last_mut().expect("a batch has rows").want_logits = true;
                snapshots.link(&mut batch, |seq| seq > 0 || is_complete);
                batch
            };
            let warm = [batch(0..290, 0..10, true), batch(290..291, 10..10, true)];
            let mut steps =
                vec![batch(291..570, 10..31, true), batch(570..571, 31..31, true), batch(571..572, 31..32, true)];
            for (layers, row) in [(0..1, 32), (1..layers, 33)] {
                let slice = Some(Slice { rows: 20, layers });
                steps.push(Batch { slice, ..batch(572..592, row..row + 1, false) });
            }
            warm.iter().for_each(|batch| backend.run(plan, batch).expect("the batch is sound"));
            let before = CALLS.load(Ordering::Relaxed);
            steps.iter().for_each(|batch| backend.run(plan, batch).expect("the batch is sound"));
            let calls = CALLS.load(Ordering::Relaxed) - before;
            assert_eq!(calls, 0, "{} with {}: calls for memory in {} steps", variant.name, dtype.name(), steps.len());
            assert!(read(&backend, plan, logits, 1, VOCABULARY)[0].is_finite(), "the steps computed something");
        }
    }
}

//! Speed of matrix products on this machine: bytes of weights per second for one column, as in decode, and operations per
//! second for many columns, as in prefill.
//!
//! The products are those of [`product`](super::product): the same kernels, on all threads of a team, with the same strips.
//! Each measurement takes some hundredths of a second, in passes of [`PASS`] at most. It runs only while no other region of
//! the team does, so that it neither delays an answer for longer than a pass nor measures a share of the machine.

use std::time::{Duration, Instant};

use cairn_gguf::DType;
use cairn_kernels::{Columns, Format, MatMul, Scratch, Variant};
use parking_lot::Mutex;

use super::schedule::{GROUP, STRIP, grouped_part};
use crate::team::Team;

/// Elements of a weight row: a multiple of all block sizes.
const K: usize = 2048;
/// Weights of a decode pass, more than most caches hold.
const WEIGHT_BYTES: usize = 128 << 20;
/// Weights of the pass that finds the size of the others.
const TRIAL_BYTES: usize = 1 << 20;
/// Columns of a prefill pass.
const COLUMNS: usize = 256;
/// Longest pass, about.
const PASS: Duration = Duration::from_millis(20);
/// Passes of a measurement continue for this time. The fastest counts, because other programs may use the machine too.
const MEASUREMENT: Duration = Duration::from_millis(40);

/// Speed of the products with weights of one type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProductRates {
    /// Bytes of weights that products with one column read in a second.
    pub decode_bytes: f64,
    /// Multiplications and additions in a second, each counted, of products with many columns.
    pub prefill_operations: f64,
}

/// Weights to measure with. All types use the same bytes.
#[derive(Debug)]
pub struct RateWeights(Vec<u8>);

impl Default for RateWeights {
    /// Scales of 0x2c2c are finite, and the speed of the arithmetic does not depend on the values.
    fn default() -> Self {
        Self(vec![0x2c; WEIGHT_BYTES])
    }
}

/// Buffers of one thread.
#[derive(Default)]
struct Buffers {
    scratch: Scratch,
    out: Vec<f32>,
}

/// Measures the products of a variant with weights of type `dtype`. Returns `None` if another region of the team runs, or as
/// soon as `proceed`, which is called before each pass, returns false. The calling thread should be pinned:
/// [`Team::pin_caller`].
pub fn measure_products(
    variant: &Variant,
    team: &Team,
    dtype: DType,
    weights: &RateWeights,
    proceed: &mut dyn FnMut() -> bool,
) -> Option<ProductRates> {
    let format = Format::of(dtype);
    let (row_bytes, column_bytes) = (dtype.row_bytes(K), format.column_bytes(K));
    let mut column = vec![0; column_bytes];
    (variant.convert)(format, &[0.5; K], &mut column);
    let columns = column.repeat(COLUMNS);
    let buffers: Vec<Mutex<Buffers>> = (0..team.threads()).map(|_| Mutex::default()).collect();
    let mut pass = |rows: usize, count: usize| {
        if !proceed() {
            return None;
        }
        let started = Instant::now();
        let has_run = team.try_run(|worker| {
            let Buffers { scratch, out } = &mut *buffers[worker.index()].lock();
            let own = grouped_part(rows, GROUP, worker.threads(), worker.index());
            let strip = if count == 1 { own.len().max(1) } else { STRIP };
            out.resize(strip * count, 0.0);
            for start in own.clone().step_by(strip) {
                let strip = start..(start + strip).min(own.end);
                (variant.matmul)(MatMul {
                    dtype,
                    k: K,
                    weights: &weights.0[strip.start * row_bytes..strip.end * row_bytes],
                    rows: strip.len(),
                    columns: Columns { format, k: K, bytes: &columns[..count * column_bytes], count },
                    out: &mut out[..strip.len() * count],
                    out_stride: strip.len(),
                    scratch,
                });
            }
        });
        has_run.then(|| started.elapsed())
    };
    let all_rows = weights.0.len() / row_bytes;
    let mut fastest = |count: usize| {
        let trial_rows = (TRIAL_BYTES / row_bytes / count).max(GROUP * team.threads()).min(all_rows);
        let trial = pass(trial_rows, count)?.max(Duration::from_nanos(1));
        let rows = (trial_rows as f64 * PASS.as_secs_f64() / trial.as_secs_f64()) as usize;
        // A multiple of the group for each thread, so that all have the same work.
        let rows = rows.clamp(trial_rows, all_rows).next_multiple_of(GROUP * team.threads()).min(all_rows);
        let (mut best, until) = (f64::INFINITY, Instant::now() + MEASUREMENT);
        while best.is_infinite() || Instant::now() < until {
            best = best.min(pass(rows, count)?.as_secs_f64());
        }
        Some(rows as f64 / best)
    };
    Some(ProductRates {
        decode_bytes: fastest(1)? * row_bytes as f64,
        prefill_operations: fastest(COLUMNS)? * (2 * K * COLUMNS) as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(dtype: DType, passes: usize) -> (Option<ProductRates>, usize) {
        let team = Team::new(2, &[]).expect("threads start");
        let scalar = cairn_kernels::by_name("scalar").expect("the scalar variant exists");
        let mut left = passes;
        let mut proceed = || {
            left = left.saturating_sub(1);
            left > 0
        };
        let weights = RateWeights(vec![0x2c; 4 << 20]);
        (measure_products(scalar, &team, dtype, &weights, &mut proceed), left)
    }

    #[test]
    fn products_of_each_type_are_measured() {
        for dtype in [DType::Q4_K, DType::Q8_0, DType::F16] {
            let (measured, _) = rates(dtype, usize::MAX);
            let ProductRates { decode_bytes, prefill_operations } = measured.expect("nothing else runs");
            assert!(decode_bytes.is_finite() && decode_bytes > 1e3, "{dtype}: {decode_bytes} bytes in a second");
            assert!(prefill_operations.is_finite() && prefill_operations > 1e3, "{dtype}: {prefill_operations}");
        }
    }

    #[test]
    fn measurement_stops_between_passes() {
        assert_eq!(rates(DType::Q8_0, 1), (None, 0), "before the first pass");
        assert_eq!(rates(DType::Q8_0, 3), (None, 0), "before the third pass");
    }

    #[test]
    fn measurement_does_not_wait_for_another_region() {
        let team = Team::new(1, &[]).expect("no threads are needed");
        let scalar = cairn_kernels::by_name("scalar").expect("the scalar variant exists");
        let weights = RateWeights(vec![0x2c; 4 << 20]);
        team.run(|_| {
            let measured = measure_products(scalar, &team, DType::Q8_0, &weights, &mut || true);
            assert_eq!(measured, None, "the team computes something else");
        });
    }
}

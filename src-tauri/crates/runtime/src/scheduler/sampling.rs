//! The choice of the next tokens after a step. The tokens of several answers are chosen by all compute threads: with a large
//! vocabulary, one thread would take a large part of the time of a small model's step.
//!
//! **Invariant:** a token depends on its own row and its own sequence only, so the number of threads changes no answer.

use cairn_tensor::Team;
use parking_lot::Mutex;

use crate::sequence::Sequence;

/// Buffers for a row of logits, one for each compute thread.
pub(super) type RowBuffers = [Mutex<Vec<f32>>];

/// Has each of these sequences choose its next token. `indices` are their positions among the active ones. `read` reads a row
/// of logits into a buffer; the first row belongs to the first index.
pub(super) fn choose_tokens(
    team: &Team,
    active: &mut [Sequence],
    indices: &[usize],
    buffers: &mut RowBuffers,
    read: impl Fn(usize, &mut Vec<f32>) + Sync,
) {
    let choose = |sequence: &mut Sequence, row: usize, buffer: &mut Vec<f32>| {
        read(row, buffer);
        sequence.choose(buffer);
    };
    if let [index] = *indices {
        choose(&mut active[index], 0, buffers[0].get_mut());
    }
    if indices.len() < 2 {
        return;
    }
    let mut rows = vec![None; active.len()];
    for (row, &index) in indices.iter().enumerate() {
        rows[index] = Some(row);
        // The compute threads must not wait while other models need them.
        active[index].wait_for_mask();
    }
    let rows = active.iter_mut().zip(rows).filter_map(|(sequence, row)| Some((sequence, row?)));
    let (rows, buffers) = (Mutex::new(rows), &*buffers);
    let work = |thread: usize| {
        let mut buffer = buffers[thread].lock();
        let next = || rows.lock().next();
        while let Some((sequence, row)) = next() {
            choose(sequence, row, &mut buffer);
        }
    };
    // While another model computes, this thread need not wait for its turn.
    if !team.try_run(|worker| work(worker.index())) {
        work(0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Barrier};
    use std::thread;
    use std::time::{Duration, Instant};

    use cairn_tokenizer::Tokenizer;

    use super::*;
    use crate::request::{Request, Sampling};
    use crate::sequence::tests::{sequence, tokenizer};

    const STEPS: usize = 40;

    /// Requests with different parameters and seeds.
    fn sequences(tokenizer: &Arc<Tokenizer>) -> Vec<Sequence> {
        let request = |index: usize| Request {
            sampling: Sampling {
                temperature: 0.3 * index as f32,
                top_k: [0, 5, 40][index % 3],
                top_p: [1.0, 0.9][index % 2],
                typical_p: [1.0, 1.0, 1.0, 0.8][index % 4],
                repeat_penalty: 1.2,
                seed: Some(index as u64),
                ..Sampling::default()
            },
            logprobs: [Some(3), None][index % 2],
            ..Request::default()
        };
        (0..8).map(|index| sequence(request(index), None, tokenizer, 3).0).collect()
    }

    /// Fills a row with numbers that depend on the step and the sequence.
    fn fill(step: usize, index: usize, tokenizer: &Tokenizer, buffer: &mut Vec<f32>) {
        let mut state = (step * 8 + index) as u32 ^ 0x9e37_79b9;
        buffer.clear();
        buffer.extend((0..tokenizer.vocab_size() as u32).map(|token| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if tokenizer.is_end(token) { f32::NEG_INFINITY } else { (state >> 20) as f32 / 512.0 }
        }));
    }

    /// The tokens of all sequences. In each step, groups of this many sequences choose together.
    fn answers(team: &Team, group: usize) -> Vec<Vec<u32>> {
        let tokenizer = tokenizer();
        let mut active = sequences(&tokenizer);
        let mut buffers: Vec<_> = (0..team.threads()).map(|_| Mutex::default()).collect();
        for step in 0..STEPS {
            // The rows of a step have another order than the sequences.
            let order: Vec<usize> = (0..active.len()).map(|row| (row * 3 + step) % active.len()).collect();
            for indices in order.chunks(group) {
                choose_tokens(team, &mut active, indices, &mut buffers, |row, buffer| {
                    fill(step, indices[row], &tokenizer, buffer);
                });
                for &index in indices {
                    assert!(!active[index].extend(), "sequence {index} has not finished");
                }
            }
        }
        active.iter().map(|sequence| sequence.history().to_vec()).collect()
    }

    fn team(threads: usize) -> Team {
        Team::new(threads, &[]).expect("a test may start threads")
    }

    #[test]
    fn number_of_threads_changes_no_token() {
        let alone = answers(&team(1), 1);
        assert!(alone.iter().all(|tokens| tokens.len() == 1 + STEPS), "all tokens: {alone:?}");
        assert!(alone.windows(2).all(|pair| pair[0] != pair[1]), "the requests have different answers");
        for threads in [1, 2, 4] {
            for group in [2, 3, 8] {
                assert_eq!(answers(&team(threads), group), alone, "{threads} threads, {group} sequences together");
            }
        }
    }

    #[test]
    fn tokens_are_chosen_while_another_model_computes() {
        let (team, begin, is_done) = (team(2), Barrier::new(2), AtomicBool::new(false));
        let compute = || {
            begin.wait();
            let deadline = Instant::now() + Duration::from_secs(20);
            while !is_done.load(Ordering::Acquire) && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(1));
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                team.run(|worker| {
                    if worker.index() == 0 {
                        compute()
                    }
                })
            });
            begin.wait();
            let began = Instant::now();
            let found = answers(&team, 8);
            let took = began.elapsed();
            is_done.store(true, Ordering::Release);
            assert!(took < Duration::from_secs(20), "it did not wait for the other model");
            assert_eq!(found, answers(&self::team(1), 1), "the same tokens");
        });
    }
}

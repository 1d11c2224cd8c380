//! Answers that share the processor: `cargo xtask bench stutter | two-models [--shape NAME] [--rounds N]`.
//!
//! `stutter` measures the times between the tokens of running answers before and while a long prompt of another client is
//! computed. `two-models` measures two models that answer at once, and each of them alone.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::kv::bars::{Bar, interval, median, quantile, report};
use crate::kv::{Options, Running, Shape, block_on, shape};

/// Answers that run when the prompt arrives.
const ANSWERS: usize = 4;
/// Tokens of the prompts of these answers, and of the arriving prompt.
const SHORT: usize = 32;
const LONG: usize = 4096;
/// Tokens of each answer before the measurement, and measured tokens before the prompt arrives.
const WARM_UP: usize = 16;
const UNDISTURBED: usize = 64;
/// Largest p99 between two tokens while a prompt is computed, as a multiple of the undisturbed median.
const MAX_STUTTER: f64 = 2.5;
/// Time of one measurement of answering models.
const PHASE: Duration = Duration::from_secs(10);
/// Smallest share of the speed of a model alone that two models reach together.
const MIN_TOGETHER: f64 = 0.95;

/// Measures the times between tokens while a prompt arrives.
pub(crate) fn stutter(folder: &Path, options: &Options, rounds: usize) -> anyhow::Result<()> {
    let shape = shape(options.shape.as_deref().unwrap_or("0.6b-q8_0"))?;
    let long = options.tokens.unwrap_or(LONG);
    let mut bars = Vec::new();
    block_on(async {
        let running = Running::load(&shape, folder, None, long + 64).await?;
        for round in 0..rounds {
            let ([before, during], took) = interrupted(&running, &shape, round as u64, long).await?;
            let ratio = quantile(&during, 0.99) / median(&before);
            let milliseconds = |seconds: f64| format!("{:.1} ms", seconds * 1e3);
            println!(
                "round {round}: {} gaps before, median {}, p99 {}; {} gaps during the prompt, median {}, p99 {}; the prompt took {:.1} s",
                before.len(),
                milliseconds(median(&before)),
                milliseconds(quantile(&before, 0.99)),
                during.len(),
                milliseconds(median(&during)),
                milliseconds(quantile(&during, 0.99)),
                took.as_secs_f64(),
            );
            let what = format!("{}, {ANSWERS} answers, prompt of {long} tokens", shape.name);
            bars.push(Bar::new(what, format!("<= {MAX_STUTTER} x"), format!("{ratio:.2} x"), ratio <= MAX_STUTTER));
        }
        running.unload().await
    })?;
    report(&bars)
}

/// Seconds between the tokens of all answers before the prompt arrives, and until its first token; and the time until then.
async fn interrupted(
    running: &Running,
    shape: &Shape,
    round: u64,
    long: usize,
) -> anyhow::Result<([Vec<f64>; 2], Duration)> {
    let times: [RefCell<Vec<Instant>>; ANSWERS] = Default::default();
    let answer = async |at: usize| {
        let prompt = shape.prompt(round * 10 + at as u64, SHORT);
        // The answers are stopped after the prompt, so the count is only a limit.
        running.ask(prompt, long, |_, now| times[at].borrow_mut().push(now)).await
    };
    let answers = async {
        tokio::try_join!(answer(0), answer(1), answer(2), answer(3))?;
        anyhow::bail!("the answers ended before the prompt was computed")
    };
    let prompt = async {
        while times.iter().any(|times| times.borrow().len() < WARM_UP + UNDISTURBED) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let arrived = Instant::now();
        running.ask(shape.prompt(round * 10 + 9, long), 1, |_, _| ()).await?;
        anyhow::Ok((arrived, Instant::now()))
    };
    let (arrived, computed) = tokio::select! {
        biased;
        computed = prompt => computed?,
        ended = answers => ended?,
    };
    let mut gaps = [Vec::new(), Vec::new()];
    for times in &times {
        for pair in times.borrow().windows(2).skip(WARM_UP) {
            let phase = usize::from(pair[1] > arrived);
            if pair[1] <= computed {
                gaps[phase].push((pair[1] - pair[0]).as_secs_f64());
            }
        }
    }
    ensure!(gaps[1].len() >= 100, "{} gaps during the prompt are too few for a p99", gaps[1].len());
    Ok((gaps, computed - arrived))
}

/// Compares the speed of two models that answer at once with the speed of each alone.
pub(crate) fn two_models(folder: &Path, options: &Options, rounds: usize) -> anyhow::Result<()> {
    let first = shape(options.shape.as_deref().unwrap_or("0.6b-q8_0"))?;
    let second = shape("small")?;
    let mut shares = Vec::new();
    block_on(async {
        let running = Running::load(&first, folder, None, 8192).await?;
        let other = running.beside(&second, folder, 8192).await?;
        for round in 0..rounds as u64 {
            let [alone, other_alone] =
                [speed(&running, &first, round * 10).await?, speed(&other, &second, round * 10 + 1).await?];
            let (together, other_together) =
                tokio::try_join!(speed(&running, &first, round * 10 + 2), speed(&other, &second, round * 10 + 3))?;
            let parts = [together / alone, other_together / other_alone];
            println!(
                "round {round}: {} {alone:.1} t/s alone, {together:.1} together; {} {other_alone:.1} t/s alone, {other_together:.1} together",
                first.name, second.name
            );
            shares.push(parts);
        }
        drop(other);
        running.unload().await
    })?;
    let sums: Vec<f64> = shares.iter().map(|parts| parts[0] + parts[1]).collect();
    let (low, high) = interval(&sums);
    report(&[Bar::new(
        "sum of the shares of the speed alone",
        format!(">= {MIN_TOGETHER:.2}"),
        format!(
            "{:.3} ({low:.3} to {high:.3}; first model {:.2})",
            median(&sums),
            median(&shares.iter().map(|parts| parts[0]).collect::<Vec<_>>())
        ),
        median(&sums) >= MIN_TOGETHER,
    )])
}

/// Tokens per second of one answer.
async fn speed(running: &Running, shape: &Shape, seed: u64) -> anyhow::Result<f64> {
    let (first, last) = (Cell::new(None::<Instant>), Cell::new((0, None::<Instant>)));
    let answer = running.ask(shape.prompt(seed, SHORT), 8192 - SHORT, |count, now| {
        if first.get().is_none() {
            first.set(Some(now));
        }
        last.set((count, Some(now)));
    });
    // Dropping the answer cancels it.
    let ended = tokio::time::timeout(PHASE, answer).await;
    ensure!(ended.is_err() || last.get().0 > 100, "the answer is too short");
    match (first.get(), last.get()) {
        (Some(first), (count, Some(last))) => Ok(count as f64 / (last - first).as_secs_f64()),
        _ => anyhow::bail!("the answer has no tokens"),
    }
}

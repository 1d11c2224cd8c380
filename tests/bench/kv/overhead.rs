//! Overhead of storing KV rows during generation: `cargo xtask bench kv-overhead [--shape small] [--pairs 200]`.
//!
//! During one answer, the tiers are paused and resumed every 64 tokens in the order off, on, on, off, so that drift of
//! the machine and growth of the context affect both sides equally. While they run, they store the answer's rows, and
//! another thread stores enough chunks to keep the disk busy. Prompts alternate between both sides too.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use cairn_gguf::DType;
use cairn_tier::{
    Chain, Chunk, ChunkHead, ChunkId, Fingerprint, Flags, Group, Key, NumericClass, RowTypes, SectionKind,
    SectionShape, SsdOptions, StoreReason, StoreRequest, TierKind, Tiers, WeightsDigest, identity::CHUNK_TOKENS,
};

use super::bars::{Bar, interval, median, percent, quantile, report};
use super::pages::{BYTES, Pages};
use super::{Options, Running, Shape, block_on, place};

/// Tokens generated in one phase.
const PHASE: usize = 64;
/// Pairs of one answer: a multiple of two.
const ANSWER_PAIRS: usize = 6;
/// Tokens of the prompt of each answer.
const PROMPT: usize = 256;
/// Pairs of prompts that are only computed.
const PREFILLS: usize = 24;
/// Tokens of these.
const PREFILL: usize = 512;
const RAM_BYTES: u64 = 512 << 20;

pub(crate) fn run(folder: &Path, options: &Options) -> anyhow::Result<()> {
    let shape = super::shape(options.shape.as_deref().unwrap_or("small"))?;
    let chunks = folder.join("kv-overhead");
    if chunks.exists() {
        fs::remove_dir_all(&chunks)?;
    }
    let tiers = place::open(&chunks, RAM_BYTES, SsdOptions::default(), false)?;
    tiers.set_budget(TierKind::Ssd, 2 << 30);
    let others = Others { tiers: &tiers, on: AtomicBool::new(false), ended: AtomicBool::new(false) };
    let figures = std::thread::scope(|scope| {
        scope.spawn(|| others.store());
        let measured = block_on(measure(folder, &shape, &others, options.pairs.unwrap_or(200)));
        others.ended.store(true, Ordering::Relaxed);
        measured
    });
    let figures = figures?;
    let written = tiers.status().tiers.iter().map(|place| place.counters.stored_bytes).max().unwrap_or(0);
    place::close(&tiers);
    fs::remove_dir_all(&chunks)?;
    println!("{:.1} GB were kept meanwhile", written as f64 / 1e9);
    let stalls = stalls(folder)?;
    figures.report(shape.name, &stalls)
}

/// Time that an answer waits while rows are passed to the tiers, for the shape with the largest chunks.
fn stalls(folder: &Path) -> anyhow::Result<Vec<f64>> {
    let shape = super::shape("0.6b")?;
    let mut pages = Pages::new(folder, &shape)?;
    let chunks = folder.join("kv-overhead");
    let tiers = place::open(&chunks, 2 * BYTES, SsdOptions::default(), false)?;
    let prompt = shape.prompt(4, (BYTES / pages.token_bytes()) as usize / CHUNK_TOKENS * CHUNK_TOKENS);
    let stalls = pages.stalls(&tiers, &prompt)?;
    place::close(&tiers);
    fs::remove_dir_all(&chunks)?;
    Ok(stalls)
}

/// Times of answers and prompts with and without the tiers.
#[derive(Default)]
struct Figures {
    /// Seconds of each pair of phases: off and on.
    decode: Vec<[f64; 2]>,
    /// Seconds between two tokens: off and on.
    gaps: [Vec<f64>; 2],
    /// Seconds of each pair of prompts: off and on.
    prefill: Vec<[f64; 2]>,
}

async fn measure(folder: &Path, shape: &Shape, others: &Others<'_>, pairs: usize) -> anyhow::Result<Figures> {
    let running = Running::load(shape, folder, Some(place::kept(others.tiers)), 8192).await?;
    others.turn(false);
    running.ask(shape.prompt(0, PROMPT), PHASE, |_, _| ()).await?;
    let mut figures = Figures::default();
    let mut seed = 1;
    while figures.decode.len() < pairs {
        let mut phase = Phases::default();
        let tokens = 1 + 2 * ANSWER_PAIRS * PHASE;
        running.ask(shape.prompt(seed, PROMPT), tokens, |count, now| phase.token(count, now, others)).await?;
        others.turn(false);
        for pair in phase.seconds.chunks_exact(2).zip(phase.ways.chunks_exact(2)) {
            let (seconds, ways) = pair;
            figures.decode.push(if ways[0] { [seconds[1], seconds[0]] } else { [seconds[0], seconds[1]] });
        }
        for (all, these) in figures.gaps.iter_mut().zip(phase.gaps) {
            all.extend(these);
        }
        seed += 1;
        // Some answers end early.
        ensure!(seed < 20 || figures.decode.len() as u64 > seed, "answers of {} are too short", shape.name);
    }
    for pair in 0..PREFILLS {
        let mut seconds = [0.0; 2];
        for on in [pair % 2 == 0, pair % 2 == 1] {
            others.turn(on);
            let answer = running.ask(shape.prompt(seed, PREFILL), 1, |_, _| ()).await?;
            seconds[usize::from(on)] = answer.first.as_secs_f64();
            seed += 1;
        }
        figures.prefill.push(seconds);
    }
    others.turn(false);
    running.unload().await?;
    Ok(figures)
}

/// An answer while it grows: its first token begins the first phase.
#[derive(Default)]
struct Phases {
    began: Option<Instant>,
    last: Option<Instant>,
    ways: Vec<bool>,
    seconds: Vec<f64>,
    gaps: [Vec<f64>; 2],
}

impl Phases {
    fn token(&mut self, count: usize, now: Instant, others: &Others<'_>) {
        let way = |phase: usize| matches!(phase % 4, 1 | 2);
        if let (Some(last), Some(&on)) = (self.last, self.ways.last()) {
            self.gaps[usize::from(on)].push((now - last).as_secs_f64());
        }
        self.last = Some(now);
        if count.is_multiple_of(PHASE) {
            self.seconds.extend(self.began.map(|began| (now - began).as_secs_f64()));
            let phase = count / PHASE;
            if phase < 2 * ANSWER_PAIRS {
                self.ways.push(way(phase));
                others.turn(way(phase));
            }
            self.began = Some(now);
        }
    }
}

impl Figures {
    fn report(&self, shape: &str, stalls: &[f64]) -> anyhow::Result<()> {
        let ratios = |pairs: &[[f64; 2]]| pairs.iter().map(|[off, on]| on / off).collect::<Vec<_>>();
        let (decode, prefill) = (ratios(&self.decode), ratios(&self.prefill));
        let shown = |(low, high): (f64, f64)| format!("[{}, {}]", percent(low), percent(high));
        let (low, high) = interval(&decode);
        let off: Vec<f64> = self.decode.iter().map(|pair| pair[0]).collect();
        println!(
            "{shape}: {} pairs of {PHASE} tokens, {:.1} tokens/s without",
            decode.len(),
            PHASE as f64 / median(&off)
        );
        let slow = self.gaps.each_ref().map(|gaps| quantile(gaps, 0.99));
        let late = slow[1] / slow[0];
        let middle = median(&prefill);
        let bars = [
            Bar::new(
                "decoding, while the disk is written to",
                "95 % interval's end <= +3 %",
                format!("median {}, {}", percent(median(&decode)), shown((low, high))),
                high <= 1.03,
            ),
            Bar::new(
                "time between tokens, 99th percentile",
                "<= +5 %",
                format!("{} ({:.2} ms, {:.2} ms without)", percent(late), slow[1] * 1e3, slow[0] * 1e3),
                late <= 1.05,
            ),
            Bar::new(
                format!("computing prompts of {PREFILL} tokens"),
                "<= +3 %",
                format!("median {}, {}", percent(middle), shown(interval(&prefill))),
                middle <= 1.03,
            ),
            Bar::new(
                "a step that gives rows to the tiers, 99th percentile",
                "<= 2 ms",
                format!("{:.2} ms of {} steps", quantile(stalls, 0.99) * 1e3, stalls.len()),
                quantile(stalls, 0.99) <= 2e-3,
            ),
        ];
        report(&bars)
    }
}

/// An endless supply of chunks of other conversations.
struct Others<'a> {
    tiers: &'a Arc<Tiers>,
    on: AtomicBool,
    ended: AtomicBool,
}

impl Others<'_> {
    /// Resumes or pauses the tiers.
    fn turn(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
        self.tiers.set_paused(!on);
    }

    /// Stores chunks as fast as the tiers accept them.
    fn store(&self) {
        const SECTIONS: u16 = 32;
        const BYTES: u32 = 128 << 10;
        let fingerprint = Fingerprint::new(WeightsDigest([9; 32]), []);
        let sections: Arc<[SectionShape]> =
            (0..SECTIONS).map(|at| SectionShape { layer: at / 2, kind: kind(at), bytes: BYTES }).collect();
        let mut random = cairn_testkit::Random::new(7);
        let mut rows = vec![0; usize::from(SECTIONS) * BYTES as usize];
        random.fill(&mut rows);
        let payload = Arc::new(rows);
        let mut number = 0;
        while !self.ended.load(Ordering::Relaxed) {
            let waiting: u64 = self.tiers.status().tiers.iter().map(|place| place.queued_bytes).sum();
            // A queue that is never empty keeps the disk busy. A full one would drop chunks.
            if !self.on.load(Ordering::Relaxed) || waiting > 64 << 20 || !self.tiers.has_room(payload.len() as u64) {
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
            number += 1;
            let keys: Arc<[Key]> = (0..CHUNK_TOKENS as u32).map(|at| Key::token(number * 1000 + at)).collect();
            let mut chain = Chain::new(&place::namespace(), &fingerprint);
            let parent = chain.last();
            let head = ChunkHead {
                id: ChunkId { fingerprint, hash: chain.push(&keys), group: Group::Full },
                parent,
                first_position: 0,
                keys,
                class: NumericClass::new("others").expect("a short name"),
                rows: RowTypes { keys: DType::F16, values: DType::F16 },
                flags: Flags::default(),
                created_unix_s: 1_800_000_000,
                sections: Arc::clone(&sections),
            };
            let chunk = Chunk { head: Arc::new(head), payload: Arc::clone(&payload) };
            let offer =
                StoreRequest { chunk, reason: StoreReason::Reused, owner: None, recompute: Duration::from_secs(1) };
            // Rejected chunks do not matter.
            let _ = self.tiers.store(offer);
        }
    }
}

fn kind(at: u16) -> SectionKind {
    if at.is_multiple_of(2) { SectionKind::Keys } else { SectionKind::Values }
}

//! Synthetic prompt traces from a seed: one desktop user, many conversations with a server, and many questions about
//! documents.
//!
//! These are models of usage, not recordings. Their statistics (requests, tokens, share and age of reused tokens)
//! follow the published Mooncake traces (<https://github.com/kvcache-ai/Mooncake>, FAST'25) and an estimate of two
//! weeks of desktop use.

use std::time::Duration;

use cairn_testkit::Random;

/// A prompt: its tokens, and its chunks. A chunk number identifies the chunk and all chunks before it.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) at: Duration,
    pub(super) chunks: Vec<u32>,
    pub(super) tokens: u64,
}

/// Prompts in chronological order.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) requests: Vec<Request>,
    /// Tokens per chunk.
    pub(super) chunk_tokens: u64,
    /// Number of distinct chunks.
    pub(super) chunks: u32,
}

impl Trace {
    fn new(chunk_tokens: u64) -> Self {
        Self { requests: Vec::new(), chunk_tokens, chunks: 0 }
    }

    pub(super) fn tokens(&self) -> u64 {
        self.requests.iter().map(|request| request.tokens).sum()
    }

    fn ask(&mut self, at: f64, text: &Text) {
        let at = Duration::from_secs_f64(at);
        self.requests.push(Request { at, chunks: text.chunks.clone(), tokens: text.tokens });
    }

    fn finish(mut self) -> Self {
        self.requests.sort_by_key(|request| request.at);
        self
    }
}

/// A text that grows, or is truncated and continues differently.
#[derive(Clone, Debug, Default)]
struct Text {
    chunks: Vec<u32>,
    tokens: u64,
}

impl Text {
    fn grow(&mut self, trace: &mut Trace, tokens: u64) {
        self.tokens += tokens;
        while (self.chunks.len() as u64 + 1) * trace.chunk_tokens <= self.tokens {
            self.chunks.push(trace.chunks);
            trace.chunks += 1;
        }
    }

    fn cut(&mut self, trace: &Trace, tokens: u64) {
        self.tokens = self.tokens.min(tokens);
        self.chunks.truncate((self.tokens / trace.chunk_tokens) as usize);
    }
}

struct RandomSource(Random);

impl RandomSource {
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    fn tokens(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low)
    }

    fn happens(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// Exponentially distributed waiting time.
    fn wait(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Log-normally distributed value.
    fn skewed(&mut self, median: f64, spread: f64) -> f64 {
        median * (spread * f64::from(self.0.normal())).exp()
    }
}

const DAY: f64 = 24.0 * 3600.0;

/// Two weeks of one user: an agent with a system prompt of 24,000 tokens and context compaction, an assistant with
/// 3,000, chats with 600, and one-shot prompts.
pub(super) fn desktop(seed: u64) -> Trace {
    let mut trace = Trace::new(256);
    let chance = &mut RandomSource(Random::from_name(seed, "desktop"));
    let systems = [600, 3000, 24_000].map(|tokens| {
        let mut text = Text::default();
        text.grow(&mut trace, tokens);
        text
    });
    let mut kept: Vec<(usize, Text)> = Vec::new();
    for day in 0..14 {
        let mut at = f64::from(day) * DAY + 9.0 * 3600.0;
        for _ in 0..7 {
            let kind = if chance.happens(0.45) { 2 } else { usize::from(chance.happens(0.6)) };
            let mut text = systems[kind].clone();
            // Some sessions continue earlier ones.
            let again: Vec<usize> = (0..kept.len()).filter(|&i| kept[i].0 == kind).collect();
            if !again.is_empty() && chance.happens(0.3) {
                let recent = (chance.wait(2.0) as usize).min(again.len() - 1);
                text = kept.remove(again[again.len() - 1 - recent]).1;
            }
            let turns = if kind == 2 { chance.tokens(5, 17) } else { chance.tokens(4, 13) };
            for _ in 0..turns {
                let before = text.tokens;
                let (low, high) = [(150, 1200), (300, 3000), (400, 3500)][kind];
                let tokens = chance.tokens(low, high);
                text.grow(&mut trace, tokens);
                trace.ask(at, &text);
                if chance.happens(0.1) {
                    // The question is rephrased, or the answer regenerated.
                    text.cut(&trace, before);
                    let tokens = chance.tokens(100, 800);
                    text.grow(&mut trace, tokens);
                    at += chance.between(10.0, 60.0);
                    trace.ask(at, &text);
                }
                if text.tokens > 48_000 {
                    text = systems[kind].clone();
                    let tokens = chance.tokens(1500, 3000);
                    text.grow(&mut trace, tokens);
                }
                if chance.happens(0.18) {
                    let mut once = Text::default();
                    let tokens = chance.tokens(200, 6000);
                    once.grow(&mut trace, tokens);
                    trace.ask(at + chance.between(1.0, 20.0), &once);
                }
                at += if kind == 2 { chance.skewed(25.0, 1.0) } else { chance.skewed(70.0, 1.0) };
            }
            kept.push((kind, text));
            at += chance.wait(3600.0);
        }
    }
    trace.finish()
}

/// One hour of many conversations with a server: 12,031 prompts.
pub(super) fn conversation(seed: u64) -> Trace {
    const SPAN: f64 = 3537.0;
    let mut trace = Trace::new(512);
    let chance = &mut RandomSource(Random::from_name(seed, "conversation"));
    let mut system = Text::default();
    system.grow(&mut trace, 512);
    while trace.requests.len() < 12_031 {
        let mut text = system.clone();
        let mut at = chance.between(-0.15, 1.0) * SPAN;
        let mut tokens = chance.skewed(4700.0, 1.0);
        // The number of turns varies.
        let talkative = 0.8 * chance.unit();
        loop {
            text.grow(&mut trace, tokens as u64 + 100);
            if (0.0..SPAN).contains(&at) {
                trace.ask(at, &text);
            }
            if !chance.happens(talkative) || text.tokens > 120_000 {
                break;
            }
            at += 10.0 + chance.wait(170.0);
            tokens = chance.skewed(3000.0, 1.2);
        }
    }
    trace.finish()
}

/// Many questions about documents: 3,993 prompts, several per document.
pub(super) fn documents(seed: u64) -> Trace {
    const SPAN: f64 = 1200.0;
    let mut trace = Trace::new(512);
    let chance = &mut RandomSource(Random::from_name(seed, "documents"));
    while trace.requests.len() < 3993 {
        let mut text = Text::default();
        let tokens = chance.skewed(9000.0, 0.8);
        text.grow(&mut trace, tokens as u64);
        let mut at = chance.between(-0.2, 1.0) * SPAN;
        let pace = chance.skewed(90.0, 1.0);
        loop {
            let mut asked = text.clone();
            let tokens = chance.tokens(100, 2000);
            asked.grow(&mut trace, tokens);
            if (0.0..SPAN).contains(&at) {
                trace.ask(at, &asked);
            }
            if !chance.happens(0.8) {
                break;
            }
            at += chance.wait(pace);
        }
    }
    trace.finish()
}

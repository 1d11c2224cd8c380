//! The conversations of a simulation. All lengths are in blocks of 512 bytes, about 128 tokens.

/// A deterministic source of numbers (SplitMix64).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(&mut self, (least, most): (u64, u64)) -> u64 {
        least + self.next() % (most - least + 1)
    }

    /// An exponentially distributed number.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// Scrambles a number, so that different inputs give different block hashes.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Distribution of conversations, and the cluster that serves them.
#[derive(Debug, Clone)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) conversations: usize,
    pub(crate) servers: usize,
    /// Blocks in the KV cache of a server.
    pub(crate) cache_blocks: usize,
    /// Blocks that a server prefills per second.
    pub(crate) prefill_blocks_per_s: f64,
    /// Blocks of one answer that a server decodes per second while it has no other.
    pub(crate) decode_blocks_per_s: f64,
    /// New conversations per second.
    pub(crate) arrivals_per_s: f64,
    /// Mean pause of a user before the next turn.
    pub(crate) pause_s: f64,
    mean_turns: f64,
    /// Number of shared beginnings (system prompt and tools); their popularity follows Zipf's law.
    beginnings: u64,
    beginning: (u64, u64),
    question: (u64, u64),
    answer: (u64, u64),
}

impl Workload {
    /// Chats of people: several assistants, short questions, long pauses.
    pub(crate) fn chats(conversations: usize) -> Self {
        Self {
            name: "chats",
            conversations,
            servers: 64,
            cache_blocks: 4_000,
            prefill_blocks_per_s: 40.0,
            decode_blocks_per_s: 0.5,
            arrivals_per_s: 20.0,
            pause_s: 60.0,
            mean_turns: 5.0,
            beginnings: 60,
            beginning: (2, 24),
            question: (1, 4),
            answer: (1, 4),
        }
    }

    /// Agents: few kinds with long tool descriptions, many turns, short answers and short pauses.
    pub(crate) fn agents(conversations: usize) -> Self {
        Self {
            name: "agents",
            cache_blocks: 6_000,
            arrivals_per_s: 8.0,
            pause_s: 2.0,
            mean_turns: 15.0,
            beginnings: 12,
            beginning: (40, 120),
            question: (1, 12),
            answer: (1, 1),
            ..Self::chats(conversations)
        }
    }
}

/// A conversation in progress.
pub(crate) struct Conversation {
    pub(crate) id: u64,
    /// Hashes of all blocks so far.
    pub(crate) blocks: Vec<u64>,
    /// Turns that are left, with the next one.
    pub(crate) turns: u32,
    /// Blocks of the answer to the next question.
    pub(crate) answer: u64,
    numbers: Numbers,
}

impl Conversation {
    /// A conversation before its first question.
    pub(crate) fn new(workload: &Workload, id: u64) -> Self {
        let mut numbers = Numbers::new(mix(id ^ 0xC0FF_EE00));
        // With Zipf's law over n beginnings, ranks are about n^u for a uniform u.
        let rank = (workload.beginnings as f64).powf(numbers.unit()) as u64;
        let length = Numbers::new(mix(rank)).between(workload.beginning);
        let blocks = (0..length).map(|at| mix((rank << 32) | at)).collect();
        let mut turns = 1;
        while turns < 100 && numbers.unit() > 1.0 / workload.mean_turns {
            turns += 1;
        }
        Self { id, blocks, turns, answer: 0, numbers }
    }

    /// Adds the next question.
    pub(crate) fn ask(&mut self, workload: &Workload) {
        let length = self.numbers.between(workload.question);
        self.add(length);
        self.answer = self.numbers.between(workload.answer);
        self.turns -= 1;
    }

    /// Adds the answer.
    pub(crate) fn add_answer(&mut self) {
        self.add(self.answer);
    }

    /// The pause before the next turn.
    pub(crate) fn pause(&mut self, workload: &Workload) -> f64 {
        self.numbers.exponential(workload.pause_s)
    }

    fn add(&mut self, length: u64) {
        for _ in 0..length {
            let at = self.blocks.len() as u64;
            self.blocks.push(mix(mix(self.id.wrapping_add(1) << 20) ^ at));
        }
    }
}

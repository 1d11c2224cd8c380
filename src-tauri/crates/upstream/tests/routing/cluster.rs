//! Servers, policies and the clock of a simulation.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use cairn_upstream::Prefix;
use cairn_upstream::affinity::{Affinity, SERVER_BLOCKS};
use cairn_upstream::route::{Candidate, choose_weighted};

use crate::workload::{Conversation, Numbers, Workload, mix};

/// Answers that a server decodes without slowing down.
const BATCH: f64 = 16.0;
/// How much more load than the mean a server may have before consistent hashing takes the next one.
const BOUND: f64 = 1.25;

/// How a server is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Any server.
    Random,
    /// The server with the fewest open requests.
    LeastOutstanding,
    /// Hash of the conversation, with bounded loads.
    ConsistentHashing,
    /// Cairn's choice, with this weight of open requests. It sees its own requests only, not the caches.
    Cairn(usize),
    /// The server that really caches most of the conversation.
    Oracle,
    /// As least outstanding; hits are those of one cache without limit that all servers share.
    Endless,
}

/// What a run measured.
#[derive(Debug, Default)]
pub(crate) struct Report {
    blocks: u64,
    hits: u64,
    ttft_ms: Vec<f64>,
    pub(crate) max_outstanding: usize,
}

impl Report {
    /// Share of the blocks of all prompts that were cached.
    pub(crate) fn hit_share(&self) -> f64 {
        self.hits as f64 / self.blocks as f64
    }

    pub(crate) fn mean_ttft_ms(&self) -> f64 {
        self.ttft_ms.iter().sum::<f64>() / self.ttft_ms.len() as f64
    }

    pub(crate) fn p99_ttft_ms(&self) -> f64 {
        let mut sorted = self.ttft_ms.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() * 99 / 100]
    }
}

struct Server {
    /// The real cache.
    cache: Affinity,
    /// What Cairn believes of it.
    believed: Affinity,
    outstanding: usize,
    /// When the last prefill ends.
    prefilled_at: f64,
}

/// What happens at a time, in microseconds.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A conversation asks its next question.
    Ask(usize),
    /// The answer of a conversation at a server is complete.
    Complete(usize, usize),
}

/// Runs all conversations of a workload.
pub(crate) fn simulate(workload: &Workload, policy: Policy) -> Report {
    let server = |_| Server {
        cache: Affinity::new(workload.cache_blocks),
        believed: Affinity::new(SERVER_BLOCKS),
        outstanding: 0,
        prefilled_at: 0.0,
    };
    let mut servers: Vec<Server> = (0..workload.servers).map(server).collect();
    let mut numbers = Numbers::new(7);
    let mut conversations: Vec<Option<Conversation>> = Vec::new();
    let mut events: BinaryHeap<Reverse<(u64, Event)>> = BinaryHeap::new();
    let mut endless: HashSet<u64> = HashSet::new();
    let mut report = Report::default();
    let mut begins_at = 0.0;
    for id in 0..workload.conversations {
        begins_at += numbers.exponential(1.0 / workload.arrivals_per_s);
        conversations.push(Some(Conversation::new(workload, id as u64)));
        events.push(Reverse((micros(begins_at), Event::Ask(id))));
    }
    while let Some(Reverse((now_us, event))) = events.pop() {
        let now = now_us as f64 / 1e6;
        match event {
            Event::Ask(id) => {
                let Some(conversation) = &mut conversations[id] else { continue };
                conversation.ask(workload);
                let prefix = Prefix::of_hashes(conversation.blocks.clone());
                let at = choose(policy, &servers, &prefix, conversation.id, &mut numbers);
                let server = &mut servers[at];
                let hits = match policy {
                    Policy::Endless => prefix.blocks().iter().take_while(|block| endless.contains(block)).count(),
                    _ => server.cache.matching(&prefix),
                };
                if policy == Policy::Endless {
                    endless.extend(prefix.blocks());
                }
                server.cache.record(&prefix);
                server.believed.record(&prefix);
                server.outstanding += 1;
                report.max_outstanding = report.max_outstanding.max(server.outstanding);
                report.blocks += prefix.blocks().len() as u64;
                report.hits += hits as u64;
                let prefill_s = (prefix.blocks().len() - hits) as f64 / workload.prefill_blocks_per_s;
                server.prefilled_at = server.prefilled_at.max(now) + prefill_s;
                report.ttft_ms.push(1e3 * (server.prefilled_at - now));
                let slowdown = (server.outstanding as f64 / BATCH).max(1.0);
                let decode_s = conversation.answer as f64 / workload.decode_blocks_per_s * slowdown;
                events.push(Reverse((micros(server.prefilled_at + decode_s), Event::Complete(id, at))));
            }
            Event::Complete(id, at) => {
                let server = &mut servers[at];
                server.outstanding -= 1;
                let Some(conversation) = &mut conversations[id] else { continue };
                conversation.add_answer();
                // The rows of the answer are in the cache, too. Cairn does not count on them.
                let whole = Prefix::of_hashes(conversation.blocks.clone());
                server.cache.record(&whole);
                if policy == Policy::Endless {
                    endless.extend(whole.blocks());
                }
                if conversation.turns == 0 {
                    conversations[id] = None;
                    continue;
                }
                let pause = conversation.pause(workload);
                events.push(Reverse((micros(now + pause), Event::Ask(id))));
            }
        }
    }
    report
}

fn micros(seconds: f64) -> u64 {
    (seconds * 1e6) as u64
}

fn choose(policy: Policy, servers: &[Server], prefix: &Prefix, id: u64, numbers: &mut Numbers) -> usize {
    let least = |key: &dyn Fn(&Server) -> (usize, usize)| {
        (0..servers.len()).min_by_key(|at| key(&servers[*at])).expect("there are servers")
    };
    match policy {
        Policy::Random => (numbers.next() % servers.len() as u64) as usize,
        // Of equal servers any one, or the first would get all conversations of an idle cluster.
        Policy::LeastOutstanding | Policy::Endless => {
            let salt = numbers.next();
            let key = |at: &usize| (servers[*at].outstanding, mix(salt ^ *at as u64));
            (0..servers.len()).min_by_key(key).expect("there are servers")
        }
        Policy::ConsistentHashing => {
            let open: usize = servers.iter().map(|server| server.outstanding).sum();
            let limit = (BOUND * (open + 1) as f64 / servers.len() as f64).ceil() as usize;
            let start = (mix(id) % servers.len() as u64) as usize;
            let ring = (0..servers.len()).map(|step| (start + step) % servers.len());
            ring.into_iter().find(|at| servers[*at].outstanding < limit).unwrap_or(start)
        }
        Policy::Cairn(weight) => {
            let candidate = |server: &Server| Candidate {
                is_up: true,
                outstanding: server.outstanding,
                matching: server.believed.matching(prefix),
                blocks: server.believed.blocks(),
            };
            let candidates: Vec<Candidate> = servers.iter().map(candidate).collect();
            choose_weighted(prefix.blocks().len(), &candidates, weight).expect("there are servers")
        }
        Policy::Oracle => least(&|server| (prefix.blocks().len() - server.cache.matching(prefix), server.outstanding)),
    }
}

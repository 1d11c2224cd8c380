//! Metrics of remotes, by the remote's name.

use std::sync::Arc;

use cairn_upstream::{Counts, Health, Upstream};

use super::metric_family::{Family, FamilyKind, Sample};

/// Name, description and value of a counter per remote.
type Counter = (&'static str, &'static str, fn(&Counts) -> u64);

const COUNTERS: &[Counter] = &[
    ("cairn_remote_requests_total", "Requests that were sent to a remote.", |counts| counts.requests),
    ("cairn_remote_answers_total", "Complete answers of a remote.", |counts| counts.complete),
    ("cairn_remote_failures_total", "Requests that failed because of a remote.", |counts| counts.failed),
    (
        "cairn_remote_retries_total",
        "Requests that failed before the first token and were sent to another remote.",
        |counts| counts.retried,
    ),
    ("cairn_remote_cancellations_total", "Requests to a remote that the client cancelled.", |counts| counts.cancelled),
    ("cairn_remote_prompt_tokens_total", "Prompt tokens of complete answers of a remote.", |counts| {
        counts.prompt_tokens
    }),
    ("cairn_remote_cached_tokens_total", "Prompt tokens that a remote reported as cached.", |counts| {
        counts.cached_tokens
    }),
    ("cairn_remote_answer_tokens_total", "Answer tokens of a remote.", |counts| counts.answer_tokens),
    (
        "cairn_remote_prefix_blocks_total",
        "Blocks of 512 bytes of the conversations that were sent to a remote.",
        |counts| counts.blocks,
    ),
    ("cairn_remote_prefix_hit_blocks_total", "Those blocks that were sent to the same remote before.", |counts| {
        counts.matching_blocks
    }),
    (
        "cairn_remote_circuit_openings_total",
        "Times that a remote failed repeatedly and got no requests for a while.",
        |counts| counts.circuit_openings,
    ),
];

/// Metrics of all remotes.
pub(super) fn of_remotes(upstreams: &[Arc<Upstream>]) -> Vec<Family> {
    let label = |upstream: &Upstream| vec![("remote", upstream.name().to_owned())];
    let counters = COUNTERS.iter().map(|&(name, about, value)| {
        let samples = upstreams.iter().map(|upstream| Sample::of(label(upstream), value(&upstream.counts()) as f64));
        Family { name, about, kind: FamilyKind::Counter, samples: samples.collect() }
    });
    let gauge = |name, about, value: &dyn Fn(&Upstream) -> f64| {
        let samples = upstreams.iter().map(|upstream| Sample::of(label(upstream), value(upstream)));
        Family { name, about, kind: FamilyKind::Gauge, samples: samples.collect() }
    };
    let is_up =
        |upstream: &Upstream| f64::from(u8::from(upstream.health() == Health::Up && !upstream.is_circuit_open()));
    let mut families: Vec<Family> = counters.collect();
    families.push(gauge("cairn_remote_up", "Whether a remote gets requests (1) or not (0).", &is_up));
    families.push(gauge("cairn_remote_outstanding", "Requests that a remote has not completed.", &|upstream| {
        upstream.outstanding() as f64
    }));
    families
}

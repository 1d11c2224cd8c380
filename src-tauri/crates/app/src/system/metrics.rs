//! Metrics for monitoring systems.
//!
//! Names and meanings are a stable interface. Counters only grow until the daemon stops; other values are gauges.

use cairn_runtime::{HISTOGRAM_BOUNDS, Histogram, ModelMetrics, RecomputeReason};
use cairn_tier::TierKind;
use cairn_tier::tiers::{Health, RemovalReason, Status, TierStatus};

use super::handle::SystemInfo;
use super::metric_family::{Family, FamilyKind, Sample};
use super::remote_metrics::of_remotes;

impl SystemInfo {
    /// Returns all metrics: those of the queues, those of the cache if there are tiers, and those of remotes if there are any.
    #[must_use]
    pub fn metrics(&self) -> Vec<Family> {
        let usage = self.engine.metrics();
        let named = usage.iter().map(|(key, usage)| {
            let name = self.library.by_engine_key(key).map(|summary| summary.name);
            (name.unwrap_or_else(|| key.clone()), *usage)
        });
        let named: Vec<_> = named.collect();
        let mut families = of_work(&named);
        if let Some(status) = self.cache.tier_status(&usage) {
            families.extend(of_models(&named));
            families.extend(of_tiers(&status));
        }
        families.extend(of_remotes(&self.remotes.upstreams()));
        families
    }
}

/// Name, description and value of a metric per model.
type ModelMetric = (&'static str, &'static str, fn(&ModelMetrics) -> f64);

const MODEL_METRICS: &[ModelMetric] = &[
    ("kvtier_lookup_tokens_total", "Tokens of prompts.", |usage| usage.lookup_tokens as f64),
    ("kvtier_page_tokens_total", "Tokens of prompts whose state the loaded model had.", |usage| {
        usage.page_tokens as f64
    }),
    ("kvtier_restore_saved_seconds_total", "Estimated time that restores saved.", |usage| usage.saved.as_secs_f64()),
];

const WORK_METRICS: &[ModelMetric] = &[
    ("cairn_unread_pauses_total", "Answers that made room for others because their client did not read.", |usage| {
        usage.unread_pauses as f64
    }),
    ("cairn_encoder_inputs_total", "Inputs that the encoders beside decoders have computed.", |usage| {
        usage.inputs as f64
    }),
    ("cairn_pictures_total", "Pictures that vision towers have encoded.", |usage| usage.pictures as f64),
    ("cairn_picture_parts_total", "Parts of pictures, each computed between two steps.", |usage| {
        usage.picture_parts as f64
    }),
];

/// Metrics of the work of all models.
fn of_work(usage: &[(String, ModelMetrics)]) -> Vec<Family> {
    let mut families = of_table(WORK_METRICS, usage);
    families.push(Family {
        name: "cairn_queue_wait_seconds",
        about: "Time from the acceptance of a request to its first step.",
        kind: FamilyKind::Histogram,
        samples: histogram(&[], &sum(usage, |usage| usage.queue_waits)),
    });
    families
}

/// Counters with a value for each model.
fn of_table(metrics: &[ModelMetric], usage: &[(String, ModelMetrics)]) -> Vec<Family> {
    let family = |&(name, about, value): &ModelMetric| {
        let samples = usage.iter().map(|(model, usage)| Sample::of(vec![("model", model.clone())], value(usage)));
        Family { name, about, kind: FamilyKind::Counter, samples: samples.collect() }
    };
    metrics.iter().map(family).collect()
}

/// Adds up a histogram of all models.
fn sum(usage: &[(String, ModelMetrics)], part: impl Fn(&ModelMetrics) -> Histogram) -> Histogram {
    usage.iter().fold(Histogram::default(), |mut sum, (_, usage)| {
        let more = part(usage);
        sum.counts.iter_mut().zip(more.counts).for_each(|(sum, more)| *sum += more);
        sum.sum += more.sum;
        sum
    })
}

/// Metrics per model, and histograms over all models.
fn of_models(usage: &[(String, ModelMetrics)]) -> Vec<Family> {
    let model = |name: &str| ("model", name.to_owned());
    let mut families = of_table(MODEL_METRICS, usage);
    let recomputed = usage.iter().flat_map(|(named, usage)| {
        RecomputeReason::ALL.map(|why| {
            let labels = vec![model(named), ("reason", why.name().to_owned())];
            Sample::of(labels, usage.recomputed.tokens(why) as f64)
        })
    });
    families.push(Family {
        name: "kvtier_recomputed_tokens_total",
        about: "Tokens that were computed again, by reason.",
        kind: FamilyKind::Counter,
        samples: recomputed.collect(),
    });
    let restores = [TierKind::Ram, TierKind::Ssd, TierKind::Remote]
        .into_iter()
        .flat_map(|kind| histogram(&[tier(kind)], &sum(usage, |usage| usage.restores[kind as usize])));
    families.push(Family {
        name: "kvtier_restore_seconds",
        about: "Duration of restores, by the slowest tier used.",
        kind: FamilyKind::Histogram,
        samples: restores.collect(),
    });
    families.push(Family {
        name: "kvtier_capture_stall_seconds",
        about: "Time that running answers waited for copies to the tiers.",
        kind: FamilyKind::Histogram,
        samples: histogram(&[], &sum(usage, |usage| usage.stalls)),
    });
    families
}

fn histogram(labels: &[(&'static str, String)], of: &Histogram) -> Vec<Sample> {
    let bounds = HISTOGRAM_BOUNDS.iter().map(|bound| bound.as_secs_f64().to_string()).chain(["+Inf".to_owned()]);
    let mut so_far = 0;
    let buckets = bounds.zip(of.counts).map(|(bound, count)| {
        so_far += count;
        let labels = labels.iter().cloned().chain([("le", bound)]).collect();
        Sample { suffix: "_bucket", labels, value: so_far as f64 }
    });
    let mut samples: Vec<Sample> = buckets.collect();
    samples.push(Sample { suffix: "_sum", labels: labels.to_vec(), value: of.sum.as_secs_f64() });
    samples.push(Sample { suffix: "_count", labels: labels.to_vec(), value: so_far as f64 });
    samples
}

impl Sample {
    pub(super) fn of(labels: Vec<(&'static str, String)>, value: f64) -> Self {
        Self { suffix: "", labels, value }
    }
}

/// Name, description, type and value of a metric per tier.
type TierMetric = (&'static str, &'static str, FamilyKind, fn(&TierStatus) -> Option<f64>);

const TIER_METRICS: &[TierMetric] = &[
    ("kvtier_hit_tokens_total", "Tokens whose state came from a tier.", FamilyKind::Counter, |status| {
        Some(status.counters.hit_tokens as f64)
    }),
    ("kvtier_restore_bytes_total", "Bytes of state that came from a tier.", FamilyKind::Counter, |status| {
        Some(status.counters.restored_bytes as f64)
    }),
    ("kvtier_store_bytes_total", "Bytes that were written to a tier.", FamilyKind::Counter, |status| {
        Some(status.counters.stored_bytes as f64)
    }),
    ("kvtier_failed_calls_total", "Calls to a tier that failed.", FamilyKind::Counter, |status| {
        Some(status.counters.failed as f64)
    }),
    ("kvtier_store_queue_bytes", "Bytes that wait to be written to a tier.", FamilyKind::Gauge, |status| {
        (status.kind != TierKind::Ram).then_some(status.queued_bytes as f64)
    }),
    ("kvtier_used_bytes", "Bytes in a tier.", FamilyKind::Gauge, |status| Some(status.used_bytes as f64)),
    ("kvtier_budget_bytes", "Budget of a tier in bytes.", FamilyKind::Gauge, |status| Some(status.budget_bytes as f64)),
    ("kvtier_chunks", "Chunks in a tier.", FamilyKind::Gauge, |status| Some(status.chunks as f64)),
    ("kvtier_tier_up", "Whether a tier is read and written (1) or not (0).", FamilyKind::Gauge, |status| {
        Some(f64::from(u8::from(matches!(status.health, Health::Up | Health::Scanning))))
    }),
    ("kvtier_bandwidth_bytes_per_second", "Recent read bandwidth of a tier.", FamilyKind::Gauge, |status| {
        status.counters.read_bytes_per_s
    }),
];

const REASONS: [(RemovalReason, &str); 6] = [
    (RemovalReason::Evicted, "evicted"),
    (RemovalReason::Expired, "expired"),
    (RemovalReason::Deleted, "deleted"),
    (RemovalReason::Replaced, "replaced"),
    (RemovalReason::Damaged, "damaged"),
    (RemovalReason::Lost, "lost"),
];

fn tier(kind: TierKind) -> (&'static str, String) {
    ("tier", kind.to_string().to_lowercase())
}

/// Metrics per tier.
fn of_tiers(status: &Status) -> Vec<Family> {
    let per_tier = TIER_METRICS.iter().map(|&(name, about, kind, value)| {
        let sample = |status: &TierStatus| Some(Sample::of(vec![tier(status.kind)], value(status)?));
        Family { name, about, kind, samples: status.tiers.iter().filter_map(sample).collect() }
    });
    let mut families: Vec<Family> = per_tier.collect();
    let mut counts = |name, about, samples: Vec<(Vec<(&'static str, String)>, u64)>| {
        let samples = samples.into_iter().map(|(labels, count)| Sample::of(labels, count as f64));
        families.push(Family { name, about, kind: FamilyKind::Counter, samples: samples.collect() });
    };
    let by = |label: &'static str, word: &str| (label, word.to_owned());
    let evicted = status.tiers.iter().flat_map(|status| {
        REASONS.map(|(why, word)| {
            (vec![tier(status.kind), by("reason", word)], status.counters.removed_bytes[why as usize])
        })
    });
    counts("kvtier_evicted_bytes_total", "Bytes that left a tier, by reason.", evicted.collect());
    let corrupt = status.tiers.iter().flat_map(|status| {
        [("damaged", status.counters.damaged), ("lost", status.counters.lost)]
            .map(|(kind, count)| (vec![tier(status.kind), by("kind", kind)], count))
    });
    counts("kvtier_corrupt_total", "Damaged or missing chunks, by kind.", corrupt.collect());
    let dropped = &status.dropped;
    let dropped = [
        ("queue_full", dropped.queue_full),
        ("no_room", dropped.no_room),
        ("daily_cap", dropped.daily_cap),
        ("orphaned", dropped.orphaned),
        ("failed", dropped.failed),
    ];
    let dropped = dropped.map(|(reason, count)| (vec![by("reason", reason)], count));
    counts("kvtier_store_dropped_total", "Chunks that were not written to a lower tier, by reason.", dropped.into());
    let ends = [
        ("complete", status.restores.complete),
        ("missed", status.restores.missed),
        ("deadline", status.restores.deadline),
    ];
    let ends = ends.map(|(end, count)| (vec![by("end", end)], count));
    counts("kvtier_restores_total", "Restores, by outcome.", ends.into());
    counts("kvtier_store_refused_total", "Chunks that RAM had no room for.", vec![(Vec::new(), status.rejected)]);
    if let Some(ssd) = status.tiers.iter().find(|status| status.kind == TierKind::Ssd) {
        families.push(Family {
            name: "kvtier_ssd_written_bytes_today",
            about: "Bytes that were written to the folder today (UTC).",
            kind: FamilyKind::Gauge,
            samples: vec![Sample::of(Vec::new(), ssd.written_today_bytes as f64)],
        });
    }
    families
}

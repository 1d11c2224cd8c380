//! What a monitoring system reads of this daemon, as numbers with names.
//!
//! Names and their meanings are part of the interface: what was counted once keeps its name. Counters only grow, until the daemon
//! ends; what rises and falls is a gauge.

use cairn_tier::Place;
use cairn_tier::tiers::{Gone, Health, PlaceStatus, Status};

use crate::App;

/// All numbers of one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// The name.
    pub name: &'static str,
    /// What the numbers are.
    pub about: &'static str,
    /// How they behave.
    pub kind: FamilyKind,
    /// The numbers.
    pub samples: Vec<Sample>,
}

/// How numbers behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FamilyKind {
    /// They only grow.
    Counter,
    /// They rise and fall.
    Gauge,
}

/// A number.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// What it is the number of.
    pub labels: Vec<(&'static str, String)>,
    /// The number.
    pub value: f64,
}

impl App {
    /// All numbers now, sorted by what they are about; none where no prefixes are kept.
    #[must_use]
    pub fn metrics(&self) -> Vec<Family> {
        self.kept.as_ref().map(|kept| families(&kept.tiers.status())).unwrap_or_default()
    }
}

/// What is counted of one place.
type OfPlace = (&'static str, &'static str, FamilyKind, fn(&PlaceStatus) -> Option<f64>);

const OF_PLACES: &[OfPlace] = &[
    ("kvtier_hit_tokens_total", "Tokens whose state came from a tier.", FamilyKind::Counter, |place| {
        Some(place.flow.hit_tokens as f64)
    }),
    ("kvtier_restore_bytes_total", "Bytes of state that came from a tier.", FamilyKind::Counter, |place| {
        Some(place.flow.restored_bytes as f64)
    }),
    ("kvtier_store_bytes_total", "Bytes that were put into a tier.", FamilyKind::Counter, |place| {
        Some(place.flow.stored_bytes as f64)
    }),
    ("kvtier_failed_calls_total", "Calls to a tier that failed.", FamilyKind::Counter, |place| {
        Some(place.flow.failed as f64)
    }),
    ("kvtier_store_queue_bytes", "Bytes that wait to be written to a tier.", FamilyKind::Gauge, |place| {
        (place.place != Place::Ram).then_some(place.queued_bytes as f64)
    }),
    ("kvtier_used_bytes", "Bytes that a tier holds.", FamilyKind::Gauge, |place| Some(place.used_bytes as f64)),
    ("kvtier_budget_bytes", "Bytes that a tier may hold.", FamilyKind::Gauge, |place| Some(place.budget_bytes as f64)),
    ("kvtier_chunks", "Chunks in a tier.", FamilyKind::Gauge, |place| Some(place.chunks as f64)),
    ("kvtier_tier_up", "Whether a tier is read and written (1) or not (0).", FamilyKind::Gauge, |place| {
        Some(f64::from(u8::from(matches!(place.health, Health::Up | Health::Scanning))))
    }),
    ("kvtier_bandwidth_bytes_per_second", "What reads from a tier gave lately.", FamilyKind::Gauge, |place| {
        place.flow.read_bytes_per_s
    }),
];

const REASONS: [(Gone, &str); 6] = [
    (Gone::Evicted, "evicted"),
    (Gone::Expired, "expired"),
    (Gone::Deleted, "deleted"),
    (Gone::Replaced, "replaced"),
    (Gone::Damaged, "damaged"),
    (Gone::Lost, "lost"),
];

fn tier(place: Place) -> (&'static str, String) {
    ("tier", place.to_string().to_lowercase())
}

fn families(status: &Status) -> Vec<Family> {
    let of_places = OF_PLACES.iter().map(|&(name, about, kind, value)| {
        let sample = |place: &PlaceStatus| Some(Sample { labels: vec![tier(place.place)], value: value(place)? });
        Family { name, about, kind, samples: status.places.iter().filter_map(sample).collect() }
    });
    let mut families: Vec<Family> = of_places.collect();
    let mut counts = |name, about, samples: Vec<(Vec<(&'static str, String)>, u64)>| {
        let samples = samples.into_iter().map(|(labels, count)| Sample { labels, value: count as f64 });
        families.push(Family { name, about, kind: FamilyKind::Counter, samples: samples.collect() });
    };
    let by = |label: &'static str, word: &str| (label, word.to_owned());
    let evicted = status.places.iter().flat_map(|place| {
        REASONS.map(|(why, word)| (vec![tier(place.place), by("reason", word)], place.flow.gone_bytes[why as usize]))
    });
    counts("kvtier_evicted_bytes_total", "Bytes that left a tier, by reason.", evicted.collect());
    let corrupt = status.places.iter().flat_map(|place| {
        [("damaged", place.flow.damaged), ("lost", place.flow.lost)]
            .map(|(kind, count)| (vec![tier(place.place), by("kind", kind)], count))
    });
    counts("kvtier_corrupt_total", "Chunks that were not what they should be, or not there.", corrupt.collect());
    let dropped = &status.dropped;
    let dropped = [
        ("queue_full", dropped.queue_full),
        ("no_room", dropped.no_room),
        ("daily_cap", dropped.daily_cap),
        ("orphaned", dropped.orphaned),
        ("failed", dropped.failed),
    ];
    let dropped = dropped.map(|(reason, count)| (vec![by("reason", reason)], count));
    counts("kvtier_store_dropped_total", "Chunks that were to be written below RAM and were not.", dropped.into());
    let ends = [("complete", status.ends.complete), ("missed", status.ends.missed), ("deadline", status.ends.deadline)];
    let ends = ends.map(|(end, count)| (vec![by("end", end)], count));
    counts("kvtier_restores_total", "Restores, by how they ended.", ends.into());
    counts("kvtier_store_refused_total", "Chunks that RAM had no room for.", vec![(Vec::new(), status.refused)]);
    if let Some(ssd) = status.places.iter().find(|place| place.place == Place::Ssd) {
        families.push(Family {
            name: "kvtier_ssd_written_bytes_today",
            about: "Bytes that were written to the folder today (UTC).",
            kind: FamilyKind::Gauge,
            samples: vec![Sample { labels: Vec::new(), value: ssd.written_today_bytes as f64 }],
        });
    }
    families
}

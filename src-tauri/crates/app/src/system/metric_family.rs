//! Metrics in the data model of monitoring systems (OpenMetrics 1.0).

/// All samples of one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// The name.
    pub name: &'static str,
    /// Description.
    pub about: &'static str,
    /// Type of the metric.
    pub kind: FamilyKind,
    /// The samples.
    pub samples: Vec<Sample>,
}

/// Type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FamilyKind {
    /// A value that only grows.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// A histogram of durations: samples with the suffixes `_bucket`, `_sum` and `_count`.
    Histogram,
}

/// One value of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Suffix of the metric's name.
    pub suffix: &'static str,
    /// Labels.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: f64,
}

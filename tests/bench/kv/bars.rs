//! Performance targets, and statistics of ratios that are measured on a shared machine.

use std::fmt::Write as _;

use anyhow::ensure;
use cairn_testkit::Random;

/// A target and its measured value.
pub(crate) struct Bar {
    pub(crate) what: String,
    pub(crate) bar: String,
    pub(crate) figure: String,
    pub(crate) met: bool,
}

impl Bar {
    pub(crate) fn new(what: impl Into<String>, bar: impl Into<String>, figure: impl Into<String>, met: bool) -> Self {
        Self { what: what.into(), bar: bar.into(), figure: figure.into(), met }
    }
}

/// Prints the table and fails if a target is missed.
pub(crate) fn report(bars: &[Bar]) -> anyhow::Result<()> {
    let width = |of: fn(&Bar) -> &str| bars.iter().map(|bar| of(bar).chars().count()).max().unwrap_or(0);
    let (what, bar, figure) = (width(|b| &b.what), width(|b| &b.bar), width(|b| &b.figure));
    let mut table = String::new();
    for row in bars {
        let verdict = if row.met { "met" } else { "MISSED" };
        writeln!(table, "{:what$}   {:bar$}   {:figure$}   {verdict}", row.what, row.bar, row.figure)?;
    }
    print!("\n{table}");
    let missed = bars.iter().filter(|bar| !bar.met).count();
    ensure!(missed == 0, "{missed} of {} bars were missed", bars.len());
    Ok(())
}

/// The quantile of values.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let sorted = crate::sorted(values.iter().copied());
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The 95 % confidence interval of the median (Efron's bootstrap).
pub(crate) fn interval(values: &[f64]) -> (f64, f64) {
    const DRAWS: usize = 4000;
    let mut random = Random::from_name(1, "bootstrap");
    let mut draw =
        || median(&values.iter().map(|_| values[random.below(values.len() as u64) as usize]).collect::<Vec<_>>());
    let medians: Vec<f64> = (0..DRAWS).map(|_| draw()).collect();
    (quantile(&medians, 0.025), quantile(&medians, 0.975))
}

/// The relative difference in percent, with its sign.
pub(crate) fn percent(ratio: f64) -> String {
    format!("{:+.2} %", (ratio - 1.0) * 100.0)
}

//! Bars and whether they are met, and what a shared machine lets one say of ratios.

use std::fmt::Write as _;

use anyhow::ensure;
use cairn_testkit::Random;

/// What must be shown, and what was.
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

/// Prints the table, and fails where a bar is missed.
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

/// The value below which this share of values lie.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let sorted = crate::sorted(values.iter().copied());
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The 95 % interval of the median, by drawing from the values again and again (Efron's bootstrap).
pub(crate) fn interval(values: &[f64]) -> (f64, f64) {
    const DRAWS: usize = 4000;
    let mut random = Random::named(1, "bootstrap");
    let mut draw =
        || median(&values.iter().map(|_| values[random.below(values.len() as u64) as usize]).collect::<Vec<_>>());
    let medians: Vec<f64> = (0..DRAWS).map(|_| draw()).collect();
    (quantile(&medians, 0.025), quantile(&medians, 0.975))
}

/// How much more one is than another, in percent, with its sign.
pub(crate) fn percent(ratio: f64) -> String {
    format!("{:+.2} %", (ratio - 1.0) * 100.0)
}

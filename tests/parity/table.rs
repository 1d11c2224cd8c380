//! The measures of one case, and the line that shows them.

use std::fmt;

use it::cases::Case;
use it::evaluate::likeliest;

/// Ours may be this much worse than llama.cpp against the exact result.
const MAX_RATIO: f64 = 1.1;
/// On F32 weights llama.cpp and the exact result agree to this part of the logits' range.
const MAX_F32_DEVIATION: f64 = 1e-3;
/// A position counts for greedy agreement where the exact lead exceeds this many RMSE of llama.cpp.
const CLEAR_LEAD: f64 = 4.0;
/// At least this share of positions must count.
const MIN_CLEAR: f64 = 0.9;
/// Below this part of the range an error is rounding, and a ratio of two such errors says nothing.
const ROUNDING: f64 = 1e-6;

/// One case.
pub struct Row {
    name: String,
    f32_weights: bool,
    /// Largest difference of llama.cpp, as a part of the logits' range.
    deviation: f64,
    /// RMSE of llama.cpp, as a part of the range.
    theirs: f64,
    /// RMSE of each variant over RMSE of llama.cpp.
    ratios: Vec<f64>,
    /// RMSE of each variant, as a part of the range.
    ours: Vec<f64>,
    clear: usize,
    positions: usize,
    /// Clear positions at which a variant's likeliest token is another than the exact one.
    wrong: usize,
    /// Distinct likeliest tokens: few would mean that the model only echoes.
    distinct: usize,
}

/// Measures both approximations against the exact logits.
pub fn measure(case: &Case, vocabulary: usize, exact: &[f32], theirs: &[f32], ours: &[Vec<f32>]) -> Row {
    let (low, high) = exact.iter().fold((f32::MAX, f32::MIN), |(low, high), &x| (low.min(x), high.max(x)));
    let range = f64::from(high - low);
    let their_rmse = rmse(exact, theirs);
    let deviation = exact.iter().zip(theirs).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max) / range;
    let (mut clear, mut wrong) = (0, 0);
    let mut distinct = std::collections::BTreeSet::new();
    let positions = exact.len() / vocabulary;
    for (at, row) in exact.chunks_exact(vocabulary).enumerate() {
        let (token, lead) = likeliest(row);
        distinct.insert(token);
        if f64::from(lead) > CLEAR_LEAD * their_rmse {
            clear += 1;
            let part = at * vocabulary..(at + 1) * vocabulary;
            wrong += ours.iter().filter(|logits| likeliest(&logits[part.clone()]).0 != token).count();
        }
    }
    let ours: Vec<f64> = ours.iter().map(|logits| rmse(exact, logits)).collect();
    let floor = ROUNDING * range;
    Row {
        name: case.name.clone(),
        f32_weights: case.name.contains("F32"),
        deviation,
        theirs: their_rmse / range,
        ratios: ours.iter().map(|rmse| rmse.max(floor) / their_rmse.max(floor)).collect(),
        ours: ours.iter().map(|rmse| rmse / range).collect(),
        clear,
        positions,
        wrong,
        distinct: distinct.len(),
    }
}

fn rmse(exact: &[f32], other: &[f32]) -> f64 {
    let sum: f64 = exact.iter().zip(other).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    (sum / exact.len() as f64).sqrt()
}

/// The table's first two lines.
pub fn head<'a>(variants: impl Iterator<Item = &'a str>) -> String {
    let variants: Vec<_> = variants.map(|name| format!("{name} (ratio)")).collect();
    let rule = "|---".repeat(6 + variants.len());
    format!(
        "| case | llama.cpp max | llama.cpp RMSE | {} | clear | wrong | distinct |\n{rule}|",
        variants.join(" | ")
    )
}

impl Row {
    /// Whether the case is as it should be.
    pub fn holds(&self) -> bool {
        let clear = self.clear as f64 >= MIN_CLEAR * self.positions as f64;
        let f32_agrees = !self.f32_weights || self.deviation <= MAX_F32_DEVIATION;
        clear && f32_agrees && self.wrong == 0 && self.ratios.iter().all(|&ratio| ratio <= MAX_RATIO)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {} | {:.1e} | {:.2e} |", self.name, self.deviation, self.theirs)?;
        for (rmse, ratio) in self.ours.iter().zip(&self.ratios) {
            write!(f, " {rmse:.2e} ({ratio:.3}) |")?;
        }
        let Self { clear, positions, wrong, distinct, .. } = self;
        write!(f, " {:.1} % | {wrong} | {distinct} |", 100.0 * *clear as f64 / *positions as f64)?;
        if self.holds() { Ok(()) } else { write!(f, " FAILS") }
    }
}

//! Error measures of a case, and the result table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cairn_gguf::DType;
use cairn_testkit::embedding::successor;
use it::cases::Case;
use it::evaluate::likeliest;

/// Largest allowed ratio of our error to that of llama.cpp.
const MAX_RATIO: f64 = 1.1;
/// On F32 weights llama.cpp and the exact result agree to this part of the logits' range.
const MAX_F32_DEVIATION: f64 = 1e-3;
/// A position is clear, and counts for greedy agreement, if the exact lead exceeds this many times the RMSE of
/// llama.cpp.
const CLEAR_LEAD: f64 = 4.0;
/// Minimum share of positions that must be clear.
const MIN_CLEAR: f64 = 0.9;
/// Errors below this part of the range are rounding; their ratio is meaningless.
const ROUNDING: f64 = 1e-6;

/// One case.
pub(crate) struct Row {
    name: String,
    /// Largest difference of llama.cpp as a part of the logits' range; on F32 weights with keys and values in F32 too.
    deviation: f64,
    f32_weights: bool,
    /// RMSE of llama.cpp, as a part of the range.
    theirs: f64,
    /// RMSE of each variant over RMSE of llama.cpp.
    ratios: Vec<f64>,
    /// RMSE of each variant, as a part of the range.
    ours: Vec<f64>,
    clear: usize,
    positions: usize,
    /// Number of clear positions at which the most likely token of a variant differs from the exact one.
    wrong: usize,
    /// Number of clear positions at which the most likely token of llama.cpp differs from the exact one.
    their_wrong: usize,
    /// Number of positions at which the most likely token depends on more than the last token.
    context: usize,
    /// Number of distinct most likely tokens. A small number would mean that the model repeats itself.
    distinct: usize,
}

/// Logits for all positions of a case: `[positions, vocabulary]` each.
pub(crate) struct Logits {
    pub(crate) vocabulary: usize,
    /// By `Reference`.
    pub(crate) exact: Vec<f32>,
    /// By llama.cpp with default options.
    pub(crate) theirs: Vec<f32>,
    /// By llama.cpp with keys and values in F32, for cases with F32 weights.
    pub(crate) unrounded: Option<Vec<f32>>,
    /// By each variant.
    pub(crate) ours: Vec<Vec<f32>>,
}

impl Logits {
    /// Returns the most likely token of the exact result at each position; `None` if its lead over the second is not
    /// large compared with the errors of llama.cpp.
    pub(crate) fn clear(&self) -> Vec<Option<u32>> {
        let enough = CLEAR_LEAD * rmse(&self.exact, &self.theirs);
        let clear = |row| Some(likeliest(row)).filter(|&(_, lead)| f64::from(lead) > enough).map(|(token, _)| token);
        self.exact.chunks_exact(self.vocabulary).map(clear).collect()
    }
}

/// Measures both approximations against the exact logits.
pub(crate) fn measure(case: &Case, prompts: &[Vec<u32>], logits: &Logits) -> Row {
    let Logits { vocabulary, exact, theirs, unrounded, ours } = logits;
    let (low, high) = exact.iter().fold((f32::MAX, f32::MIN), |(low, high), &x| (low.min(x), high.max(x)));
    let range = f64::from(high - low);
    let their_rmse = rmse(exact, theirs);
    let differences = exact.iter().zip(unrounded.as_ref().unwrap_or(theirs)).map(|(a, b)| f64::from((a - b).abs()));
    let deviation = differences.fold(0.0, f64::max) / range;
    let clear = logits.clear();
    let wrong = |logits: &[f32]| {
        let rows = logits.chunks_exact(*vocabulary).zip(&clear);
        rows.filter(|(row, clear)| clear.is_some_and(|token| likeliest(row).0 != token)).count()
    };
    let tokens: Vec<u32> = exact.chunks_exact(*vocabulary).map(|row| likeliest(row).0).collect();
    let successors = prompts.iter().flatten().map(|&token| successor(&case.spec, token));
    let context = successors.zip(&tokens).filter(|(successor, token)| successor != *token).count();
    let distinct = tokens.into_iter().collect::<BTreeSet<_>>().len();
    let (their_wrong, our_wrong) = (wrong(theirs), ours.iter().map(|logits| wrong(logits)).sum());
    let ours: Vec<f64> = ours.iter().map(|logits| rmse(exact, logits)).collect();
    let floor = ROUNDING * range;
    Row {
        name: case.name.clone(),
        deviation,
        f32_weights: case.is_f32(),
        theirs: their_rmse / range,
        ratios: ours.iter().map(|rmse| rmse.max(floor) / their_rmse.max(floor)).collect(),
        ours: ours.iter().map(|rmse| rmse / range).collect(),
        clear: clear.iter().flatten().count(),
        positions: clear.len(),
        wrong: our_wrong,
        their_wrong,
        context,
        distinct,
    }
}

/// The root of the mean square difference.
pub(crate) fn rmse(exact: &[f32], other: &[f32]) -> f64 {
    let sum: f64 = exact.iter().zip(other).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    (sum / exact.len() as f64).sqrt()
}

/// The table's first two lines.
pub(crate) fn head<'a>(variants: impl Iterator<Item = &'a str>) -> String {
    let variants: Vec<_> = variants.map(|name| format!("{name} (ratio)")).collect();
    let rule = "|---".repeat(8 + variants.len());
    format!(
        "| case | llama.cpp max | llama.cpp RMSE | {} | clear | wrong | llama.cpp wrong | by context | distinct |\n{rule}|",
        variants.join(" | ")
    )
}

impl Row {
    /// Whether the case passes.
    pub(crate) fn holds(&self) -> bool {
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
        let Self { clear, positions, wrong, their_wrong, context, distinct, .. } = self;
        let percent = |count: usize| 100.0 * count as f64 / *positions as f64;
        write!(f, " {:.1} % | {wrong} | {their_wrong} | {:.1} % | {distinct} |", percent(*clear), percent(*context))?;
        if self.holds() { Ok(()) } else { write!(f, " FAILS") }
    }
}

/// The worst ratio of each family with each type.
#[derive(Default)]
pub(crate) struct Cells {
    families: Vec<&'static str>,
    types: Vec<DType>,
    cells: BTreeMap<(&'static str, DType), String>,
}

impl Cells {
    /// Adds a case's row if it is a combination of family and type.
    pub(crate) fn add(&mut self, case: &Case, row: &Row) {
        let (family, Some(dtype)) = (case.spec.family.name, case.cell) else { return };
        if !self.families.contains(&family) {
            self.families.push(family);
        }
        if !self.types.contains(&dtype) {
            self.types.push(dtype);
        }
        let worst = row.ratios.iter().copied().fold(0.0, f64::max);
        let fails = if row.holds() { "" } else { " FAILS" };
        self.cells.insert((family, dtype), format!("{worst:.3}{fails}"));
    }
}

impl fmt::Display for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| worst ratio | {} |\n|---{}|", self.families.join(" | "), "|---".repeat(self.families.len()))?;
        for dtype in &self.types {
            let cell = |family: &&'static str| self.cells.get(&(*family, *dtype)).map_or("missing", String::as_str);
            let cells: Vec<_> = self.families.iter().map(cell).collect();
            writeln!(f, "| {dtype} | {} |", cells.join(" | "))?;
        }
        Ok(())
    }
}

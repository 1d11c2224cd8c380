//! Recording of llama.cpp's logits for tests without Python.

use std::path::Path;

use it::cases::Case;
use it::fixture::{Facts, Fixture};

use crate::table::{Logits, rmse};

/// Writes some positions of a case to `folder`.
pub(crate) fn write(folder: &Path, case: &Case, prompts: &[Vec<u32>], logits: &Logits) -> anyhow::Result<()> {
    let kept = it::fixture::positions(prompts);
    let pick = |all: &[f32]| -> Vec<f32> {
        let rows: Vec<_> = all.chunks_exact(logits.vocabulary).collect();
        kept.iter().flat_map(|&at| rows[at].iter().copied()).collect()
    };
    let clear = logits.clear();
    let theirs = pick(&logits.theirs);
    let facts = Facts {
        prompts: prompts.to_vec(),
        rmse: rmse(&pick(&logits.exact), &theirs),
        greedy: kept.iter().map(|&at| clear[at]).collect(),
    };
    Fixture { facts, logits: theirs }.write(folder, case)
}

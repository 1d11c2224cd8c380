//! Recorded logits of llama.cpp: the last and every 64th position of each prompt of a case, with reference data.
//!
//! Two files per case: the logits as little-endian f32 `[kept positions, vocabulary]`, and [`Facts`] as JSON.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};

use crate::cases::Case;

/// Returns the folder of the recordings.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/parity")
}

/// Reference data for the logits.
#[derive(Debug, PartialEq)]
pub struct Facts {
    /// Token ids of each prompt.
    pub prompts: Vec<Vec<u32>>,
    /// RMSE of the logits of llama.cpp at the recorded positions, relative to the exact logits.
    pub rmse: f64,
    /// Most likely token of the exact result at each recorded position; `None` if its lead is not clear.
    pub greedy: Vec<Option<u32>>,
}

/// One recorded case.
#[derive(Debug)]
pub struct Fixture {
    /// Prompts of the case, and reference data for tolerances.
    pub facts: Facts,
    /// Logits of llama.cpp: `[recorded positions, vocabulary]`.
    pub logits: Vec<f32>,
}

/// Returns the recorded positions, counted through all prompts: the last and every 64th of each prompt.
pub fn positions(prompts: &[Vec<u32>]) -> Vec<usize> {
    let ends = prompts.iter().flat_map(|prompt| (1..=prompt.len()).map(|count| (count, prompt.len())));
    let kept = ends.enumerate().filter(|&(_, (count, tokens))| count.is_multiple_of(64) || count == tokens);
    kept.map(|(at, _)| at).collect()
}

impl Fixture {
    /// Writes both files.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, folder: &Path, case: &Case) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder)?;
        let Facts { prompts, rmse, greedy } = &self.facts;
        let facts = json!({ "prompts": prompts, "rmse": rmse, "greedy": greedy });
        std::fs::write(folder.join(format!("{}.json", case.file_stem())), format!("{facts}\n"))?;
        let logits: Vec<u8> = self.logits.iter().flat_map(|logit| logit.to_le_bytes()).collect();
        std::fs::write(folder.join(format!("{}.f32", case.file_stem())), logits)?;
        Ok(())
    }

    /// Reads what [`write`](Self::write) has written.
    ///
    /// # Errors
    /// A file cannot be read or has the wrong format.
    pub fn read(folder: &Path, case: &Case) -> anyhow::Result<Self> {
        let read = |ending: &str| {
            let path = folder.join(format!("{}.{ending}", case.file_stem()));
            std::fs::read(&path).with_context(|| format!("{} is not there", path.display()))
        };
        let facts: Value = serde_json::from_slice(&read("json")?)?;
        let facts = parse(&facts).with_context(|| format!("the facts about {} are not as written", case.name))?;
        let logits = read("f32")?.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        Ok(Self { facts, logits })
    }
}

fn parse(facts: &Value) -> Option<Facts> {
    let token = |value: &Value| value.as_u64().and_then(|token| u32::try_from(token).ok());
    let prompt = |value: &Value| value.as_array()?.iter().map(token).collect();
    let greedy = facts["greedy"].as_array()?.iter().map(token).collect();
    let prompts = facts["prompts"].as_array()?.iter().map(prompt).collect::<Option<_>>()?;
    Some(Facts { prompts, rmse: facts["rmse"].as_f64()?, greedy })
}

//! Speeds of models that ran on this machine, by their key in the engine, which is their files' digests.
//!
//! A record is valid for the kernel variant and the number of cores that it was measured with.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cairn_runtime::ModelSpeed;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::estimate::Measured;
use super::stored;

/// Most models in the file. The ones with the oldest measurements leave it first.
pub(super) const MAX_MODELS: usize = 1000;
/// Changes of less than this share are not written.
const MIN_CHANGE: f64 = 0.02;

/// What measured speeds depend on beside the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Conditions {
    pub(super) kernel: String,
    pub(super) cores: usize,
}

/// A measured model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Record {
    #[serde(flatten)]
    conditions: Conditions,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prompt: Option<f64>,
    /// Increases with each new measurement.
    order: u64,
}

/// Measured models, and their file.
#[derive(Debug)]
pub(super) struct MeasuredModels {
    path: PathBuf,
    conditions: Conditions,
    records: Mutex<BTreeMap<String, Record>>,
}

impl MeasuredModels {
    pub(super) fn open(path: PathBuf, conditions: Conditions) -> Self {
        let records = Mutex::new(stored::read(&path));
        Self { path, conditions, records }
    }

    /// The measured speeds of a model.
    pub(super) fn of(&self, key: &str) -> Measured {
        let records = self.records.lock();
        let record = records.get(key).filter(|record| record.conditions == self.conditions);
        let sound = |speed: Option<f64>| speed.filter(|speed| speed.is_finite() && *speed > 0.0);
        record.map_or_else(Measured::default, |record| Measured {
            answer: sound(record.answer),
            prompt: sound(record.prompt),
        })
    }

    /// Stores the speeds of models that ran. An absent speed leaves the earlier one. Writes the file if one has changed.
    pub(super) fn record(&self, speeds: &[(String, ModelSpeed)]) {
        let mut records = self.records.lock();
        let mut has_changed = false;
        let mut order = records.values().map(|record| record.order).max().unwrap_or(0);
        for (key, speed) in speeds {
            let (answer, prompt) = (speed.answer_tokens_per_second, speed.prompt_tokens_per_second);
            if answer.is_none() && prompt.is_none() {
                continue;
            }
            let before = records.get(key).filter(|record| record.conditions == self.conditions);
            let [old_answer, old_prompt] = before.map_or([None; 2], |record| [record.answer, record.prompt]);
            if is_near(old_answer, answer) && is_near(old_prompt, prompt) {
                continue;
            }
            order += 1;
            let (answer, prompt) = (answer.or(old_answer), prompt.or(old_prompt));
            records.insert(key.clone(), Record { conditions: self.conditions.clone(), answer, prompt, order });
            has_changed = true;
        }
        while records.len() > MAX_MODELS {
            let oldest = records.iter().min_by_key(|(_, record)| record.order).map(|(key, _)| key.clone());
            records.remove(&oldest.expect("there are more than none"));
        }
        if has_changed {
            stored::write(&self.path, &*records);
        }
    }
}

/// Whether a new speed is absent or nearly the old one.
fn is_near(old: Option<f64>, new: Option<f64>) -> bool {
    new.is_none_or(|new| old.is_some_and(|old| (new - old).abs() <= MIN_CHANGE * old))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &tempfile::TempDir, kernel: &str) -> MeasuredModels {
        let conditions = Conditions { kernel: kernel.to_owned(), cores: 2 };
        MeasuredModels::open(folder.path().join("cache/speeds.json"), conditions)
    }

    fn keys(models: &MeasuredModels) -> Vec<String> {
        models.records.lock().keys().cloned().collect()
    }

    fn speed(answer: Option<f64>, prompt: Option<f64>) -> ModelSpeed {
        ModelSpeed { answer_tokens_per_second: answer, prompt_tokens_per_second: prompt }
    }

    #[test]
    fn measured_speeds_survive_a_restart_with_the_same_kernels() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let models = open(&folder, "fast");
        models.record(&[("a".to_owned(), speed(Some(10.0), None)), ("b".to_owned(), speed(None, None))]);
        models.record(&[("a".to_owned(), speed(None, Some(100.0)))]);
        let expected = Measured { answer: Some(10.0), prompt: Some(100.0) };
        assert_eq!(models.of("a"), expected, "an absent speed leaves the earlier one");
        assert_eq!(open(&folder, "fast").of("a"), expected, "read from the file");
        assert_eq!(open(&folder, "slow").of("a"), Measured::default(), "measured with other kernels");
        assert_eq!(keys(&models), ["a"], "a model without a speed is not stored");
    }

    #[test]
    fn small_changes_are_not_written() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let models = open(&folder, "fast");
        let record = |answer: f64| {
            models.record(&[("a".to_owned(), speed(Some(answer), None))]);
            open(&folder, "fast").of("a").answer
        };
        assert_eq!([record(10.0), record(10.1), record(11.0)], [Some(10.0), Some(10.0), Some(11.0)], "2 percent");
    }

    #[test]
    fn file_is_bounded_and_may_be_damaged() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let models = open(&folder, "fast");
        let many: Vec<_> = (0..MAX_MODELS + 2).map(|at| (format!("{at:064}"), speed(Some(5.0), Some(50.0)))).collect();
        models.record(&many);
        let read = open(&folder, "fast");
        assert_eq!(keys(&read).len(), MAX_MODELS, "the file is short enough to be read");
        assert_eq!(read.of(&many[0].0), Measured::default(), "the oldest left");
        for damage in ["{", "[]", r#"{"a":{"kernel":"fast","cores":2,"answer":-1,"order":1}}"#] {
            std::fs::write(folder.path().join("cache/speeds.json"), damage).expect("the folder is writable");
            assert_eq!(open(&folder, "fast").of("a"), Measured::default(), "{damage}");
        }
    }
}

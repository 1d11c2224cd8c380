//! The files that describe a checkpoint. Anyone can write them, so each has a limit.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use cairn_gguf::Pooling;
use serde_json::Value;

use super::error::ConvertError;
use super::tokenizer::{MAX_TOKENS, Normalizer, TokenizerFile};

/// Upper limit of `config.json` and the descriptions of modules. A parsed value takes about 30 times as much memory.
const MAX_CONFIG_BYTES: u64 = 1 << 20;
/// Upper limit of a vocabulary: large ones have about 40 MB.
const MAX_VOCABULARY_BYTES: u64 = 64 << 20;

pub(super) const CONFIG: &str = "config.json";
pub(super) const TOKENIZER: &str = "tokenizer.json";
const VOCABULARY: &str = "vocab.txt";
const MODULES: &str = "modules.json";

/// A file of a checkpoint.
#[derive(Debug)]
pub struct CheckpointFile {
    /// Path relative to the checkpoint's folder, with `/`.
    pub name: String,
    /// The file.
    pub file: File,
}

/// Descriptions of a checkpoint.
pub(super) struct Description<'a> {
    files: &'a [CheckpointFile],
    pub(super) config: Value,
}

impl<'a> Description<'a> {
    pub(super) fn read(files: &'a [CheckpointFile]) -> Result<Self, ConvertError> {
        let config = json(files, CONFIG)?.ok_or(ConvertError::Missing { name: CONFIG })?;
        Ok(Self { files, config })
    }

    /// Returns the first entry of `architectures`.
    pub(super) fn architecture(&self) -> Result<&str, ConvertError> {
        self.config["architectures"][0].as_str().ok_or_else(|| invalid(CONFIG, "it has no architectures"))
    }

    /// Returns a count of the config.
    pub(super) fn count(&self, key: &str) -> Result<u32, ConvertError> {
        let value = self.config[key].as_u64().and_then(|value| u32::try_from(value).ok()).filter(|&value| value > 0);
        value.ok_or_else(|| invalid(CONFIG, format!("{key} is {}, not a count", self.config[key])))
    }

    /// Returns a number of the config.
    pub(super) fn number(&self, key: &str) -> Result<f32, ConvertError> {
        let value = self.config[key].as_f64().map(|value| value as f32);
        value.ok_or_else(|| invalid(CONFIG, format!("{key} is {}, not a number", self.config[key])))
    }

    /// Returns the tokenizer.
    pub(super) fn tokenizer(&self) -> Result<Option<TokenizerFile>, ConvertError> {
        let Some(bytes) = bytes(self.files, TOKENIZER, MAX_VOCABULARY_BYTES)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| invalid(TOKENIZER, error.to_string()))
    }

    /// Returns the lines of `vocab.txt`.
    pub(super) fn vocabulary(&self) -> Result<Option<Vec<String>>, ConvertError> {
        let Some(bytes) = bytes(self.files, VOCABULARY, MAX_VOCABULARY_BYTES)? else { return Ok(None) };
        let text = String::from_utf8(bytes).map_err(|_| invalid(VOCABULARY, "it is not valid UTF-8"))?;
        if text.lines().nth(MAX_TOKENS).is_some() {
            return Err(invalid(VOCABULARY, format!("it has more than {MAX_TOKENS} tokens")));
        }
        Ok(Some(text.lines().map(str::to_owned).collect()))
    }

    /// Returns the changes of a text of a tokenizer without `tokenizer.json`.
    pub(super) fn normalizer(&self) -> Result<Normalizer, ConvertError> {
        let config = json(self.files, "tokenizer_config.json")?.unwrap_or_default();
        let flag = |key: &str| config[key].as_bool();
        Ok(Normalizer { lowercase: flag("do_lower_case"), strip_accents: flag("strip_accents") })
    }

    /// Returns the pooling of the model's pooling module
    /// (<https://sbert.net/docs/package_reference/sentence_transformer/models.html>), else the mean.
    pub(super) fn pooling(&self) -> Result<Pooling, ConvertError> {
        let modules = json(self.files, MODULES)?.unwrap_or_default();
        let mut path = None;
        for module in modules.as_array().into_iter().flatten() {
            let kind = module["type"].as_str().unwrap_or_default();
            match kind.rsplit('.').next() {
                // Every vector is normalised.
                Some("Transformer" | "Normalize") => {}
                Some("Pooling") if path.is_none() => path = Some(module["path"].as_str().unwrap_or_default()),
                // Without it the vectors would be others.
                _ => return Err(ConvertError::Unsupported { what: format!("the module {kind:?} of {MODULES}") }),
            }
        }
        let Some(path) = path else { return Ok(Pooling::Mean) };
        let name = format!("{path}/config.json");
        let Some(module) = json(self.files, &name)? else { return Ok(Pooling::Mean) };
        let flags = module.as_object().into_iter().flatten().filter(|(_, value)| **value == true);
        let modes =
            flags.filter_map(|(key, _)| key.strip_prefix("pooling_mode_")).chain(module["pooling_mode"].as_str());
        let kinds: BTreeSet<Option<Pooling>> = modes
            .map(|mode| match mode {
                "mean_tokens" | "mean" => Some(Pooling::Mean),
                "cls_token" | "cls" => Some(Pooling::First),
                "lasttoken" => Some(Pooling::Last),
                _ => None,
            })
            .collect();
        // Several modes make a vector of several parts.
        match Vec::from_iter(kinds)[..] {
            [Some(pooling)] => Ok(pooling),
            _ => Err(ConvertError::Unsupported { what: format!("the pooling of {name}") }),
        }
    }
}

/// Creates the error of an invalid description.
pub(super) fn invalid(name: &str, reason: impl Into<String>) -> ConvertError {
    ConvertError::File { name: name.to_owned(), reason: reason.into() }
}

fn json(files: &[CheckpointFile], name: &str) -> Result<Option<Value>, ConvertError> {
    let Some(bytes) = bytes(files, name, MAX_CONFIG_BYTES)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| invalid(name, error.to_string()))
}

/// Reads a file of at most `max` bytes.
fn bytes(files: &[CheckpointFile], name: &str, max: u64) -> Result<Option<Vec<u8>>, ConvertError> {
    let Some(found) = files.iter().find(|file| file.name == name) else { return Ok(None) };
    let mut bytes = Vec::new();
    let mut file = &found.file;
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(max + 1).read_to_end(&mut bytes));
    read.map_err(|error| invalid(name, error.to_string()))?;
    if bytes.len() as u64 > max {
        return Err(invalid(name, format!("it is longer than {} MiB", max >> 20)));
    }
    Ok(Some(bytes))
}

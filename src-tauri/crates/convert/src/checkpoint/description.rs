//! The files that describe a checkpoint. Anyone can write them, so each has a limit.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use serde_json::Value;

use super::error::ConvertError;
use super::tokenizer::{MAX_TOKENS, TokenizerFile};

/// Upper limit of `config.json` and the descriptions of modules. A parsed value takes about 30 times as much memory.
const MAX_CONFIG_BYTES: u64 = 1 << 20;
/// Upper limit of a vocabulary: large ones have about 40 MB.
const MAX_VOCABULARY_BYTES: u64 = 64 << 20;

pub(super) const CONFIG: &str = "config.json";
pub(super) const TOKENIZER: &str = "tokenizer.json";
const VOCABULARY: &str = "vocab.txt";

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

    /// Returns the number of `pooling_type` in GGUF: that of the model's pooling module
    /// (<https://sbert.net/docs/package_reference/sentence_transformer/models.html>), else the mean.
    pub(super) fn pooling_type(&self) -> Result<u32, ConvertError> {
        const MEAN: u32 = 1;
        let modules = json(self.files, "modules.json")?.unwrap_or_default();
        let is_pooling = |module: &&Value| module["type"].as_str().is_some_and(|name| name.ends_with(".Pooling"));
        let Some(module) = modules.as_array().and_then(|modules| modules.iter().find(is_pooling)) else {
            return Ok(MEAN);
        };
        let name = format!("{}/config.json", module["path"].as_str().unwrap_or_default());
        let Some(pooling) = json(self.files, &name)? else { return Ok(MEAN) };
        let is_on = |mode: &str| pooling[format!("pooling_mode_{mode}")] == true || pooling["pooling_mode"] == mode;
        let modes = [("mean_tokens", MEAN), ("mean", MEAN), ("cls_token", 2), ("cls", 2), ("lasttoken", 3)];
        match modes.iter().find(|(mode, _)| is_on(mode)) {
            Some((_, number)) => Ok(*number),
            None => Err(ConvertError::Unsupported { what: format!("the pooling of {name}") }),
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

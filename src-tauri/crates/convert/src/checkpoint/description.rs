//! The files that describe a checkpoint. Anyone can write them, so each has a limit.

use cairn_gguf::Metadata;
use serde::de::DeserializeOwned;

use super::config::{CONFIG, Config};
use super::error::{ConvertError, invalid};
use super::files::{CheckpointFile, bytes, json};
use super::modules::{MODULES, Modules};
use super::tokenizer::{AddedToken, MAX_TOKENS, TokenizerConfig, TokenizerFile};

/// Upper limit of files that are parsed without intermediate values: those of large models have a few megabytes.
const MAX_LIST_BYTES: u64 = 16 << 20;
/// Upper limit of a vocabulary: large ones have about 40 MB.
const MAX_VOCABULARY_BYTES: u64 = 64 << 20;

pub(super) const TOKENIZER: &str = "tokenizer.json";
pub(super) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
pub(super) const PIECES: &str = "tokenizer.model";
const VOCABULARY: &str = "vocab.txt";

/// Descriptions of a checkpoint.
pub(super) struct Description<'a> {
    files: &'a [CheckpointFile],
    pub(super) config: Config,
}

impl<'a> Description<'a> {
    pub(super) fn read(files: &'a [CheckpointFile]) -> Result<Self, ConvertError> {
        let config = json(files, CONFIG)?.ok_or(ConvertError::Missing { name: CONFIG })?;
        Ok(Self { files, config: Config::new(config)? })
    }

    /// Returns the keys that all files have.
    pub(super) fn general(&self, architecture: &str) -> Metadata {
        let mut metadata = Metadata::new();
        metadata.set("general.architecture", architecture);
        metadata.set("general.type", "model");
        let path = self.config.value("_name_or_path").as_str();
        if let Some(name) = path.and_then(|path| path.rsplit('/').next()).filter(|name| !name.is_empty()) {
            metadata.set("general.name", name);
        }
        metadata
    }

    /// Returns a file that is parsed without intermediate values.
    pub(super) fn parsed<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, ConvertError> {
        let Some(bytes) = bytes(self.files, name, MAX_LIST_BYTES)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| invalid(name, error.to_string()))
    }

    /// Returns the tokenizer.
    pub(super) fn tokenizer(&self) -> Result<Option<TokenizerFile>, ConvertError> {
        let Some(bytes) = bytes(self.files, TOKENIZER, MAX_VOCABULARY_BYTES)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| invalid(TOKENIZER, error.to_string()))
    }

    /// Returns the names and flags of special tokens.
    pub(super) fn tokenizer_config(&self) -> Result<TokenizerConfig, ConvertError> {
        Ok(self.parsed(TOKENIZER_CONFIG)?.unwrap_or_default())
    }

    /// Returns the id of an added token.
    pub(super) fn added_token(&self, text: &str) -> Result<Option<u64>, ConvertError> {
        let find =
            |tokens: Vec<AddedToken>| tokens.into_iter().find(|token| token.content == text).map(|token| token.id);
        match find(self.tokenizer_config()?.added_tokens_decoder.0) {
            Some(id) => Ok(Some(id)),
            None => Ok(self.tokenizer()?.and_then(|tokenizer| find(tokenizer.added_tokens.0))),
        }
    }

    /// Returns the SentencePiece model of this name.
    pub(super) fn pieces(&self, name: &str) -> Result<Option<Vec<u8>>, ConvertError> {
        bytes(self.files, name, MAX_VOCABULARY_BYTES)
    }

    /// Returns a file of text.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, ConvertError> {
        let Some(bytes) = bytes(self.files, name, MAX_LIST_BYTES)? else { return Ok(None) };
        String::from_utf8(bytes).map(Some).map_err(|_| invalid(name, "it is not valid UTF-8"))
    }

    /// Returns the text of a vocabulary.
    pub(super) fn vocabulary_text(&self, name: &str) -> Result<Option<String>, ConvertError> {
        let Some(bytes) = bytes(self.files, name, MAX_VOCABULARY_BYTES)? else { return Ok(None) };
        String::from_utf8(bytes).map(Some).map_err(|_| invalid(name, "it is not valid UTF-8"))
    }

    /// Returns the lines of `vocab.txt`.
    pub(super) fn vocabulary(&self) -> Result<Option<Vec<String>>, ConvertError> {
        let Some(text) = self.vocabulary_text(VOCABULARY)? else { return Ok(None) };
        if text.lines().nth(MAX_TOKENS).is_some() {
            return Err(invalid(VOCABULARY, format!("it has more than {MAX_TOKENS} tokens")));
        }
        Ok(Some(text.lines().map(str::to_owned).collect()))
    }

    /// Adds the defaults for sampling of `generation_config.json`.
    pub(super) fn add_sampling(&self, metadata: &mut Metadata) -> Result<(), ConvertError> {
        const NAME: &str = "generation_config.json";
        let config = json(self.files, NAME)?.unwrap_or_default();
        let keys =
            [("temperature", "temp"), ("top_p", "top_p"), ("min_p", "min_p"), ("repetition_penalty", "penalty_repeat")];
        for (key, role) in keys {
            if let Some(number) = config[key].as_f64().map(|number| number as f32).filter(|number| number.is_finite()) {
                metadata.set(format!("general.sampling.{role}"), number);
            }
        }
        if let Some(count) = config["top_k"].as_i64().and_then(|count| i32::try_from(count).ok()) {
            metadata.set("general.sampling.top_k", count);
        }
        Ok(())
    }

    /// Returns whether the checkpoint has a list of modules, as embedding models do.
    pub(super) fn has_modules(&self) -> bool {
        self.files.iter().any(|file| file.name == MODULES)
    }

    /// Returns the steps after the model.
    pub(super) fn modules(&self, has_dense: bool) -> Result<Modules, ConvertError> {
        Modules::read(self.files, has_dense)
    }
}

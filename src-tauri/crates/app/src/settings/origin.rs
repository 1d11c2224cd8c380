//! Who says what: flags go before the environment, that before `config.toml`, and that before defaults.
//!
//! What the file and flags say is put among the variables under the environment's names, so that the loader reads one place.

use std::fmt;
use std::path::PathBuf;

use super::config_file::ConfigFile;
use super::env::Env;
use super::places::Places;
use super::row::Row;
use super::table::TABLE;
use super::value::{self, Value};

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// `config.toml`.
    File,
    /// The variable of this name.
    Environment(&'static str),
    /// The command line.
    Flag,
}

/// A setting on the command line, `cache.ram=2G`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    row: &'static Row,
    text: String,
}

/// A text that sets nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// It is no key and value.
    #[error("{0:?} sets nothing: it must be KEY=VALUE, cache.ram=2G for instance")]
    Form(String),
    /// There is no such setting.
    #[error("there is no setting {0:?}; `cairn --help` lists their keys")]
    Key(String),
    /// It cannot be set to that.
    #[error("{key} cannot be {value:?}: {reason}")]
    Value {
        /// Which setting.
        key: &'static str,
        /// What it was to be.
        value: String,
        /// What is wrong.
        reason: String,
    },
}

impl std::str::FromStr for Flag {
    type Err = FlagError;

    fn from_str(text: &str) -> Result<Self, FlagError> {
        let (key, said) = text.split_once('=').ok_or_else(|| FlagError::Form(text.to_owned()))?;
        let row = TABLE.iter().find(|row| row.key == Some(key)).ok_or_else(|| FlagError::Key(key.to_owned()))?;
        let words = [("true", Value::Bool(true)), ("false", Value::Bool(false))];
        let word = words.into_iter().find(|(word, _)| *word == said).map(|(_, value)| value);
        let number = || said.parse().ok().map(Value::Number);
        let plain = || Some(Value::Text(said.to_owned()));
        // Whichever form the row's kind takes.
        let forms = [word, number(), plain()];
        let mut reason = String::new();
        for value in forms.into_iter().flatten() {
            match value::text(row, &value) {
                Ok(text) => return Ok(Self { row, text }),
                Err(why) => reason = why,
            }
        }
        Err(FlagError::Value { key: row.key.unwrap_or_default(), value: said.to_owned(), reason })
    }
}

/// What settings are read from.
#[derive(Clone)]
pub struct Sources {
    env: Env,
    flags: Vec<Flag>,
    pub(super) places: Places,
}

impl fmt::Debug for Sources {
    /// Without the environment, which has secrets of everybody.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("flags", &self.flags).field("places", &self.places).finish_non_exhaustive()
    }
}

/// What was said of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assigned {
    pub(super) origin: Origin,
    /// In the environment's form; none by default.
    pub(super) text: Option<String>,
}

/// All that was said.
pub(super) struct Merged {
    /// The environment, with what others say in it.
    pub(super) env: Env,
    /// By row of the table.
    pub(super) assigned: Vec<Assigned>,
    /// Values that are none of their kind.
    pub(super) warnings: Vec<(&'static Row, String)>,
}

impl Sources {
    /// What a process was given.
    #[must_use]
    pub fn new(env: &Env, places: &Places, flags: Vec<Flag>) -> Self {
        Self { env: env.clone(), flags, places: places.clone() }
    }

    /// Where `config.toml` is.
    pub(super) fn path(&self) -> PathBuf {
        self.places.config_file()
    }

    /// The environment, without the file and flags.
    pub(super) fn env(&self) -> &Env {
        &self.env
    }

    pub(super) fn merged(&self, file: &ConfigFile) -> Merged {
        let mut merged =
            Merged { env: self.env.clone(), assigned: Vec::with_capacity(TABLE.len()), warnings: Vec::new() };
        for row in &TABLE {
            let assigned = self.assigned(row, file, &mut merged.warnings);
            if let (Origin::File | Origin::Flag, Some(name), Some(text)) =
                (assigned.origin, row.variable, &assigned.text)
            {
                merged.env.set(name, text);
            }
            merged.assigned.push(assigned);
        }
        merged
    }

    fn assigned(&self, row: &'static Row, file: &ConfigFile, warnings: &mut Vec<(&'static Row, String)>) -> Assigned {
        if let Some(flag) = self.flags.iter().rev().find(|flag| flag.row.key == row.key && row.key.is_some()) {
            return Assigned { origin: Origin::Flag, text: Some(flag.text.clone()) };
        }
        if let Some(name) =
            row.variable.into_iter().chain(row.fallback_variable).find(|name| self.env.path(name).is_some())
        {
            let raw = || self.env.path(name).map(|text| text.to_string_lossy().into_owned());
            return Assigned {
                origin: Origin::Environment(name),
                text: self.env.text(name).map(str::to_owned).or_else(raw),
            };
        }
        if let Some(name) = row.variable.filter(|name| row.can_be_blank && self.env.is_blank(name)) {
            return Assigned { origin: Origin::Environment(name), text: Some(String::new()) };
        }
        match file.text(row) {
            Some(Ok(text)) => Assigned { origin: Origin::File, text: Some(text) },
            Some(Err(reason)) => {
                warnings.push((row, reason));
                Assigned { origin: Origin::Default, text: None }
            }
            None => Assigned { origin: Origin::Default, text: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use crate::settings::places::System;

    #[test]
    fn flags_go_before_the_environment_and_that_before_the_file() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let at_home = home.path().to_str().expect("a plain path");
        std::fs::write(
            home.path().join("config.toml"),
            "[engine]\nmax_queue = 7\nparallel = 6\nmax_loaded = 'x'\nkeep_alive = 'soon'\n[models]\nhide_pebble = true\n",
        )
        .expect("the folder is writable");
        let env = Env::of([("CAIRN_HOME", at_home), ("OLLAMA_NUM_PARALLEL", "4"), ("CAIRN_KV_RAM", "1G")]);
        let places = Places::of(&env, System::Xdg).expect("there is a home");
        let flags = vec!["cache.ram=2G".parse().expect("a flag"), "engine.context=100".parse().expect("a flag")];
        let settings = Settings::of(Sources::new(&env, &places, flags));
        let check = |name: &str, origin: Origin| assert_eq!(settings.origin(name), Some(origin), "{name}");
        check("OLLAMA_MAX_QUEUE", Origin::File);
        check("OLLAMA_NUM_PARALLEL", Origin::Environment("OLLAMA_NUM_PARALLEL"));
        check("CAIRN_KV_RAM", Origin::Flag);
        check("OLLAMA_CONTEXT_LENGTH", Origin::Flag);
        check("OLLAMA_MAX_LOADED_MODELS", Origin::Default);
        let engine = &settings.engine;
        assert_eq!((engine.max_queue, engine.parallel, engine.max_loaded), (7, 4, 3), "numbers");
        assert_eq!((settings.tiers.values.ram_bytes, engine.context_tokens), (Some(2_000_000_000), Some(100)), "flags");
        assert!(settings.models.hide_pebble, "a switch of the file");
        let warnings = settings.warnings.join("\n");
        assert!(warnings.contains("engine.max_loaded") && warnings.contains("engine.keep_alive"), "{warnings}");
        assert_eq!(settings.warnings.len(), 2, "{warnings}");
    }

    #[test]
    fn a_flag_is_a_key_and_a_value() {
        let check = |text: &str, part: &str| {
            let error = text.parse::<Flag>().expect_err("it must be refused").to_string();
            assert!(error.contains(part), "{text}: {error}");
        };
        check("cache.ram", "KEY=VALUE");
        check("cache.rum=1", "no setting");
        check("cache.weigh=perhaps", "true or false");
        check("cache.encrypt=perhaps", "on, remote, off");
    }
}

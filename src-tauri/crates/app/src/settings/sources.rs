//! Precedence of sources: flags override the environment, which overrides `config.toml`, which overrides defaults.
//!
//! Values of the file and of flags are put among the variables under their names in the environment, so that the loader
//! has one source.

use std::fmt;
use std::path::PathBuf;

use super::config_file::ConfigFile;
use super::env::Env;
use super::origin::{Assigned, Origin};
use super::places::Places;
use super::row::Row;
use super::table::TABLE;
use super::value::{self, Value};

/// A setting on the command line, for example `cache.ram=2G`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    row: &'static Row,
    text: String,
}

/// Errors of parsing a [`Flag`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// The text is not `KEY=VALUE`.
    #[error("invalid setting {0:?}: it must be KEY=VALUE, for example cache.ram=2G")]
    Form(String),
    /// The key does not exist.
    #[error("unknown setting {0:?}; run `cairn --help` for the keys")]
    Key(String),
    /// The value is invalid.
    #[error("invalid value {value:?} for {key}: {reason}")]
    Value {
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// The cause.
        reason: String,
    },
}

impl std::str::FromStr for Flag {
    type Err = FlagError;

    fn from_str(text: &str) -> Result<Self, FlagError> {
        let (key, assigned) = text.split_once('=').ok_or_else(|| FlagError::Form(text.to_owned()))?;
        let row = TABLE.iter().find(|row| row.key == Some(key)).ok_or_else(|| FlagError::Key(key.to_owned()))?;
        let words = [("true", Value::Bool(true)), ("false", Value::Bool(false))];
        let word = words.into_iter().find(|(word, _)| *word == assigned).map(|(_, value)| value);
        let number = || assigned.parse().ok().map(Value::Number);
        let plain = || Some(Value::Text(assigned.to_owned()));
        // The first form that the row's kind accepts.
        let forms = [word, number(), plain()];
        let mut reason = String::new();
        for value in forms.into_iter().flatten() {
            match value::text(row, &value) {
                Ok(text) => return Ok(Self { row, text }),
                Err(problem) => reason = problem.to_string(),
            }
        }
        Err(FlagError::Value { key: row.key.unwrap_or_default(), value: assigned.to_owned(), reason })
    }
}

/// The sources from which settings are read.
#[derive(Clone)]
pub struct Sources {
    env: Env,
    flags: Vec<Flag>,
    pub(super) places: Places,
}

impl fmt::Debug for Sources {
    /// Omits the environment, which contains secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("flags", &self.flags).field("places", &self.places).finish_non_exhaustive()
    }
}

/// The values of all rows.
pub(super) struct Merged {
    /// The environment, with the values of the file and of flags added.
    pub(super) env: Env,
    /// By row of the table.
    pub(super) assigned: Vec<Assigned>,
    /// Invalid values in the file, with the cause.
    pub(super) warnings: Vec<(&'static Row, String)>,
}

impl Sources {
    /// The sources of a process.
    #[must_use]
    pub fn new(env: &Env, places: &Places, flags: Vec<Flag>) -> Self {
        Self { env: env.clone(), flags, places: places.clone() }
    }

    /// Path of `config.toml`.
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
            Some(Err(problem)) => {
                warnings.push((row, problem.to_string()));
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
    fn flags_override_environment_and_environment_overrides_file() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let at_home = home.path().to_str().expect("a plain path");
        std::fs::write(
            home.path().join("config.toml"),
            "[engine]\nmax_queue = 7\nparallel = 6\nmax_loaded = 'x'\nkeep_alive = 'soon'\n[models]\nhide_pebble = true\n",
        )
        .expect("the folder is writable");
        let env = Env::of([("CAIRN_HOME", at_home), ("OLLAMA_NUM_PARALLEL", "4"), ("CAIRN_KV_RAM", "1G")]);
        let places = Places::of(&env, System::Xdg).expect("a home folder");
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
    fn flag_without_key_and_valid_value_is_rejected() {
        let check = |text: &str, part: &str| {
            let error = text.parse::<Flag>().expect_err("it must be refused").to_string();
            assert!(error.contains(part), "{text}: {error}");
        };
        check("cache.ram", "KEY=VALUE");
        check("cache.rum=1", "unknown setting");
        check("cache.weigh=perhaps", "true or false");
        check("cache.encrypt=perhaps", "on, remote, off");
    }
}

//! Changes settings of a running daemon and stores them in `config.toml`.
//!
//! A change is validated as a whole by the reader that will load the file at the next start, then written to
//! `config.toml`, then applied. A row that needs a restart is reported as such: its stored value differs from the value
//! in effect.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::values::KeepAlive;

use super::config_file::ConfigFile;
use super::load::Settings;
use super::origin::{Assigned, Origin};
use super::problem::SettingProblem;
use super::require_key::RequireKey;
use super::row::Row;
use super::table::TABLE;
use super::value::{self, Value};

/// All settings that `config.toml` can hold.
#[derive(Debug, Clone)]
pub struct SettingTable {
    /// Path of `config.toml`.
    pub path: PathBuf,
    /// Why the file cannot be read.
    pub problem: Option<String>,
    /// In the order of [`TABLE`].
    pub rows: Vec<SettingRow>,
}

/// The stored value of a setting.
#[derive(Debug, Clone)]
pub struct SettingRow {
    /// The row of the table.
    pub row: &'static Row,
    /// The stored value, else the default. `None` if the table only describes the default in words.
    pub value: Option<Value>,
    /// The default. `None` if the table only describes it in words.
    pub default: Option<Value>,
    /// Where the value comes from.
    pub origin: Origin,
    /// Whether the value takes effect only after a restart.
    pub restart: bool,
}

/// Errors of [`SettingsStore::change`].
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// Invalid values. Nothing was changed.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Wrong(Vec<WrongSetting>),
    /// The file cannot be read, so it is not overwritten.
    #[error("cannot change the settings: cannot read {}: {why}; nothing was changed", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// The file cannot be written.
    #[error("cannot write the settings: {0}")]
    Unwritten(String),
}

/// An invalid value of a setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct WrongSetting {
    /// The key of the setting.
    pub key: String,
    /// Why the value is refused.
    pub problem: SettingProblem,
}

/// The values in effect of the settings that can change while the daemon runs.
#[derive(Debug)]
pub(crate) struct LiveValues {
    in_effect: Mutex<InEffect>,
    /// Serialises changes.
    changing: Mutex<()>,
}

#[derive(Debug)]
struct InEffect {
    /// By row of the table, in the form of the environment.
    texts: Vec<Option<String>>,
    keep_alive: KeepAlive,
    context_tokens: Option<u32>,
    require_key: RequireKey,
}

impl LiveValues {
    pub(crate) fn of(settings: &Settings) -> Self {
        let texts = settings.assigned.iter().map(|assigned| assigned.text.clone()).collect();
        let (keep_alive, context_tokens) = (settings.engine.keep_alive, settings.engine.context_tokens);
        let require_key = settings.server.require_key;
        let in_effect = InEffect { texts, keep_alive, context_tokens, require_key };
        Self { in_effect: Mutex::new(in_effect), changing: Mutex::default() }
    }

    /// How long a model stays loaded if its request does not set it.
    pub(crate) fn keep_alive(&self) -> KeepAlive {
        self.in_effect().keep_alive
    }

    /// Context size in tokens if the request does not set it.
    pub(crate) fn context_tokens(&self) -> Option<u32> {
        self.in_effect().context_tokens
    }

    fn in_effect(&self) -> MutexGuard<'_, InEffect> {
        self.in_effect.lock()
    }
}

/// Applies changed settings to the parts of a running daemon.
pub trait Apply: Send + Sync {
    /// Checks a value beyond the checks of its reader.
    ///
    /// # Errors
    /// Why the value is refused.
    fn check(&self, row: &Row, next: &Settings) -> Result<(), SettingProblem>;

    /// Applies a setting to the running daemon. Returns whether it is in effect now; otherwise it is at the next start.
    fn apply(&self, row: &Row, next: &Settings) -> bool;

    /// The value of a setting that a version before `config.toml` stored elsewhere.
    fn older_value(&self, row: &Row) -> Option<String>;

    /// Deletes the values that a version before `config.toml` stored for these keys.
    fn forget_older(&self, keys: &[&str]);
}

/// The handle of the settings: reads and changes them. Clones share all state.
#[derive(Clone)]
pub struct SettingsStore {
    settings: Arc<Settings>,
    live: Arc<LiveValues>,
    parts: Arc<dyn Apply>,
}

impl SettingsStore {
    pub(crate) fn new(settings: &Arc<Settings>, live: &Arc<LiveValues>, parts: Arc<dyn Apply>) -> Self {
        Self { settings: Arc::clone(settings), live: Arc::clone(live), parts }
    }

    /// The settings that were in effect when the daemon started.
    #[must_use]
    pub fn at_start(&self) -> &Settings {
        &self.settings
    }

    /// Which requests of other machines need an API key.
    #[must_use]
    pub fn require_key(&self) -> RequireKey {
        self.live.in_effect().require_key
    }

    /// Reads the file and returns all settings that it can hold.
    #[must_use]
    pub fn table(&self) -> SettingTable {
        self.table_of(&ConfigFile::read(&self.settings.sources.path()))
    }

    /// The stored value of a setting, else its default.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<Value> {
        self.table().rows.into_iter().find(|row| row.row.key == Some(key)).and_then(|row| row.value)
    }

    /// Changes all of these settings or none; `None` resets a setting to its default. Blocks.
    ///
    /// # Errors
    /// If a value is invalid, or the file cannot be read or written.
    pub fn change(&self, changes: &BTreeMap<String, Option<Value>>) -> Result<SettingTable, SettingsError> {
        let _guard = self.live.changing.lock();
        let sources = &self.settings.sources;
        let mut file = ConfigFile::read(&sources.path());
        if let Some(why) = file.problem {
            return Err(SettingsError::File { path: sources.path(), why });
        }
        let before = sources.merged(&file).assigned;
        let mut wrong = Vec::new();
        let mut changed = Vec::new();
        for (key, value) in changes {
            let found = TABLE.iter().zip(&before).position(|(row, _)| row.key == Some(key));
            let checked = found.ok_or(SettingProblem::Unknown).and_then(|at| {
                let row = &TABLE[at];
                refuse_overridden(&before[at])?;
                value.as_ref().map_or(Ok(String::new()), |value| value::text(row, value))?;
                file.set(row, value.as_ref())?;
                Ok(at)
            });
            match checked {
                Ok(at) => changed.push(at),
                Err(problem) => wrong.push(WrongSetting { key: key.clone(), problem }),
            }
        }
        let next = Settings::with(sources.clone(), &file);
        for at in &changed {
            let row = &TABLE[*at];
            let text = next.assigned[*at].text.as_deref();
            if let (Some(key), Err(problem)) = (row.key, self.check(row, text, &next)) {
                wrong.push(WrongSetting { key: key.to_owned(), problem });
            }
        }
        if !wrong.is_empty() {
            return Err(SettingsError::Wrong(wrong));
        }
        file.write().map_err(SettingsError::Unwritten)?;
        let keys: Vec<&str> = changed.iter().filter_map(|at| TABLE[*at].key).collect();
        self.parts.forget_older(&keys);
        for at in changed {
            self.apply(at, &next);
        }
        Ok(self.table_of(&file))
    }

    fn table_of(&self, file: &ConfigFile) -> SettingTable {
        let sources = &self.settings.sources;
        let assigned = sources.merged(file).assigned;
        let in_effect = self.live.in_effect();
        let row = |(at, (row, assigned)): (usize, (&'static Row, Assigned))| {
            row.key?;
            let older = self.parts.older_value(row).filter(|_| assigned.origin == Origin::Default);
            let (origin, text) = match older {
                Some(text) => (Origin::File, Some(text)),
                None => (assigned.origin, assigned.text.clone()),
            };
            let default = (!row.has_default_in_words).then(|| value::shown(row, row.default)).flatten();
            Some(SettingRow {
                row,
                value: text.as_deref().and_then(|text| value::shown(row, text)).or_else(|| default.clone()),
                default,
                origin,
                // Settings without a variable are read by clients only and take effect at once.
                restart: row.variable.is_some() && assigned.text != in_effect.texts[at],
            })
        };
        let rows = TABLE.iter().zip(assigned).enumerate().filter_map(row).collect();
        SettingTable { path: sources.path(), problem: file.problem.clone(), rows }
    }

    /// Checks whether this machine can use the value.
    fn check(&self, row: &Row, text: Option<&str>, next: &Settings) -> Result<(), SettingProblem> {
        if row.variable.is_some_and(|name| next.unread.contains(&name)) {
            return Err(SettingProblem::Unparsed { about: row.about });
        }
        text.map_or(Ok(()), row.check)?;
        self.parts.check(row, next)
    }

    /// Applies a change to the running daemon if that is possible.
    fn apply(&self, at: usize, next: &Settings) {
        let mut in_effect = self.live.in_effect();
        let is_in_effect = match TABLE[at].key {
            Some("engine.keep_alive") => {
                in_effect.keep_alive = next.engine.keep_alive;
                true
            }
            Some("engine.context") => {
                in_effect.context_tokens = next.engine.context_tokens;
                true
            }
            Some("server.require_key") => {
                in_effect.require_key = next.server.require_key;
                true
            }
            _ => self.parts.apply(&TABLE[at], next),
        };
        if is_in_effect {
            in_effect.texts[at].clone_from(&next.assigned[at].text);
        }
    }
}

/// Refuses to change a setting that the environment or a flag overrides.
fn refuse_overridden(assigned: &Assigned) -> Result<(), SettingProblem> {
    match assigned.origin {
        Origin::Environment(variable) => Err(SettingProblem::Overridden(variable)),
        Origin::Flag => Err(SettingProblem::Overridden("--set")),
        Origin::Default | Origin::File => Ok(()),
    }
}

#[cfg(test)]
mod tests;

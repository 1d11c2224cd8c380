//! Settings of a running daemon: as they hold, and changed for good.
//!
//! A change is checked as a whole, by the reader that reads the file at the next start, then written to `config.toml`, then
//! applied as far as it can be without a restart. What cannot is told row by row: what is set is held against what holds.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cairn_wire::KeepAlive;

use super::config_file::ConfigFile;
use super::load::Settings;
use super::origin::{Assigned, Origin};
use super::row::Row;
use super::table::TABLE;
use super::value::{self, Value};

/// Every setting that a file can set.
#[derive(Debug, Clone)]
pub struct SettingTable {
    /// Where `config.toml` is.
    pub path: PathBuf,
    /// Why it cannot be read.
    pub trouble: Option<String>,
    /// In the table's order.
    pub rows: Vec<SettingRow>,
}

/// A setting as it is set.
#[derive(Debug, Clone)]
pub struct SettingRow {
    /// What it is.
    pub row: &'static Row,
    /// What it is set to, or the default where that is a value.
    pub value: Option<Value>,
    /// The default, where that is a value.
    pub default: Option<Value>,
    /// Who set it.
    pub origin: Origin,
    /// Whether it holds only when the daemon is started anew.
    pub restart: bool,
}

/// Why settings cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// Values that cannot be; nothing was changed.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Wrong(Vec<WrongSetting>),
    /// What is there is not to be overwritten.
    #[error("{} cannot be read, so nothing was changed: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It cannot be kept.
    #[error("the change could not be written: {0}")]
    Unwritten(String),
}

/// A value that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct WrongSetting {
    /// Of which setting.
    pub key: String,
    /// Why.
    pub reason: String,
}

/// What holds of the settings that can change while the daemon runs.
#[derive(Debug)]
pub(crate) struct LiveValues {
    holding: Mutex<Holding>,
    /// One change at a time.
    changing: Mutex<()>,
}

#[derive(Debug)]
struct Holding {
    /// By row of the table, in the environment's form.
    texts: Vec<Option<String>>,
    keep_alive: KeepAlive,
    context_tokens: Option<u32>,
}

impl LiveValues {
    pub(crate) fn of(settings: &Settings) -> Self {
        let texts = settings.assigned.iter().map(|said| said.text.clone()).collect();
        let (keep_alive, context_tokens) = (settings.engine.keep_alive, settings.engine.context_tokens);
        Self { holding: Mutex::new(Holding { texts, keep_alive, context_tokens }), changing: Mutex::default() }
    }

    /// How long a model stays whose request does not say.
    pub(crate) fn keep_alive(&self) -> KeepAlive {
        self.holding().keep_alive
    }

    /// Tokens of context of a model whose request does not say.
    pub(crate) fn context_tokens(&self) -> Option<u32> {
        self.holding().context_tokens
    }

    fn holding(&self) -> MutexGuard<'_, Holding> {
        self.holding.lock()
    }
}

/// What the parts of a running daemon do when a setting changes.
pub trait Apply: Send + Sync {
    /// Checks a value that its reader accepts.
    ///
    /// # Errors
    /// Why the value cannot be used, for people.
    fn check(&self, row: &Row, next: &Settings) -> Result<(), String>;

    /// Applies a setting to the running daemon. Returns whether it is in effect now; otherwise it is at the next start.
    fn apply(&self, row: &Row, next: &Settings) -> bool;

    /// The value of a setting that a version before `config.toml` stored elsewhere.
    fn older_value(&self, row: &Row) -> Option<String>;

    /// Forgets what a version before `config.toml` stored for these keys.
    fn forget_older(&self, keys: &[&str]);
}

/// The handle of the settings: reads them as they are in effect, and changes them. Clones share everything.
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

    /// Every setting that a file can set, as it is set. Reads the file.
    #[must_use]
    pub fn table(&self) -> SettingTable {
        self.table_of(&ConfigFile::read(&self.settings.sources.path()))
    }

    /// What is set in place of a text, `chats.titles` for instance; the default where nobody did.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<Value> {
        self.table().rows.into_iter().find(|row| row.row.key == Some(key)).and_then(|row| row.value)
    }

    /// Changes settings, all of them or none; no value means the default. Blocks.
    ///
    /// # Errors
    /// Values that cannot be, by key; or that the file cannot be read or written.
    pub fn change(&self, changes: &BTreeMap<String, Option<Value>>) -> Result<SettingTable, SettingsError> {
        let _one = self.live.changing.lock();
        let sources = &self.settings.sources;
        let mut file = ConfigFile::read(&sources.path());
        if let Some(why) = file.trouble {
            return Err(SettingsError::File { path: sources.path(), why });
        }
        let before = sources.merged(&file).assigned;
        let mut wrong = Vec::new();
        let mut changed = Vec::new();
        for (key, value) in changes {
            let found = TABLE.iter().zip(&before).position(|(row, _)| row.key == Some(key));
            let checked = found.ok_or_else(|| "there is no such setting".to_owned()).and_then(|at| {
                let row = &TABLE[at];
                refuse_set(&before[at])?;
                value.as_ref().map_or(Ok(String::new()), |value| value::text(row, value))?;
                file.set(row, value.as_ref())?;
                Ok(at)
            });
            match checked {
                Ok(at) => changed.push(at),
                Err(reason) => wrong.push(WrongSetting { key: key.clone(), reason }),
            }
        }
        let next = Settings::with(sources.clone(), &file);
        for at in &changed {
            let row = &TABLE[*at];
            let text = next.assigned[*at].text.as_deref();
            if let (Some(key), Err(reason)) = (row.key, self.check(row, text, &next)) {
                wrong.push(WrongSetting { key: key.to_owned(), reason });
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
        let said = sources.merged(file).assigned;
        let held = self.live.holding();
        let row = |(at, (row, said)): (usize, (&'static Row, Assigned))| {
            row.key?;
            let kept = self.parts.older_value(row).filter(|_| said.origin == Origin::Default);
            let (origin, text) = match kept {
                Some(text) => (Origin::File, Some(text)),
                None => (said.origin, said.text.clone()),
            };
            let default = (!row.has_default_in_words).then(|| value::shown(row, row.default)).flatten();
            Some(SettingRow {
                row,
                value: text.as_deref().and_then(|text| value::shown(row, text)).or_else(|| default.clone()),
                default,
                origin,
                // What nobody but clients reads holds at once.
                restart: row.variable.is_some() && said.text != held.texts[at],
            })
        };
        let rows = TABLE.iter().zip(said).enumerate().filter_map(row).collect();
        SettingTable { path: sources.path(), trouble: file.trouble.clone(), rows }
    }

    /// Checks what the reader of the settings cannot know: whether this machine can use the value.
    fn check(&self, row: &Row, text: Option<&str>, next: &Settings) -> Result<(), String> {
        if row.variable.is_some_and(|name| next.unread.contains(&name)) {
            return Err(format!("this cannot be read as: {}", row.about));
        }
        text.map_or(Ok(()), row.check)?;
        self.parts.check(row, next)
    }

    /// Applies a change to the running daemon if that is possible.
    fn apply(&self, at: usize, next: &Settings) {
        let mut held = self.live.holding();
        let is_in_effect = match TABLE[at].key {
            Some("engine.keep_alive") => {
                held.keep_alive = next.engine.keep_alive;
                true
            }
            Some("engine.context") => {
                held.context_tokens = next.engine.context_tokens;
                true
            }
            _ => self.parts.apply(&TABLE[at], next),
        };
        if is_in_effect {
            held.texts[at].clone_from(&next.assigned[at].text);
        }
    }
}

/// What goes before the file cannot be changed in it.
fn refuse_set(said: &Assigned) -> Result<(), String> {
    match said.origin {
        Origin::Environment(variable) => {
            Err(format!("{variable} is set in the daemon's environment, which goes before config.toml"))
        }
        Origin::Flag => Err("it is set on the daemon's command line, which goes before config.toml".to_owned()),
        Origin::Default | Origin::File => Ok(()),
    }
}

#[cfg(test)]
mod tests;

//! Settings of a running daemon: as they hold, and changed for good.
//!
//! A change is checked as a whole, by the reader that reads the file at the next start, then written to `config.toml`, then
//! applied as far as it can be without a restart. What cannot is told row by row: what is set is held against what holds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use cairn_tier::Place;
use cairn_wire::KeepAlive;

use super::address;
use super::config_file::ConfigFile;
use super::table::{Row, TABLE};
use super::value::{self, Value};
use super::{Origin, Said, Settings};
use crate::cache::{LimitChange, LimitError};
use crate::{App, Error};

/// The most requests or models at a time: room is made for each of them.
const MAX_AT_ONCE: usize = 4096;
const UNHARMED: &str = "no code panics while it holds the lock";

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
pub(crate) struct Held {
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

impl Held {
    pub(crate) fn of(settings: &Settings) -> Self {
        let texts = settings.said.iter().map(|said| said.text.clone()).collect();
        let (keep_alive, context_tokens) = (settings.keep_alive, settings.context_tokens);
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
        self.holding.lock().expect(UNHARMED)
    }
}

impl App {
    /// Every setting that a file can set, as it is set. Reads the file.
    #[must_use]
    pub fn setting_table(&self) -> SettingTable {
        self.table_of(&ConfigFile::read(&self.settings.sources.path()))
    }

    /// What is set in place of a text, `chats.titles` for instance; the default where nobody did.
    #[must_use]
    pub fn setting(&self, key: &str) -> Option<Value> {
        self.setting_table().rows.into_iter().find(|row| row.row.key == Some(key)).and_then(|row| row.value)
    }

    /// Changes settings, all of them or none; no value means the default. Blocks.
    ///
    /// # Errors
    /// Values that cannot be, by key; or that the file cannot be read or written.
    pub fn change_settings(&self, changes: &BTreeMap<String, Option<Value>>) -> Result<SettingTable, Error> {
        let _one = self.held.changing.lock().expect(UNHARMED);
        let sources = &self.settings.sources;
        let mut file = ConfigFile::read(&sources.path());
        if let Some(why) = file.trouble {
            return Err(SettingsError::File { path: sources.path(), why }.into());
        }
        let before = sources.merged(&file).said;
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
            let text = next.said[*at].text.as_deref();
            if let (Some(key), Err(reason)) = (row.key, self.check_setting(row, text, &next)) {
                wrong.push(WrongSetting { key: key.to_owned(), reason });
            }
        }
        if !wrong.is_empty() {
            return Err(SettingsError::Wrong(wrong).into());
        }
        file.write().map_err(SettingsError::Unwritten)?;
        self.forget_limits(&changed);
        for at in changed {
            self.apply(at, &next);
        }
        Ok(self.table_of(&file))
    }

    fn table_of(&self, file: &ConfigFile) -> SettingTable {
        let sources = &self.settings.sources;
        let said = sources.merged(file).said;
        let held = self.held.holding();
        let row = |(at, (row, said)): (usize, (&'static Row, Said))| {
            row.key?;
            let kept = self.kept_limit(row).filter(|_| said.origin == Origin::Default);
            let (origin, text) = match kept {
                Some(text) => (Origin::File, Some(text)),
                None => (said.origin, said.text.clone()),
            };
            let default = (!row.words).then(|| value::shown(row, row.default)).flatten();
            Some(SettingRow {
                row,
                value: text.as_deref().and_then(|text| value::shown(row, text)).or_else(|| default.clone()),
                default,
                origin,
                // What nobody but clients reads holds at once.
                restart: row.name.is_some() && said.text != held.texts[at],
            })
        };
        let rows = TABLE.iter().zip(said).enumerate().filter_map(row).collect();
        SettingTable { path: sources.path(), trouble: file.trouble.clone(), rows }
    }

    /// What the reader does not know of a value: what this machine makes of it.
    fn check_setting(&self, row: &Row, text: Option<&str>, next: &Settings) -> Result<(), String> {
        if row.name.is_some_and(|name| next.unread.contains(&name)) {
            return Err(format!("this cannot be read as what it is: {}", row.about));
        }
        let limits = |change: LimitChange| self.check_limits(&change).map_err(|error: LimitError| error.to_string());
        let downloads = &next.downloads;
        match row.key {
            Some("cache.ram") => limits(LimitChange { ram_bytes: next.tiers.ram_bytes, ..LimitChange::default() }),
            Some("cache.folder_size") => {
                let folder_bytes = next.tiers.folder_bytes.filter(|bytes| *bytes > 0);
                limits(LimitChange { folder_bytes, ..LimitChange::default() })
            }
            Some("cache.folder") => limits(LimitChange { folder: next.tiers.folder.clone(), ..LimitChange::default() }),
            Some("server.host") => text.map_or(Ok(()), address::check),
            Some("engine.parallel" | "engine.max_loaded") => at_most(text, MAX_AT_ONCE),
            Some("models.folder") if next.library.exists() && !next.library.is_dir() => {
                Err("that is a file and no folder".to_owned())
            }
            Some("network.ca_file") => is_file(downloads.ca_file.as_deref()),
            Some("network.key") => is_file(downloads.foreign_key.as_deref()),
            Some("network.auth_file") => is_file(downloads.foreign_logins.as_deref()),
            Some("engine.kernel") => match &next.kernel {
                Some(asked) if !self.kernels().iter().any(|kernel| kernel.usable && kernel.name == asked) => {
                    Err("this machine has no such variant; /app/hardware lists them".to_owned())
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Has a change hold at once, where that can be.
    fn apply(&self, at: usize, next: &Settings) {
        let mut held = self.held.holding();
        let holds = match TABLE[at].key {
            Some("cache.ram") => next.tiers.ram_bytes.is_some_and(|bytes| self.set_budget(Place::Ram, bytes)),
            Some("cache.folder_size") => {
                let bytes = next.tiers.folder_bytes.filter(|bytes| *bytes > 0);
                bytes.is_some_and(|bytes| self.set_budget(Place::Ssd, bytes))
            }
            Some("downloads.limit") => {
                self.set_download_limit(next.downloads.limit_bytes_per_s);
                true
            }
            Some("engine.keep_alive") => {
                held.keep_alive = next.keep_alive;
                true
            }
            Some("engine.context") => {
                held.context_tokens = next.context_tokens;
                true
            }
            _ => false,
        };
        if holds {
            held.texts[at].clone_from(&next.said[at].text);
        }
    }
}

/// What goes before the file cannot be changed in it.
fn refuse_set(said: &Said) -> Result<(), String> {
    match said.origin {
        Origin::Environment(variable) => {
            Err(format!("{variable} is set in the daemon's environment, which goes before config.toml"))
        }
        Origin::Flag => Err("it is set on the daemon's command line, which goes before config.toml".to_owned()),
        Origin::Default | Origin::File => Ok(()),
    }
}

fn at_most(text: Option<&str>, most: usize) -> Result<(), String> {
    match text.and_then(|text| text.parse::<usize>().ok()) {
        Some(count) if count > most => Err(format!("it is at most {most}")),
        _ => Ok(()),
    }
}

fn is_file(path: Option<&Path>) -> Result<(), String> {
    match path {
        Some(path) if !path.is_file() => Err("there is no such file".to_owned()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;

//! What is remembered of the cache beside the tiers themselves: which model a fingerprint is, and limits that a user set before
//! `config.toml` had them.
//!
//! A small file of its own, with a version. One that cannot be read is not overwritten until something is to be remembered, and
//! one of a newer version never.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cairn_disk::{Disk, Mode, RealDisk};
use cairn_tier::Fingerprint;
use serde::{Deserialize, Serialize};

use crate::settings::Origin;
use crate::settings::Settings;

/// The version that this program writes, and the only one that it reads.
const VERSION: u32 = 1;
/// Models whose names are remembered.
const MODELS: usize = 256;
/// Letters of a fingerprint that tell models apart.
const LETTERS: usize = 16;

/// What the file says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Page {
    version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ram_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) folder: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) folder_bytes: Option<u64>,
    #[serde(default)]
    models: BTreeMap<String, String>,
}

impl Page {
    /// The limit that a setting's key has here, in the environment's form.
    pub(super) fn limit(&self, key: &str) -> Option<String> {
        match key {
            "cache.ram" => self.ram_bytes.map(|bytes| bytes.to_string()),
            "cache.folder" => self.folder.as_ref().map(|folder| folder.display().to_string()),
            // Exact: GiB are a power of two.
            "cache.folder_size" => self.folder_bytes.map(|bytes| (bytes as f64 / f64::from(1 << 30)).to_string()),
            _ => None,
        }
    }

    pub(super) fn forget(&mut self, key: &str) {
        match key {
            "cache.ram" => self.ram_bytes = None,
            "cache.folder" => self.folder = None,
            "cache.folder_size" => self.folder_bytes = None,
            _ => {}
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Book {
    path: PathBuf,
    page: Mutex<Page>,
    /// Whether the file is another version's, which would lose what it says.
    foreign: bool,
    saved: Mutex<Saved>,
}

/// What restoring had saved, all in all, when somebody looked.
#[derive(Debug, Default)]
struct Saved {
    /// Day of the last look; none before the first.
    day: Option<u64>,
    /// When that day began, as far as anybody looked.
    before: Duration,
    /// At the last look.
    last: Duration,
}

impl Book {
    /// Opens the file, which lies beside the tiers' secret.
    pub(crate) fn open(settings: &Settings) -> Self {
        Self::at(&settings.tiers.secret_file.with_file_name("cache.json"))
    }

    fn at(path: &Path) -> Self {
        let read = RealDisk.read(path).ok();
        let page = read.as_deref().and_then(|bytes| serde_json::from_slice::<Page>(bytes).ok());
        let foreign = page.as_ref().is_some_and(|page| page.version != VERSION);
        if foreign || read.is_some() && page.is_none() {
            tracing::warn!(path = %path.display(), "the cache's own settings cannot be read; the defaults hold");
        }
        let page = page.filter(|_| !foreign).unwrap_or_default();
        let (page, saved) = (Mutex::new(Page { version: VERSION, ..page }), Mutex::default());
        Self { path: path.to_owned(), page, foreign, saved }
    }

    /// The settings, with what the user set here where the environment says nothing.
    pub(crate) fn applied(&self, mut settings: Settings) -> Settings {
        let page = self.page().clone();
        let unset = |settings: &Settings, name| settings.origin(name) == Some(Origin::Default);
        if unset(&settings, "CAIRN_KV_RAM") {
            settings.tiers.values.ram_bytes = page.ram_bytes.or(settings.tiers.values.ram_bytes);
        }
        // Where the environment switches the folder off, no other is used.
        if unset(&settings, "OLLAMA_KV_TIER_LOCAL") && settings.tiers.folder.is_some() {
            settings.tiers.folder = page.folder.or(settings.tiers.folder);
        }
        if unset(&settings, "OLLAMA_KV_TIER_LOCAL_GB") {
            settings.tiers.values.folder_bytes = page.folder_bytes.or(settings.tiers.values.folder_bytes);
        }
        settings
    }

    pub(super) fn page(&self) -> MutexGuard<'_, Page> {
        self.page.lock()
    }

    /// What of `saved` is of this day. What comes between the last look of a day and the first of the next counts for the next.
    pub(super) fn saved_today(&self, day: u64, saved: Duration) -> Duration {
        let mut seen = self.saved.lock();
        if seen.day.replace(day).is_some_and(|last| last != day) {
            seen.before = seen.last;
        }
        seen.last = saved;
        saved.saturating_sub(seen.before)
    }

    /// Remembers a change.
    pub(super) fn write(&self, change: impl FnOnce(&mut Page)) -> Result<(), String> {
        if self.foreign {
            return Err(format!("{} was written by a newer version of Cairn", self.path.display()));
        }
        let mut page = self.page();
        let mut changed = page.clone();
        change(&mut changed);
        let bytes = serde_json::to_vec_pretty(&changed).expect("texts and numbers can be written");
        if let Some(folder) = self.path.parent() {
            RealDisk.create_dir_all(folder).map_err(|error| error.to_string())?;
        }
        RealDisk.write_atomic(&self.path, &bytes, Mode::Private).map_err(|error| error.to_string())?;
        *page = changed;
        Ok(())
    }

    /// Remembers by which name a model was used last. Failing that, lists show no name.
    pub(crate) fn learn(&self, fingerprint: &Fingerprint, model: &str) {
        let key = letters(fingerprint);
        if self.page().models.get(&key).is_some_and(|known| known == model) {
            return;
        }
        let written = self.write(|page| {
            while page.models.len() >= MODELS {
                page.models.pop_first();
            }
            page.models.insert(key, model.to_owned());
        });
        if let Err(error) = written {
            tracing::debug!(error, "the model's name is not remembered");
        }
    }

    /// By which name a model was used last.
    pub(super) fn model(&self, fingerprint: &Fingerprint) -> Option<String> {
        self.page().models.get(&letters(fingerprint)).cloned()
    }
}

fn letters(fingerprint: &Fingerprint) -> String {
    fingerprint.as_bytes().iter().take(LETTERS / 2).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Env, Places, System};

    #[test]
    fn what_is_written_is_read_again_and_the_environment_goes_before_it() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let load = |variables: &[(&str, &str)]| {
            let home = [("HOME", home.path().to_str().expect("a plain path"))];
            let env = Env::of(home.iter().chain(variables).copied());
            Settings::load(&env, &Places::of(&env, System::Xdg).expect("there is a home"))
        };
        let book = Book::open(&load(&[]));
        book.write(|page| (page.ram_bytes, page.folder) = (Some(5), Some("/k".into()))).expect("the home is writable");
        book.learn(&Fingerprint::from_bytes([7; 32]), "m:latest");

        let book = Book::open(&load(&[]));
        assert_eq!(book.model(&Fingerprint::from_bytes([7; 32])).as_deref(), Some("m:latest"), "models have names");
        let tiers = book.applied(load(&[])).tiers;
        assert_eq!((tiers.values.ram_bytes, tiers.folder), (Some(5), Some("/k".into())), "where nothing else is said");
        let tiers = book.applied(load(&[("CAIRN_KV_RAM", "9"), ("OLLAMA_KV_TIER_LOCAL", "/e")])).tiers;
        assert_eq!(
            (tiers.values.ram_bytes, tiers.folder),
            (Some(9), Some("/e".into())),
            "the environment says otherwise"
        );
    }

    #[test]
    fn what_was_saved_is_counted_by_day() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let book = Book::at(&home.path().join("cache.json"));
        for (day, saved, today) in [(7, 5, 5), (7, 9, 9), (8, 9, 0), (8, 12, 3), (10, 20, 8)] {
            let found = book.saved_today(day, Duration::from_secs(saved));
            assert_eq!(found, Duration::from_secs(today), "{saved} s in all on day {day}");
        }
    }

    #[test]
    fn a_newer_file_is_left_alone() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("cache.json");
        for (text, may_write) in [("{\"version\":2,\"ram_bytes\":7}", false), ("{", true), ("[]", true)] {
            std::fs::write(&path, text).expect("the folder is writable");
            let book = Book::at(&path);
            assert_eq!(book.page().ram_bytes, None, "{text}: nothing of it holds");
            assert_eq!(book.write(|page| page.ram_bytes = Some(1)).is_ok(), may_write, "{text}");
        }
    }
}

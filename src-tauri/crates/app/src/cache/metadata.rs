//! Metadata of the cache that is stored outside the tiers: the model name of each fingerprint, and limits from versions
//! before `config.toml`.
//!
//! The file is small and has a version. An unreadable file is overwritten only by the next change. A file of a newer
//! version is never overwritten.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cairn_disk::{Disk, Mode, RealDisk};
use cairn_tier::Fingerprint;
use serde::{Deserialize, Serialize};

use crate::settings::Origin;
use crate::settings::Settings;

/// The only version that this program writes and reads.
const VERSION: u32 = 1;
/// Most models whose names are stored.
const MODELS: usize = 256;
/// Hex digits of a fingerprint that identify a model.
const FINGERPRINT_DIGITS: usize = 16;

/// Content of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Content {
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

impl Content {
    /// Returns the stored limit of a setting's key, in the format of the environment variable.
    pub(super) fn limit(&self, key: &str) -> Option<String> {
        match key {
            "cache.ram" => self.ram_bytes.map(|bytes| bytes.to_string()),
            "cache.folder" => self.folder.as_ref().map(|folder| folder.display().to_string()),
            // The conversion is exact, because a GiB is a power of two.
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

/// The metadata file.
#[derive(Debug)]
pub(crate) struct CacheMetadata {
    path: PathBuf,
    content: Mutex<Content>,
    /// Whether the file has another format version. Such a file is never overwritten, because that would lose data.
    foreign: bool,
}

impl CacheMetadata {
    /// Opens `cache.json`, which is stored next to the tiers' secret.
    pub(crate) fn open(settings: &Settings) -> Self {
        Self::at(&settings.tiers.secret_file.with_file_name("cache.json"))
    }

    fn at(path: &Path) -> Self {
        let read = RealDisk.read(path).ok();
        let content = read.as_deref().and_then(|bytes| serde_json::from_slice::<Content>(bytes).ok());
        let foreign = content.as_ref().is_some_and(|content| content.version != VERSION);
        if foreign || read.is_some() && content.is_none() {
            tracing::warn!(path = %path.display(), "cannot read the cache metadata; using the defaults");
        }
        let content = content.filter(|_| !foreign).unwrap_or_default();
        Self { path: path.to_owned(), content: Mutex::new(Content { version: VERSION, ..content }), foreign }
    }

    /// Returns the settings with the stored limits, unless the environment sets them.
    pub(crate) fn apply_limits(&self, mut settings: Settings) -> Settings {
        let content = self.content().clone();
        let unset = |settings: &Settings, name| settings.origin(name) == Some(Origin::Default);
        if unset(&settings, "CAIRN_KV_RAM") {
            settings.tiers.values.ram_bytes = content.ram_bytes.or(settings.tiers.values.ram_bytes);
        }
        // The environment can disable the folder. Then no stored folder is used.
        if unset(&settings, "OLLAMA_KV_TIER_LOCAL") && settings.tiers.folder.is_some() {
            settings.tiers.folder = content.folder.or(settings.tiers.folder);
        }
        if unset(&settings, "OLLAMA_KV_TIER_LOCAL_GB") {
            settings.tiers.values.folder_bytes = content.folder_bytes.or(settings.tiers.values.folder_bytes);
        }
        settings
    }

    pub(super) fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock()
    }

    /// Applies a change and writes the file.
    pub(super) fn write(&self, change: impl FnOnce(&mut Content)) -> Result<(), String> {
        if self.foreign {
            return Err(format!("{} was written by a newer version of Cairn; update Cairn", self.path.display()));
        }
        let mut content = self.content();
        let mut changed = content.clone();
        change(&mut changed);
        let bytes = serde_json::to_vec_pretty(&changed).expect("texts and numbers can be written");
        if let Some(folder) = self.path.parent() {
            RealDisk.create_dir_all(folder).map_err(|error| error.to_string())?;
        }
        RealDisk.write_atomic(&self.path, &bytes, Mode::Private).map_err(|error| error.to_string())?;
        *content = changed;
        Ok(())
    }

    /// Stores the name by which a model was used last. If this fails, lists show no name.
    pub(crate) fn learn(&self, fingerprint: &Fingerprint, model: &str) {
        let key = short_fingerprint(fingerprint);
        if self.content().models.get(&key).is_some_and(|stored| stored == model) {
            return;
        }
        let written = self.write(|content| {
            while content.models.len() >= MODELS {
                content.models.pop_first();
            }
            content.models.insert(key, model.to_owned());
        });
        if let Err(error) = written {
            tracing::debug!(error, "cannot store the model's name");
        }
    }

    /// Returns the name by which a model was used last.
    pub(super) fn model(&self, fingerprint: &Fingerprint) -> Option<String> {
        self.content().models.get(&short_fingerprint(fingerprint)).cloned()
    }
}

fn short_fingerprint(fingerprint: &Fingerprint) -> String {
    hex::encode(&fingerprint.as_bytes()[..FINGERPRINT_DIGITS / 2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Env, Places, System};

    #[test]
    fn stored_limits_apply_unless_the_environment_sets_them() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let load = |variables: &[(&str, &str)]| {
            let home = [("HOME", home.path().to_str().expect("a plain path"))];
            let env = Env::of(home.iter().chain(variables).copied());
            Settings::load(&env, &Places::of(&env, System::Xdg).expect("there is a home"))
        };
        let metadata = CacheMetadata::open(&load(&[]));
        metadata
            .write(|content| (content.ram_bytes, content.folder) = (Some(5), Some("/k".into())))
            .expect("the home is writable");
        metadata.learn(&Fingerprint::from_bytes([7; 32]), "m:latest");

        let metadata = CacheMetadata::open(&load(&[]));
        assert_eq!(metadata.model(&Fingerprint::from_bytes([7; 32])).as_deref(), Some("m:latest"), "models have names");
        let tiers = metadata.apply_limits(load(&[])).tiers;
        assert_eq!(
            (tiers.values.ram_bytes, tiers.folder),
            (Some(5), Some("/k".into())),
            "the environment sets nothing"
        );
        let tiers = metadata.apply_limits(load(&[("CAIRN_KV_RAM", "9"), ("OLLAMA_KV_TIER_LOCAL", "/e")])).tiers;
        assert_eq!(
            (tiers.values.ram_bytes, tiers.folder),
            (Some(9), Some("/e".into())),
            "the environment takes precedence"
        );
    }

    #[test]
    fn newer_file_is_not_overwritten() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("cache.json");
        for (text, may_write) in [("{\"version\":2,\"ram_bytes\":7}", false), ("{", true), ("[]", true)] {
            std::fs::write(&path, text).expect("the folder is writable");
            let metadata = CacheMetadata::at(&path);
            assert_eq!(metadata.content().ram_bytes, None, "{text}: no value of it applies");
            assert_eq!(metadata.write(|content| content.ram_bytes = Some(1)).is_ok(), may_write, "{text}");
        }
    }
}

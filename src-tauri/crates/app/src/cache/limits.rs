//! Limits of the tiers that a user can change while the daemon runs: RAM, folder and size of the folder.
//!
//! Environment variables override them and are not changed here.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use cairn_tier::TierKind;

use super::handle::KvCache;
use crate::settings::{Origin, Row, SettingProblem, Settings, Value};

/// Largest accepted limit. A larger number is an input error.
const MAX_BYTES: u64 = 1 << 50;
/// Smallest useful limit: a smaller tier holds no context of any model.
const MIN_BYTES: u64 = 16 << 20;

/// A limit in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveLimit<T> {
    /// The limit; `None` if the default depends on the machine.
    pub value: Option<T>,
    /// The environment variable or flag that overrides the setting.
    pub variable: Option<&'static str>,
}

/// The limits in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheLimits {
    /// Bytes of RAM.
    pub ram_bytes: EffectiveLimit<u64>,
    /// Path of the folder.
    pub folder: EffectiveLimit<PathBuf>,
    /// Bytes of the folder.
    pub folder_bytes: EffectiveLimit<u64>,
    /// Whether a change takes effect only at the next start of the daemon.
    pub at_next_start: bool,
}

/// A change of limits. Absent fields stay unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitChange {
    /// Bytes of RAM; 0 for none.
    pub ram_bytes: Option<u64>,
    /// Path of the folder.
    pub folder: Option<PathBuf>,
    /// Bytes of the folder.
    pub folder_bytes: Option<u64>,
}

impl KvCache {
    /// Returns the limits in effect, and the environment variables that override them.
    #[must_use]
    pub fn limits(&self) -> CacheLimits {
        // Values that apply at the next start.
        let set = self.metadata.apply_limits(self.settings.reload()).tiers;
        let tiers = &self.settings.tiers;
        let status = self.kept.as_ref().map(|kept| kept.tiers.status());
        let budget = |tier: TierKind| {
            let mut tiers = status.iter().flat_map(|status| &status.tiers);
            tiers.find(|status| status.kind == tier).map(|status| status.budget_bytes)
        };
        let (ram, folder_bytes) = (budget(TierKind::Ram), budget(TierKind::Ssd));
        let waits =
            |set: Option<u64>, holds: Option<u64>, name| set.is_some() && set != holds && self.sets(name).is_none();
        let off = || self.sets("OLLAMA_KV_TIERING").filter(|_| tiers.folder.is_none());
        CacheLimits {
            at_next_start: set.folder.is_some() && set.folder != tiers.folder
                || waits(set.values.ram_bytes, ram, "CAIRN_KV_RAM")
                || waits(set.values.folder_bytes, folder_bytes, "OLLAMA_KV_TIER_LOCAL_GB"),
            ram_bytes: EffectiveLimit { value: ram, variable: self.sets("CAIRN_KV_RAM") },
            folder: EffectiveLimit {
                value: set.folder.or_else(|| tiers.folder.clone()),
                variable: self.sets("OLLAMA_KV_TIER_LOCAL").or_else(off),
            },
            folder_bytes: EffectiveLimit {
                value: folder_bytes.or(set.values.folder_bytes),
                variable: self.sets("OLLAMA_KV_TIER_LOCAL_GB"),
            },
        }
    }

    /// The settings that a change of limits sets, by key.
    ///
    /// # Errors
    /// If a limit is invalid, or is set in the environment.
    pub(crate) fn setting_changes(
        &self,
        change: LimitChange,
    ) -> Result<BTreeMap<String, Option<Value>>, SettingProblem> {
        self.is_free_to(&change)?;
        self.check_limits(&change)?;
        let folder = change.folder.map(|folder| match folder.into_os_string().into_string() {
            Ok(folder) => Ok(Value::Text(folder)),
            Err(folder) => {
                let reason = "config.toml has only paths that are Unicode".to_owned();
                Err(SettingProblem::FolderUnusable { path: folder.into(), reason })
            }
        });
        let values = [
            ("cache.ram", change.ram_bytes.map(Value::Number)),
            ("cache.folder", folder.transpose()?),
            ("cache.folder_size", change.folder_bytes.map(Value::Number)),
        ];
        let asked = values.into_iter().filter(|(_, value)| value.is_some());
        Ok(asked.map(|(key, value)| (key.to_owned(), value)).collect())
    }

    /// Checks a setting of the cache; other settings pass.
    pub(crate) fn check_setting(&self, row: &Row, next: &Settings) -> Result<(), SettingProblem> {
        let change = match row.key {
            Some("cache.ram") => LimitChange { ram_bytes: next.tiers.values.ram_bytes, ..LimitChange::default() },
            Some("cache.folder_size") => {
                let folder_bytes = next.tiers.values.folder_bytes.filter(|bytes| *bytes > 0);
                LimitChange { folder_bytes, ..LimitChange::default() }
            }
            Some("cache.folder") => LimitChange { folder: next.tiers.folder.clone(), ..LimitChange::default() },
            _ => return Ok(()),
        };
        self.check_limits(&change)
    }

    /// Applies a setting of the cache. Returns whether it is in effect now.
    pub(crate) fn apply_setting(&self, row: &Row, next: &Settings) -> bool {
        match row.key {
            Some("cache.ram") => next.tiers.values.ram_bytes.is_some_and(|bytes| self.set_budget(TierKind::Ram, bytes)),
            Some("cache.folder_size") => {
                let bytes = next.tiers.values.folder_bytes.filter(|bytes| *bytes > 0);
                bytes.is_some_and(|bytes| self.set_budget(TierKind::Ssd, bytes))
            }
            _ => false,
        }
    }

    /// Changes the budget of a tier. Returns whether the tier exists.
    pub(crate) fn set_budget(&self, tier: TierKind, bytes: u64) -> bool {
        let Some(kept) = &self.kept else { return false };
        let there = kept.tiers.status().tiers.iter().any(|status| status.kind == tier);
        if there {
            kept.tiers.set_budget(tier, bytes);
        }
        there
    }

    /// Returns the text of a limit that a version before `config.toml` stored.
    pub(crate) fn older_limit(&self, row: &Row) -> Option<String> {
        self.metadata.content().limit(row.key?)
    }

    /// Removes limits that a version before `config.toml` stored, after `config.toml` has them.
    pub(crate) fn forget_limits(&self, keys: &[&str]) {
        let keys = || keys.iter().copied();
        if keys().any(|key| self.metadata.content().limit(key).is_some())
            && let Err(error) = self.metadata.write(|content| keys().for_each(|key| content.forget(key)))
        {
            tracing::warn!(error, "cannot remove an old limit of the cache");
        }
    }

    /// Returns the environment variable or flag that sets `name`, if any.
    fn sets(&self, name: &'static str) -> Option<&'static str> {
        match self.settings.origin(name) {
            Some(Origin::Environment(variable)) => Some(variable),
            Some(Origin::Flag) => Some("--set"),
            _ => None,
        }
    }

    fn is_free_to(&self, change: &LimitChange) -> Result<(), SettingProblem> {
        if change.ram_bytes.is_some() {
            self.is_free("CAIRN_KV_RAM")?;
        }
        if change.folder_bytes.is_some() {
            self.is_free("OLLAMA_KV_TIER_LOCAL_GB")?;
        }
        if change.folder.is_some() {
            self.is_free("OLLAMA_KV_TIER_LOCAL")?;
            if self.settings.tiers.folder.is_none() {
                self.is_free("OLLAMA_KV_TIERING")?;
            }
        }
        Ok(())
    }

    pub(crate) fn check_limits(&self, change: &LimitChange) -> Result<(), SettingProblem> {
        if let Some(bytes) = change.ram_bytes {
            let most = self.memory_bytes;
            if bytes > most || (bytes > 0 && bytes < MIN_BYTES) {
                return Err(SettingProblem::SizeOutOfRange { min_bytes: MIN_BYTES, max_bytes: most, or_zero: true });
            }
        }
        if change.folder_bytes.is_some_and(|bytes| !(MIN_BYTES..=MAX_BYTES).contains(&bytes)) {
            let (min_bytes, max_bytes) = (MIN_BYTES, MAX_BYTES);
            return Err(SettingProblem::SizeOutOfRange { min_bytes, max_bytes, or_zero: false });
        }
        if let Some(folder) = &change.folder {
            check_folder(folder, &self.library.roots())
                .map_err(|reason| SettingProblem::FolderUnusable { path: folder.clone(), reason })?;
        }
        Ok(())
    }

    fn is_free(&self, name: &'static str) -> Result<(), SettingProblem> {
        self.sets(name).map_or(Ok(()), |variable| Err(SettingProblem::Overridden(variable)))
    }
}

/// Checks that a folder can hold chunks; creates it if it does not exist. Returns the reason if it cannot.
pub(super) fn check_folder(folder: &Path, libraries: &[PathBuf]) -> Result<(), String> {
    let plain = |part: Component<'_>| matches!(part, Component::Prefix(_) | Component::RootDir | Component::Normal(_));
    if !folder.is_absolute() || !folder.components().all(plain) {
        return Err("the path must be absolute, without `..`".to_owned());
    }
    if folder.parent().is_none() {
        return Err("the path is the root of a file system".to_owned());
    }
    let inside = |folder: &Path| libraries.iter().find(|library| meet(library, folder));
    let refused = |library: &PathBuf| format!("it overlaps the library {}", library.display());
    if let Some(library) = inside(folder) {
        return Err(refused(library));
    }
    let is_new = !folder.exists();
    let undo = |why: String| {
        // The folder is empty. If it cannot be removed, it does no harm.
        let _ = is_new.then(|| std::fs::remove_dir(folder));
        why
    };
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    // A link may lead into a library.
    let real = folder.canonicalize().map_err(|error| undo(error.to_string()))?;
    if let Some(library) = inside(&real) {
        return Err(undo(refused(library)));
    }
    tempfile_in(&real).map_err(|error| undo(format!("cannot write to it: {error}")))
}

fn meet(library: &Path, folder: &Path) -> bool {
    let real = library.canonicalize().unwrap_or_else(|_| library.to_owned());
    [library, real.as_path()].iter().any(|library| folder.starts_with(library) || library.starts_with(folder))
}

/// Creates a file in the folder and removes it.
fn tempfile_in(folder: &Path) -> std::io::Result<()> {
    let path = folder.join(format!(".cairn-{}", std::process::id()));
    std::fs::File::create_new(&path)?;
    std::fs::remove_file(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_check_refuses_invalid_folders_and_leaves_nothing() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let home = home.path().canonicalize().expect("the folder exists");
        let library = home.join("models");
        std::fs::create_dir(&library).expect("the home is writable");
        let check = |folder: &Path, part: &str| {
            let error = check_folder(folder, std::slice::from_ref(&library)).expect_err("the folder is invalid");
            assert!(error.contains(part), "{}: {error}", folder.display());
        };
        check(Path::new("kv"), "absolute");
        check(&home.join("a/../models/kv"), "without `..`");
        check(Path::new("/"), "root");
        check(&library, "library");
        check(&library.join("kv"), "library");
        check(&home, "library");
        assert!(!library.join("kv").exists(), "no folder was created");
        std::fs::write(home.join("file"), "").expect("the home is writable");
        check(&home.join("file/kv"), "");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&library, home.join("link")).expect("links can be made");
            check(&home.join("link/kv"), "library");
            assert!(!library.join("kv").exists(), "nothing is left behind");
        }
        let good = home.join("deep/kv");
        assert_eq!(check_folder(&good, &[library]), Ok(()), "a separate folder");
        assert_eq!(std::fs::read_dir(&good).expect("the folder exists").count(), 0, "nothing is left in it");
    }
}

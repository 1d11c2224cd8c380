//! How much the tiers may take and where, as a user of the daemon sets it while it runs.
//!
//! What the environment says goes before it, and is not changed here.

use std::path::{Component, Path, PathBuf};

use cairn_tier::Place;

use super::CacheError;
use crate::settings::{Origin, Row, TABLE, Value};
use crate::{App, Error};

/// More than this is no number that anybody meant.
const MOST_BYTES: u64 = 1 << 50;
/// Less than this holds no context of any model.
const LEAST_BYTES: u64 = 16 << 20;

/// A limit that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limited<T> {
    /// The limit; none where the default depends on the machine.
    pub value: Option<T>,
    /// The variable that sets it, and goes before what is set here.
    pub variable: Option<&'static str>,
}

/// The limits that hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheLimits {
    /// Bytes of RAM.
    pub ram_bytes: Limited<u64>,
    /// Where the folder is.
    pub folder: Limited<PathBuf>,
    /// Bytes of the folder.
    pub folder_bytes: Limited<u64>,
    /// Whether some of it holds only when the daemon is started anew.
    pub at_next_start: bool,
}

/// What to change; what is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitChange {
    /// Bytes of RAM; 0 for none.
    pub ram_bytes: Option<u64>,
    /// Where the folder is.
    pub folder: Option<PathBuf>,
    /// Bytes of the folder.
    pub folder_bytes: Option<u64>,
}

/// Why a limit cannot be.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// The environment says otherwise.
    #[error("{0} is set in the daemon's environment, which goes before what is set here")]
    Environment(&'static str),
    /// A number that nobody meant.
    #[error("{what} cannot be {bytes} bytes: it must be {rule}")]
    Bytes {
        /// Of what.
        what: &'static str,
        /// What was asked for.
        bytes: u64,
        /// What it must be.
        rule: String,
    },
    /// A folder that cannot be used.
    #[error("{} cannot be the folder: {why}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// It cannot be remembered.
    #[error("the change could not be remembered: {0}")]
    Unwritten(String),
}

impl App {
    /// The limits that hold, and what sets them.
    #[must_use]
    pub fn cache_limits(&self) -> CacheLimits {
        // As they are set for the next start.
        let set = self.book.applied(self.settings.anew()).tiers;
        let tiers = &self.settings.tiers;
        let status = self.kept.as_ref().map(|kept| kept.tiers.status());
        let budget = |place: Place| {
            let places = status.iter().flat_map(|status| &status.places);
            places.into_iter().find(|status| status.place == place).map(|status| status.budget_bytes)
        };
        let (ram, folder_bytes) = (budget(Place::Ram), budget(Place::Ssd));
        let waits =
            |set: Option<u64>, holds: Option<u64>, name| set.is_some() && set != holds && self.sets(name).is_none();
        let off = || self.sets("OLLAMA_KV_TIERING").filter(|_| tiers.folder.is_none());
        CacheLimits {
            at_next_start: set.folder.is_some() && set.folder != tiers.folder
                || waits(set.ram_bytes, ram, "CAIRN_KV_RAM")
                || waits(set.folder_bytes, folder_bytes, "OLLAMA_KV_TIER_LOCAL_GB"),
            ram_bytes: Limited { value: ram, variable: self.sets("CAIRN_KV_RAM") },
            folder: Limited {
                value: set.folder.or_else(|| tiers.folder.clone()),
                variable: self.sets("OLLAMA_KV_TIER_LOCAL").or_else(off),
            },
            folder_bytes: Limited {
                value: folder_bytes.or(set.folder_bytes),
                variable: self.sets("OLLAMA_KV_TIER_LOCAL_GB"),
            },
        }
    }

    /// Changes limits, all of them or none, in `config.toml`. Bytes hold at once where there is such a tier; the folder, and a tier
    /// that there was not, at the next start.
    ///
    /// # Errors
    /// Where one of them cannot be, or cannot be remembered.
    pub fn set_cache_limits(&self, change: LimitChange) -> Result<CacheLimits, Error> {
        self.is_free_to(&change).map_err(CacheError::from)?;
        self.check_limits(&change).map_err(CacheError::from)?;
        let folder = change.folder.map(|folder| match folder.into_os_string().into_string() {
            Ok(folder) => Ok(Value::Text(folder)),
            Err(folder) => {
                let why = "config.toml has only paths that are Unicode".to_owned();
                Err(CacheError::from(LimitError::Folder { path: folder.into(), why }))
            }
        });
        let values = [
            ("cache.ram", change.ram_bytes.map(Value::Number)),
            ("cache.folder", folder.transpose()?),
            ("cache.folder_size", change.folder_bytes.map(Value::Number)),
        ];
        let asked = values.into_iter().filter(|(_, value)| value.is_some());
        self.change_settings(&asked.map(|(key, value)| (key.to_owned(), value)).collect())?;
        Ok(self.cache_limits())
    }

    /// Has a tier go by another budget, if there is such a tier.
    pub(crate) fn set_budget(&self, place: Place, bytes: u64) -> bool {
        let Some(kept) = &self.kept else { return false };
        let there = kept.tiers.status().places.iter().any(|status| status.place == place);
        if there {
            kept.tiers.set_budget(place, bytes);
        }
        there
    }

    /// The text of a limit that a version before `config.toml` was told to remember.
    pub(crate) fn kept_limit(&self, row: &Row) -> Option<String> {
        self.book.page().limit(row.key?)
    }

    /// Forgets limits that a version before `config.toml` remembered, where the file says them now.
    pub(crate) fn forget_limits(&self, rows: &[usize]) {
        let keys = || rows.iter().filter_map(|at| TABLE[*at].key);
        if keys().any(|key| self.book.page().limit(key).is_some())
            && let Err(error) = self.book.write(|page| keys().for_each(|key| page.forget(key)))
        {
            tracing::warn!(error, "an older limit of the cache stays remembered");
        }
    }

    /// The variable that is set in the environment, if it is.
    fn sets(&self, name: &'static str) -> Option<&'static str> {
        match self.settings.origin(name) {
            Some(Origin::Environment(variable)) => Some(variable),
            Some(Origin::Flag) => Some("--set"),
            _ => None,
        }
    }

    fn is_free_to(&self, change: &LimitChange) -> Result<(), LimitError> {
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

    pub(crate) fn check_limits(&self, change: &LimitChange) -> Result<(), LimitError> {
        if let Some(bytes) = change.ram_bytes {
            let most = self.memory_bytes;
            if bytes > most || (bytes > 0 && bytes < LEAST_BYTES) {
                let rule = format!("0, or from {LEAST_BYTES} to the {most} of this machine's memory");
                return Err(LimitError::Bytes { what: "the RAM tier", bytes, rule });
            }
        }
        if let Some(bytes) = change.folder_bytes
            && !(LEAST_BYTES..=MOST_BYTES).contains(&bytes)
        {
            let rule = format!("from {LEAST_BYTES} to {MOST_BYTES}");
            return Err(LimitError::Bytes { what: "the folder", bytes, rule });
        }
        if let Some(folder) = &change.folder {
            let libraries: Vec<PathBuf> = self.libraries().into_iter().map(|library| library.root).collect();
            check_folder(folder, &libraries).map_err(|why| LimitError::Folder { path: folder.clone(), why })?;
        }
        Ok(())
    }

    fn is_free(&self, name: &'static str) -> Result<(), LimitError> {
        self.sets(name).map_or(Ok(()), |variable| Err(LimitError::Environment(variable)))
    }
}

/// Says why a folder cannot hold chunks. Makes it where it is not there.
pub(super) fn check_folder(folder: &Path, libraries: &[PathBuf]) -> Result<(), String> {
    let plain = |part: Component<'_>| matches!(part, Component::Prefix(_) | Component::RootDir | Component::Normal(_));
    if !folder.is_absolute() || !folder.components().all(plain) {
        return Err("it must be a path from the root, without `..`".to_owned());
    }
    if folder.parent().is_none() {
        return Err("that is the root of a file system".to_owned());
    }
    let inside = |folder: &Path| libraries.iter().find(|library| meet(library, folder));
    let refused = |library: &PathBuf| format!("it and the library {} lie in each other", library.display());
    if let Some(library) = inside(folder) {
        return Err(refused(library));
    }
    let is_new = !folder.exists();
    let undo = |why: String| {
        // Nothing is in it yet, and where it cannot be taken away it does no harm.
        let _ = is_new.then(|| std::fs::remove_dir(folder));
        why
    };
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    // A link may lead into a library.
    let real = folder.canonicalize().map_err(|error| undo(error.to_string()))?;
    if let Some(library) = inside(&real) {
        return Err(undo(refused(library)));
    }
    tempfile_in(&real).map_err(|error| undo(format!("it cannot be written to: {error}")))
}

fn meet(library: &Path, folder: &Path) -> bool {
    let real = library.canonicalize().unwrap_or_else(|_| library.to_owned());
    [library, real.as_path()].iter().any(|library| folder.starts_with(library) || library.starts_with(folder))
}

/// Makes a file there and takes it away.
fn tempfile_in(folder: &Path) -> std::io::Result<()> {
    let path = folder.join(format!(".cairn-{}", std::process::id()));
    std::fs::File::create_new(&path)?;
    std::fs::remove_file(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_cannot_be_are_refused_and_leave_nothing() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let home = home.path().canonicalize().expect("it is there");
        let library = home.join("models");
        std::fs::create_dir(&library).expect("the home is writable");
        let check = |folder: &Path, part: &str| {
            let error = check_folder(folder, std::slice::from_ref(&library)).expect_err("it must be refused");
            assert!(error.contains(part), "{}: {error}", folder.display());
        };
        check(Path::new("kv"), "from the root");
        check(&home.join("a/../models/kv"), "without `..`");
        check(Path::new("/"), "root");
        check(&library, "library");
        check(&library.join("kv"), "library");
        check(&home, "library");
        assert!(!library.join("kv").exists(), "nothing was made");
        std::fs::write(home.join("file"), "").expect("the home is writable");
        check(&home.join("file/kv"), "");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&library, home.join("link")).expect("links can be made");
            check(&home.join("link/kv"), "library");
            assert!(!library.join("kv").exists(), "nothing is left behind");
        }
        let good = home.join("deep/kv");
        assert_eq!(check_folder(&good, &[library]), Ok(()), "one of its own");
        assert_eq!(std::fs::read_dir(&good).expect("it was made").count(), 0, "nothing is left in it");
    }
}

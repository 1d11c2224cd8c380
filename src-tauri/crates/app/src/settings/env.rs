//! Environment variables as a value: those of the process in `main`, a list in tests.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Environment variables.
#[derive(Debug, Clone, Default)]
pub struct Env {
    variables: BTreeMap<OsString, OsString>,
    home: Option<PathBuf>,
}

impl Env {
    /// The environment of this process.
    #[must_use]
    pub fn real() -> Self {
        // Without `HOME`, this reads the system's user database.
        Self { variables: std::env::vars_os().collect(), home: std::env::home_dir() }
    }

    /// An environment of exactly these variables. `HOME` is the home folder.
    pub fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let variables: BTreeMap<OsString, OsString> =
            pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let home = variables.get(OsStr::new("HOME")).map(PathBuf::from);
        Self { variables, home }
    }

    /// Sets a variable.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.into(), value.into());
    }

    /// A variable's text without surrounding blanks and quotes; `None` if it is missing, empty or not Unicode.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        let text = self.variables.get(OsStr::new(name))?.to_str()?;
        let text = text.trim().trim_matches(['"', '\'']).trim();
        (!text.is_empty()).then_some(text)
    }

    /// All variables.
    pub(super) fn all(&self) -> Vec<(OsString, OsString)> {
        self.variables.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// The names of all variables that begin with a prefix.
    pub(super) fn names<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.variables.keys().filter_map(|name| name.to_str()).filter(move |name| name.starts_with(prefix))
    }

    /// Whether a variable is set, but empty.
    #[must_use]
    pub fn is_blank(&self, name: &str) -> bool {
        self.variables.contains_key(OsStr::new(name)) && self.text(name).is_none()
    }

    /// A variable as a path, which need not be Unicode; `None` if it is missing or empty.
    #[must_use]
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        let path = self.variables.get(OsStr::new(name))?;
        (!path.is_empty()).then(|| PathBuf::from(path))
    }

    /// A variable as an absolute path. A relative path is resolved against the working directory of this process,
    /// because the daemon and its clients have different ones.
    #[must_use]
    pub fn full_path(&self, name: &str) -> Option<PathBuf> {
        let path = self.path(name)?;
        Some(std::path::absolute(&path).unwrap_or(path))
    }

    /// A variable as a list of absolute paths, in the format of `PATH`. Empty entries are dropped.
    #[must_use]
    pub fn full_paths(&self, name: &str) -> Vec<PathBuf> {
        let list = self.path(name).unwrap_or_default();
        let paths = std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty());
        paths.map(|path| std::path::absolute(&path).unwrap_or(path)).collect()
    }

    /// The user's home folder.
    #[must_use]
    pub fn home(&self) -> Option<&PathBuf> {
        self.home.as_ref().filter(|home| !home.as_os_str().is_empty())
    }
}

//! The environment, passed in: the variables of this process in `main`, a list in tests.

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
        // Where `HOME` is missing, this asks the system's list of users.
        Self { variables: std::env::vars_os().collect(), home: std::env::home_dir() }
    }

    /// Exactly these variables. The home folder is what `HOME` says.
    pub fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let variables: BTreeMap<OsString, OsString> =
            pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let home = variables.get(OsStr::new("HOME")).map(PathBuf::from);
        Self { variables, home }
    }

    /// Says a variable anew.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.into(), value.into());
    }

    /// A variable's text, without blanks and quotes around it; `None` when it is missing, empty or no Unicode.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        let text = self.variables.get(OsStr::new(name))?.to_str()?;
        let text = text.trim().trim_matches(['"', '\'']).trim();
        (!text.is_empty()).then_some(text)
    }

    /// Is a variable there, with nothing in it?
    #[must_use]
    pub fn is_blank(&self, name: &str) -> bool {
        self.variables.contains_key(OsStr::new(name)) && self.text(name).is_none()
    }

    /// A variable as a path, which need not be Unicode; `None` when it is missing or empty.
    #[must_use]
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        let path = self.variables.get(OsStr::new(name))?;
        (!path.is_empty()).then(|| PathBuf::from(path))
    }

    /// A variable as a path, seen from the folder that this process was started in: a daemon leaves that folder, and its
    /// clients are in others.
    #[must_use]
    pub fn full_path(&self, name: &str) -> Option<PathBuf> {
        let path = self.path(name)?;
        Some(std::path::absolute(&path).unwrap_or(path))
    }

    /// A variable as a list of such paths, written as the system writes `PATH`; empty ones are left out.
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

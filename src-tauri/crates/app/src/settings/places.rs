//! The folders in which Cairn stores its files: one table for all systems.
//!
//! | place   | Linux and others                       | macOS                                 | Windows                  |
//! |---------|----------------------------------------|---------------------------------------|--------------------------|
//! | data    | `$XDG_DATA_HOME/cairn`                 | `~/Library/Application Support/Cairn` | `%LOCALAPPDATA%\Cairn`   |
//! | config  | `$XDG_CONFIG_HOME/cairn`               | the same                              | the same                 |
//! | cache   | `$XDG_CACHE_HOME/cairn`                | `~/Library/Caches/Cairn`              | `...\Cairn\cache`        |
//! | state   | `$XDG_STATE_HOME/cairn`                | data, `state`                         | `...\Cairn\state`        |
//! | logs    | state, `logs`                          | `~/Library/Logs/Cairn`                | state, `logs`            |
//! | runtime | `$XDG_RUNTIME_DIR/cairn`, else state, `run` | state, `run`                     | state, `run`             |
//!
//! `CAIRN_HOME` moves all of them below one folder. This module creates no folder: each writer creates its own.

use std::path::{Path, PathBuf};

use crate::settings::env::Env;

/// The folders of one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Models and chats.
    pub data: PathBuf,
    /// `config.toml`.
    pub config: PathBuf,
    /// Data that can be computed or downloaded again.
    pub cache: PathBuf,
    /// Data that survives a restart but is of no use on another machine: the history of the prompt.
    pub state: PathBuf,
    /// The daemon's log.
    pub logs: PathBuf,
    /// `daemon.lock` and `daemon.json`.
    pub runtime: PathBuf,
    /// Ollama's own library, which is read too; `None` if `CAIRN_HOME` is set.
    pub ollama_models: Option<PathBuf>,
}

/// Kinds of operating systems, as far as their folders differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// Linux, the BSDs: the XDG base directories.
    Xdg,
    /// macOS.
    Mac,
    /// Windows.
    Windows,
}

/// The environment names no home folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot find the home folder: HOME is not set; set HOME, or set CAIRN_HOME to a folder for all files")]
pub struct NoHome;

impl System {
    /// The system that this program was built for.
    #[must_use]
    pub fn this() -> Self {
        if cfg!(windows) {
            Self::Windows
        } else if cfg!(target_os = "macos") {
            Self::Mac
        } else {
            Self::Xdg
        }
    }
}

impl Places {
    /// The folders that an environment names.
    ///
    /// # Errors
    /// [`NoHome`] if it names no home folder.
    pub fn of(env: &Env, system: System) -> Result<Self, NoHome> {
        if let Some(home) = env.full_path("CAIRN_HOME") {
            return Ok(Self::below(&home));
        }
        let home = env.home();
        let ollama_models = home.map(|home| home.join(".ollama").join("models"));
        let at_home = |folder: &str| home.map(|home| home.join(folder)).ok_or(NoHome);
        match system {
            System::Xdg => {
                // The specification demands that a relative path in these variables is ignored.
                let xdg = |name: &str| env.path(name).filter(|path| path.is_absolute()).map(|path| path.join("cairn"));
                let place = |name: &str, folder: &str| xdg(name).map_or_else(|| at_home(folder), Ok);
                let state = place("XDG_STATE_HOME", ".local/state/cairn")?;
                Ok(Self {
                    data: place("XDG_DATA_HOME", ".local/share/cairn")?,
                    config: place("XDG_CONFIG_HOME", ".config/cairn")?,
                    cache: place("XDG_CACHE_HOME", ".cache/cairn")?,
                    logs: state.join("logs"),
                    runtime: xdg("XDG_RUNTIME_DIR").unwrap_or_else(|| state.join("run")),
                    state,
                    ollama_models,
                })
            }
            System::Mac => {
                let data = at_home("Library/Application Support/Cairn")?;
                let logs = at_home("Library/Logs/Cairn")?;
                let cache = at_home("Library/Caches/Cairn")?;
                let state = data.join("state");
                Ok(Self { config: data.clone(), cache, logs, runtime: state.join("run"), state, data, ollama_models })
            }
            System::Windows => {
                let data = match env.path("LOCALAPPDATA") {
                    Some(folder) => folder.join("Cairn"),
                    None => at_home("AppData/Local/Cairn")?,
                };
                Ok(Self { ollama_models, ..Self::below(&data) })
            }
        }
    }

    fn below(home: &Path) -> Self {
        let state = home.join("state");
        Self {
            data: home.to_owned(),
            config: home.to_owned(),
            cache: home.join("cache"),
            logs: state.join("logs"),
            runtime: home.join("run"),
            state,
            ollama_models: None,
        }
    }

    /// Cairn's own library of models.
    #[must_use]
    pub fn models(&self) -> PathBuf {
        self.data.join("models")
    }

    /// The file of stored settings.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.config.join("config.toml")
    }

    /// The lock file that a running daemon holds.
    #[must_use]
    pub fn daemon_lock(&self) -> PathBuf {
        self.runtime.join("daemon.lock")
    }

    /// The file in which the daemon publishes its address and token.
    #[must_use]
    pub fn daemon_file(&self) -> PathBuf {
        self.runtime.join("daemon.json")
    }

    /// The daemon's log.
    #[must_use]
    pub fn log_file(&self) -> PathBuf {
        self.logs.join("cairn.log")
    }

    /// Input history of the prompt of `cairn run`.
    #[must_use]
    pub fn history_file(&self) -> PathBuf {
        self.state.join("history")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const N: usize>(variables: [(&str, &str); N], system: System, expected: [&str; 6]) {
        let places = Places::of(&Env::of(variables), system).expect("a home folder");
        let found = [&places.data, &places.config, &places.cache, &places.state, &places.logs, &places.runtime];
        assert_eq!(found, expected.map(Path::new), "data, config, cache, state, logs, runtime");
    }

    #[test]
    fn xdg_folders_follow_home_and_variables() {
        check(
            [("HOME", "/home/a")],
            System::Xdg,
            [
                "/home/a/.local/share/cairn",
                "/home/a/.config/cairn",
                "/home/a/.cache/cairn",
                "/home/a/.local/state/cairn",
                "/home/a/.local/state/cairn/logs",
                "/home/a/.local/state/cairn/run",
            ],
        );
        check(
            [
                ("XDG_DATA_HOME", "/d"),
                ("XDG_CONFIG_HOME", "/c"),
                ("XDG_CACHE_HOME", "/k"),
                ("XDG_STATE_HOME", "/s"),
                ("XDG_RUNTIME_DIR", "/r"),
            ],
            System::Xdg,
            ["/d/cairn", "/c/cairn", "/k/cairn", "/s/cairn", "/s/cairn/logs", "/r/cairn"],
        );
    }

    #[test]
    fn mac_and_windows_folders_follow_conventions() {
        let data = "/Users/a/Library/Application Support/Cairn";
        check(
            [("HOME", "/Users/a")],
            System::Mac,
            [
                data,
                data,
                "/Users/a/Library/Caches/Cairn",
                &format!("{data}/state"),
                "/Users/a/Library/Logs/Cairn",
                &format!("{data}/state/run"),
            ],
        );
        check(
            [("LOCALAPPDATA", "/L")],
            System::Windows,
            ["/L/Cairn", "/L/Cairn", "/L/Cairn/cache", "/L/Cairn/state", "/L/Cairn/state/logs", "/L/Cairn/run"],
        );
    }

    #[test]
    fn cairn_home_moves_all_folders() {
        for system in [System::Xdg, System::Mac, System::Windows] {
            check(
                [("CAIRN_HOME", "/x"), ("HOME", "/home/a"), ("XDG_RUNTIME_DIR", "/r")],
                system,
                ["/x", "/x", "/x/cache", "/x/state", "/x/state/logs", "/x/run"],
            );
        }
    }

    #[test]
    fn home_folder_missing_is_an_error() {
        assert_eq!(Places::of(&Env::of([]), System::Xdg), Err(NoHome), "no variables");
        let relative = Env::of([("XDG_DATA_HOME", "d"), ("HOME", "/h")]);
        let data = Places::of(&relative, System::Xdg).map(|places| places.data);
        assert_eq!(data, Ok(PathBuf::from("/h/.local/share/cairn")), "a relative folder is ignored");
    }

    #[test]
    fn home_relative_path_is_resolved_at_start() {
        let places = Places::of(&Env::of([("CAIRN_HOME", "here")]), System::Xdg).unwrap();
        assert_eq!(
            places.data,
            std::path::absolute("here").unwrap(),
            "a daemon runs in a different folder than its clients"
        );
    }
}

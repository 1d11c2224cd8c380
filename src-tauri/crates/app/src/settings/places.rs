//! Where Cairn keeps what: one table for all systems.
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
//! `CAIRN_HOME` moves all of them below one folder. Nothing is made here: whoever writes makes the folder first.

use std::path::{Path, PathBuf};

use crate::settings::env::Env;

/// The folders of one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Models and chats.
    pub data: PathBuf,
    /// `config.toml`.
    pub config: PathBuf,
    /// What can be made again.
    pub cache: PathBuf,
    /// What should outlive a restart and is of no use elsewhere: the prompt's history.
    pub state: PathBuf,
    /// The daemon's log.
    pub logs: PathBuf,
    /// `daemon.lock` and `daemon.json`.
    pub runtime: PathBuf,
    /// The library that Ollama itself keeps, which is read too; none when `CAIRN_HOME` moved everything.
    pub ollama_models: Option<PathBuf>,
}

/// Kinds of systems, as far as places differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// Linux, the BSDs: the XDG base directories.
    Xdg,
    /// macOS.
    Mac,
    /// Windows.
    Windows,
}

/// There is no folder to keep anything in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this user has no home folder: set HOME, or CAIRN_HOME to a folder for everything that Cairn keeps")]
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
    /// The places that an environment asks for.
    ///
    /// # Errors
    /// [`NoHome`] when it names none.
    pub fn of(env: &Env, system: System) -> Result<Self, NoHome> {
        if let Some(home) = env.full_path("CAIRN_HOME") {
            return Ok(Self::below(&home));
        }
        let home = env.home();
        let ollama_models = home.map(|home| home.join(".ollama").join("models"));
        let at_home = |folder: &str| home.map(|home| home.join(folder)).ok_or(NoHome);
        match system {
            System::Xdg => {
                // The specification: a relative path in these variables is to be ignored.
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

    /// Our own library of models.
    #[must_use]
    pub fn models(&self) -> PathBuf {
        self.data.join("models")
    }

    /// What people set for good.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.config.join("config.toml")
    }

    /// Held by the daemon for as long as it lives.
    #[must_use]
    pub fn daemon_lock(&self) -> PathBuf {
        self.runtime.join("daemon.lock")
    }

    /// Where the daemon says how to reach it.
    #[must_use]
    pub fn daemon_file(&self) -> PathBuf {
        self.runtime.join("daemon.json")
    }

    /// The daemon's log.
    #[must_use]
    pub fn log_file(&self) -> PathBuf {
        self.logs.join("cairn.log")
    }

    /// What was typed at the prompt of `cairn run`.
    #[must_use]
    pub fn history_file(&self) -> PathBuf {
        self.state.join("history")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const N: usize>(variables: [(&str, &str); N], system: System, expected: [&str; 6]) {
        let places = Places::of(&Env::of(variables), system).expect("there is a home");
        let found = [&places.data, &places.config, &places.cache, &places.state, &places.logs, &places.runtime];
        assert_eq!(found, expected.map(Path::new), "data, config, cache, state, logs, runtime");
    }

    #[test]
    fn xdg_folders() {
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
    fn other_systems() {
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
    fn one_variable_moves_all() {
        for system in [System::Xdg, System::Mac, System::Windows] {
            check(
                [("CAIRN_HOME", "/x"), ("HOME", "/home/a"), ("XDG_RUNTIME_DIR", "/r")],
                system,
                ["/x", "/x", "/x/cache", "/x/state", "/x/state/logs", "/x/run"],
            );
        }
    }

    #[test]
    fn no_home_is_said() {
        assert_eq!(Places::of(&Env::of([]), System::Xdg), Err(NoHome), "nothing says where");
        let relative = Env::of([("XDG_DATA_HOME", "d"), ("HOME", "/h")]);
        let data = Places::of(&relative, System::Xdg).map(|places| places.data);
        assert_eq!(data, Ok(PathBuf::from("/h/.local/share/cairn")), "a relative folder is ignored");
    }

    #[test]
    fn a_relative_home_is_seen_from_where_the_program_started() {
        let places = Places::of(&Env::of([("CAIRN_HOME", "here")]), System::Xdg).unwrap();
        assert_eq!(
            places.data,
            std::path::absolute("here").unwrap(),
            "a daemon runs in another folder than its clients"
        );
    }
}

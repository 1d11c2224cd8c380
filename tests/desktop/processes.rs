//! Processes of a test, from `/proc`, identified by an inherited environment variable.

use std::path::PathBuf;

/// A process.
pub(crate) struct Process {
    pub(crate) pid: u32,
    folder: PathBuf,
}

/// Returns the processes with this environment variable, `NAME=VALUE`.
pub(crate) fn with(variable: &str) -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").expect("/proc is mounted").flatten();
    let processes = entries
        .filter_map(|entry| Some(Process { pid: entry.file_name().to_str()?.parse().ok()?, folder: entry.path() }));
    processes.filter(|process| process.has(variable)).collect()
}

impl Process {
    fn has(&self, variable: &str) -> bool {
        let variables = std::fs::read(self.folder.join("environ")).unwrap_or_default();
        variables.split(|byte| *byte == 0).any(|pair| pair == variable.as_bytes())
    }

    /// Returns the path of its executable.
    pub(crate) fn program(&self) -> Option<PathBuf> {
        std::fs::read_link(self.folder.join("exe")).ok()
    }

    /// Returns a line with its id, state, kernel wait channel and command line.
    pub(crate) fn describe(&self) -> String {
        let read = |name| std::fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        let line = read("cmdline").replace('\0', " ");
        let state = read("stat");
        let state = state.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('?');
        format!("{} {state} {} {}", self.pid, read("wchan"), line.trim())
    }
}

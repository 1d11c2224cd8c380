//! A virtual display with a window manager and a message bus, for one test.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

use crate::cairn::{Home, kill, program, succeeded, text};
use crate::deadline::{output, until, until_some};
use crate::processes::{self, Process};

/// Required programs: for each, a command that starts if it is installed.
const PROGRAMS: &[&[&str]] = &[
    &["Xvfb", "-help"],
    &["dbus-daemon", "--version"],
    &["dbus-send", "--help"],
    &["openbox", "--version"],
    &["wmctrl", "-h"],
    &["WebKitWebDriver", "--version"],
];

/// Configuration of a bus that starts no services. A distribution's bus starts installed services with the environment
/// of the test process and no display, and the web view waits for them.
const BUS: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:dir=FOLDER</listen>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"#;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Returns the path of the app, built beside this test.
pub(crate) fn app_program() -> PathBuf {
    let app = program().with_file_name("cairn-desktop");
    assert!(app.exists(), "{} is missing: run the tests with `cargo xtask test`", app.display());
    app
}

/// A virtual display and its processes, killed when dropped.
pub(crate) struct Screen {
    display: String,
    bus: String,
    /// The user's home folder, with the data of the web view and the desktop entries.
    user: TempDir,
    running: Vec<Child>,
    _turn: MutexGuard<'static, ()>,
}

impl Screen {
    /// Starts a display. Returns `None` and prints a message if a required program is missing.
    pub(crate) fn new() -> Option<Self> {
        for words in PROGRAMS {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if command.status().is_err() {
                // The test harness hides `eprintln!` of passing tests.
                let _ = writeln!(std::io::stderr(), "SKIPPED: {} is not installed; run `cargo xtask setup`", words[0]);
                return None;
            }
        }
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let user = tempfile::tempdir().expect("a temporary folder can be made");
        std::fs::set_permissions(user.path(), PermissionsExt::from_mode(0o700)).expect("the folder is writable");
        let settings = user.path().join("bus.conf");
        let folder = user.path().to_str().expect("the path is UTF-8");
        std::fs::write(&settings, BUS.replace("FOLDER", folder)).expect("the folder is writable");
        let mut screen = Self { display: String::new(), bus: String::new(), user, running: Vec::new(), _turn: turn };
        // Without `-noreset`, the server resets when `wmctrl` disconnects as its only client, and the window manager
        // that connects meanwhile exits.
        let xvfb = ["-displayfd", "1", "-screen", "0", "1440x900x24", "-nolisten", "tcp", "-noreset"];
        screen.display = format!(":{}", screen.start("Xvfb", &xvfb));
        let settings = format!("--config-file={}", settings.display());
        screen.bus = screen.start("dbus-daemon", &[&settings, "--nofork", "--print-address=1"]);
        let mut openbox = screen.command("openbox");
        let mut openbox =
            openbox.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program is installed");
        until("the window manager runs", || {
            let exit = openbox.try_wait().expect("the child process can be polled");
            assert!(exit.is_none(), "openbox exited: {exit:?}");
            output(screen.command("wmctrl").arg("-m")).status.success()
        });
        screen.running.push(openbox);
        Some(screen)
    }

    /// Starts a program that prints its address in its first line; returns the address.
    fn start(&mut self, program: &str, words: &[&str]) -> String {
        let mut command = self.command(program);
        command.args(words).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program is installed");
        let mut line = String::new();
        let mut lines = BufReader::new(child.stdout.take().expect("the stream is piped"));
        self.running.push(child);
        lines.read_line(&mut line).expect("the program prints a line");
        assert!(!line.trim().is_empty(), "{command:?} exited at once");
        line.trim().to_owned()
    }

    /// Returns a command that runs on this display.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("DISPLAY", &self.display).env("DBUS_SESSION_BUS_ADDRESS", &self.bus).stdin(Stdio::null());
        command.env_remove("WAYLAND_DISPLAY").env("HOME", self.user.path()).env("LC_ALL", "C.UTF-8");
        for (name, folder) in [("DATA", "data"), ("CONFIG", "config"), ("CACHE", "cache"), ("STATE", "state")] {
            command.env(format!("XDG_{name}_HOME"), self.user.path().join(folder));
        }
        command.env("XDG_RUNTIME_DIR", self.user.path());
        command
    }

    /// Returns a command that runs on this display with a Cairn home.
    pub(crate) fn at_home(&self, program: &str, home: &Home) -> Command {
        let mut command = self.command(program);
        for (name, value) in home.command(&[]).get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Returns a command that runs the app.
    pub(crate) fn app(&self, home: &Home) -> Command {
        self.at_home(app_program().to_str().expect("the path is UTF-8"), home)
    }

    /// Returns the user's home folder.
    pub(crate) fn user(&self) -> &Path {
        self.user.path()
    }

    /// Returns a line for each visible window.
    pub(crate) fn windows(&self) -> Vec<String> {
        // The list fails if a window closes meanwhile.
        until_some("the list of windows", || {
            let listed = output(self.command("wmctrl").arg("-l"));
            listed.status.success().then(|| text(&listed.stdout).lines().map(str::to_owned).collect())
        })
    }

    /// Closes a window, identified by a part of its title, like its close button.
    pub(crate) fn close_window(&self, title: &str) {
        succeeded(&output(self.command("wmctrl").args(["-c", title])));
    }

    /// Returns the ids of the app's processes with this home.
    pub(crate) fn apps(&self, home: &Home) -> Vec<u32> {
        let app = app_program();
        let variable = format!("CAIRN_HOME={}", home.folder.path().display());
        let processes = processes::with(&variable).into_iter();
        processes.filter(|process| process.program().as_ref() == Some(&app)).map(|process| process.pid).collect()
    }

    /// Returns a line for each process on this display.
    pub(crate) fn processes(&self) -> String {
        self.all().iter().map(Process::describe).collect::<Vec<_>>().join("\n")
    }

    fn all(&self) -> Vec<Process> {
        if self.display.is_empty() { Vec::new() } else { processes::with(&format!("DISPLAY={}", self.display)) }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Web views exit some time after their app.
        for process in self.all() {
            kill(process.pid, "-KILL");
        }
        for child in self.running.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

//! A screen that nobody sees, with a window manager and a message bus of its own, for one journey.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

use crate::cairn::{Home, kill, program, succeeded, text};
use crate::deadline::{output, until, until_some};
use crate::processes::{self, Process};

/// What it takes: a command that succeeds where it is installed.
const PROGRAMS: &[&[&str]] = &[
    &["Xvfb", "-help"],
    &["dbus-daemon", "--version"],
    &["dbus-send", "--help"],
    &["openbox", "--version"],
    &["wmctrl", "-h"],
    &["WebKitWebDriver", "--version"],
];

/// A bus that starts no services. One of a distribution's starts those that are installed, with the variables of whoever began the
/// tests and no screen: the web view waits for them before it does anything.
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

/// The app that was built beside this test.
pub(crate) fn app_program() -> PathBuf {
    let app = program().with_file_name("cairn-desktop");
    assert!(app.exists(), "{} is missing: run the tests with `cargo xtask test`", app.display());
    app
}

/// A screen, and what runs on it.
pub(crate) struct Screen {
    display: String,
    bus: String,
    /// Stands for the user's own folders, where the web view and the system's lists of programs are.
    user: TempDir,
    running: Vec<Child>,
    _turn: MutexGuard<'static, ()>,
}

impl Screen {
    /// One for this journey; `None`, said aloud, where this machine has no programs for it.
    pub(crate) fn new() -> Option<Self> {
        for words in PROGRAMS {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if command.status().is_err() {
                // Not by `eprintln!`: what a test that passes prints so, nobody reads.
                let _ = writeln!(
                    std::io::stderr(),
                    "SKIPPED: {} is not installed (`cargo xtask setup` does that)",
                    words[0]
                );
                return None;
            }
        }
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let user = tempfile::tempdir().expect("a temporary folder can be made");
        std::fs::set_permissions(user.path(), PermissionsExt::from_mode(0o700)).expect("it is ours");
        let settings = user.path().join("bus.conf");
        let folder = user.path().to_str().expect("temporary folders have plain names");
        std::fs::write(&settings, BUS.replace("FOLDER", folder)).expect("it is ours");
        let mut screen = Self { display: String::new(), bus: String::new(), user, running: Vec::new(), _turn: turn };
        let xvfb = ["-displayfd", "1", "-screen", "0", "1440x900x24", "-nolisten", "tcp"];
        screen.display = format!(":{}", screen.start("Xvfb", &xvfb));
        let settings = format!("--config-file={}", settings.display());
        screen.bus = screen.start("dbus-daemon", &[&settings, "--nofork", "--print-address=1"]);
        let mut openbox = screen.command("openbox");
        screen.running.push(openbox.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it is installed"));
        until("the window manager is there", || output(screen.command("wmctrl").arg("-m")).status.success());
        Some(screen)
    }

    /// Starts a program that says in its first line where it is.
    fn start(&mut self, program: &str, words: &[&str]) -> String {
        let mut command = self.command(program);
        command.args(words).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it is installed");
        let mut line = String::new();
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
        self.running.push(child);
        lines.read_line(&mut line).expect("it speaks");
        assert!(!line.trim().is_empty(), "{command:?} ended at once");
        line.trim().to_owned()
    }

    /// A program on this screen.
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

    /// Such a program, for which Cairn's home is this one.
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

    /// The app.
    pub(crate) fn app(&self, home: &Home) -> Command {
        self.at_home(app_program().to_str().expect("cargo's folders are text"), home)
    }

    /// A folder of its user.
    pub(crate) fn user(&self) -> &Path {
        self.user.path()
    }

    /// The windows that are seen.
    pub(crate) fn windows(&self) -> Vec<String> {
        // A window that goes away while it is asked for makes the list fail.
        until_some("the list of windows", || {
            let listed = output(self.command("wmctrl").arg("-l"));
            listed.status.success().then(|| text(&listed.stdout).lines().map(str::to_owned).collect())
        })
    }

    /// Closes a window, by a part of its title, as the cross in its corner does.
    pub(crate) fn close_window(&self, title: &str) {
        succeeded(&output(self.command("wmctrl").args(["-c", title])));
    }

    /// Processes of the app whose home is this one.
    pub(crate) fn apps(&self, home: &Home) -> Vec<u32> {
        let app = app_program();
        let variable = format!("CAIRN_HOME={}", home.folder.path().display());
        let processes = processes::with(&variable).into_iter();
        processes.filter(|process| process.program().as_ref() == Some(&app)).map(|process| process.pid).collect()
    }

    /// What runs here, line by line.
    pub(crate) fn processes(&self) -> String {
        self.all().iter().map(Process::say).collect::<Vec<_>>().join("\n")
    }

    fn all(&self) -> Vec<Process> {
        if self.display.is_empty() { Vec::new() } else { processes::with(&format!("DISPLAY={}", self.display)) }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Web views end by themselves when their app is gone, but not at once.
        for process in self.all() {
            kill(process.pid, "-KILL");
        }
        for child in self.running.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

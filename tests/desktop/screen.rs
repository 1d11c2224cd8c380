//! A screen that nobody sees, with a window manager and a message bus of its own, for one journey.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::cairn::{Home, program, succeeded};

/// What it takes: a command that succeeds where it is installed.
const PROGRAMS: &[&[&str]] = &[
    &["Xvfb", "-help"],
    &["dbus-daemon", "--version"],
    &["dbus-send", "--help"],
    &["openbox", "--version"],
    &["wmctrl", "-h"],
    &["WebKitWebDriver", "--version"],
];

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Waits until something is so. Starting a web view takes seconds on a machine with other work.
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(90);
    while !so() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

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
                println!("SKIPPED: {} is not installed (`cargo xtask setup` does that)", words[0]);
                return None;
            }
        }
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let user = tempfile::tempdir().expect("a temporary folder can be made");
        std::fs::set_permissions(user.path(), PermissionsExt::from_mode(0o700)).expect("it is ours");
        let xvfb = ["-displayfd", "1", "-screen", "0", "1440x900x24", "-nolisten", "tcp"];
        let (xvfb, display) = first_line(Command::new("Xvfb").args(xvfb));
        let (bus, address) =
            first_line(Command::new("dbus-daemon").args(["--session", "--nofork", "--print-address=1"]));
        let mut screen =
            Self { display: format!(":{display}"), bus: address, user, running: vec![xvfb, bus], _turn: turn };
        let mut openbox = screen.command("openbox");
        screen.running.push(openbox.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it is installed"));
        until("the window manager is there", || {
            screen.command("wmctrl").arg("-m").output().is_ok_and(|o| o.status.success())
        });
        Some(screen)
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

    /// The windows that are seen.
    pub(crate) fn windows(&self) -> Vec<String> {
        let said = succeeded(&self.command("wmctrl").arg("-l").output().expect("it is installed"));
        said.lines().map(str::to_owned).collect()
    }

    /// Closes the app's window as the cross in its corner does.
    pub(crate) fn close_window(&self) {
        succeeded(&self.command("wmctrl").args(["-c", "Cairn"]).output().expect("it is installed"));
    }

    /// Processes of the app whose home is this one.
    pub(crate) fn apps(&self, home: &Home) -> Vec<u32> {
        let app = app_program();
        let variable = format!("CAIRN_HOME={}", home.folder.path().display());
        let processes = std::fs::read_dir("/proc").expect("Linux has it").flatten();
        let is_app = |folder: PathBuf| {
            let own = std::fs::read_link(folder.join("exe")).is_ok_and(|exe| exe == app);
            let env = std::fs::read(folder.join("environ")).unwrap_or_default();
            own && env.split(|byte| *byte == 0).any(|pair| pair == variable.as_bytes())
        };
        processes
            .filter(|entry| is_app(entry.path()))
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The screen last: what is on it ends by itself with it, and says so.
        for child in self.running.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts a program that says in its first line where it is.
fn first_line(command: &mut Command) -> (Child, String) {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it is installed");
    let mut line = String::new();
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
    lines.read_line(&mut line).expect("it speaks");
    assert!(!line.trim().is_empty(), "{command:?} ended at once");
    (child, line.trim().to_owned())
}

//! A pseudo-terminal that runs `cairn`.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::cairn::Home;

/// A command in a pseudo-terminal.
pub(crate) struct Terminal {
    child: Child,
    /// Keeps the command's side open after the command has ended.
    _other_side: File,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    pub(crate) fn begin(home: &Home, words: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("the system has pseudo-terminals");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("the pseudo-terminal can be unlocked");
        let name = ptsname(&master, Vec::new()).expect("a pseudo-terminal has a name");
        let name = name.to_str().expect("the name is UTF-8");
        let other_side = OpenOptions::new().read(true).write(true).open(name).expect("its other side opens");
        let side = || Stdio::from(other_side.try_clone().expect("the file can be cloned"));
        let mut command = home.command(words);
        let child = command.stdin(side()).stdout(side()).stderr(side()).env("TERM", "dumb").spawn();
        let keyboard = File::from(master);
        let mut reading = keyboard.try_clone().expect("the file can be cloned");
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reading.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child: child.expect("cairn starts"), _other_side: other_side, keyboard, screen, seen: String::new() }
    }

    /// Reads output until it contains `text`, and returns the output up to its end.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.screen.recv_timeout(left) {
                Ok(bytes) => self.seen += &String::from_utf8_lossy(&bytes),
                Err(_) => panic!("timeout: no {text:?} in {:?}", self.seen),
            }
        }
    }

    /// Writes text to the terminal's input.
    pub(crate) fn type_in(&mut self, text: impl AsRef<[u8]>) {
        self.keyboard.write_all(text.as_ref()).expect("the terminal is writable");
    }

    /// Returns the process id of the command.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the command to exit.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(status) = self.child.try_wait().expect("the child process can be polled") {
                return status;
            }
            assert!(Instant::now() < deadline, "timeout: the command does not exit: {:?}", self.seen);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

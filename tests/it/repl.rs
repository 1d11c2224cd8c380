//! The chat as a person at a terminal has it: typed into a pseudo-terminal, read from its screen.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::cairn::Home;

/// A chat in a terminal of its own.
struct Chat {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl Chat {
    fn begin(home: &Home, words: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("the system has pseudo-terminals");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("it is ours");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        let open = || OpenOptions::new().read(true).write(true).open(name.to_str().expect("names are plain text"));
        let side = || Stdio::from(open().expect("its other side opens"));
        let mut command = home.command(words);
        let child = command.stdin(side()).stdout(side()).stderr(side()).env("TERM", "dumb").spawn();
        let keyboard = File::from(master);
        let mut reading = keyboard.try_clone().expect("it can be opened twice");
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // It ends with an error when the other side closes.
            while let Ok(count @ 1..) = reading.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let mut chat = Self { child: child.expect("cairn starts"), keyboard, screen, seen: String::new() };
        chat.wait_for(">>> ");
        chat
    }

    /// Reads the screen until it shows `text`, and returns what came up to there.
    fn wait_for(&mut self, text: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.screen.recv_timeout(left) {
                Ok(bytes) => self.seen += &String::from_utf8_lossy(&bytes),
                Err(_) => panic!("{text:?} never came: {:?}", self.seen),
            }
        }
    }

    /// Types a line, and returns what was answered.
    fn say(&mut self, line: &str) -> String {
        self.keyboard.write_all(format!("{line}\n").as_bytes()).expect("the terminal takes it");
        self.wait_for(">>> ")
    }

    fn check(&mut self, line: &str, part: &str) {
        let answer = self.say(line);
        assert!(answer.contains(part), "{line:?} should be answered by {part:?}: {answer:?}");
    }

    fn leave(mut self) {
        self.keyboard.write_all(b"/bye\n").expect("the terminal takes it");
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            match self.child.try_wait().expect("the child can be asked") {
                Some(status) => break assert!(status.success(), "{status}"),
                None => assert!(Instant::now() < deadline, "/bye does not leave"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn commands_of_the_chat() {
    let home = Home::new();
    let mut chat = Chat::begin(&home, &["run", "pebble"]);
    chat.check("/?", "/save NAME");
    chat.check("/? shortcuts", "Ctrl-W");
    chat.check("/set", "/set parameter NAME VALUE");
    chat.check("/sing", "Unknown command '/sing'");
    chat.check("/set parameter warmth 3", "Known are: num_keep");
    chat.check("/set parameter num_predict many", "must be a whole number");
    chat.check("/set parameter num_predict 3", "Set parameter 'num_predict' to '3'.");
    chat.check("/set parameter temperature 0", "Set parameter 'temperature' to '0.0'.");
    chat.check("/set parameter stop <|a|> <|b|>", "to '<|a|>', '<|b|>'.");
    chat.check("/show parameters", "num_predict");
    chat.check("/set format json", "not supported yet");
    chat.check("/set noformat", "Disabled format.");
    for word in ["history", "nohistory", "wordwrap", "nowordwrap", "verbose"] {
        chat.check(&format!("/set {word}"), ".");
    }
    chat.check("How do I pull a model?", "eval count:           3 token(s)");
    chat.check("/set quiet", "Set 'quiet' mode.");
    assert!(!chat.say("Tell me more.").contains("eval count"), "quiet");
    chat.check("/clear", "Cleared session context.");
    chat.check("/show info", "architecture");
    chat.check("/show license", "license");
    chat.check("/show modelfile", "FROM");
    chat.check("/show template", "message");
    chat.check("/show system", "No system message");
    chat.check("/list", "pebble:latest");
    chat.check("/load nobody", "model 'nobody' not found");
    chat.check("/load pebble", "Loaded 'pebble'.");
    chat.leave();
}

#[test]
fn bytes_that_are_no_text_do_not_end_the_chat() {
    let home = Home::new();
    let mut chat = Chat::begin(&home, &["run", "pebble"]);
    chat.check("/set parameter num_predict 3", "Set parameter");
    chat.keyboard.write_all(b"caf\xe9\n").expect("the terminal takes it");
    chat.wait_for("not UTF-8");
    chat.wait_for(">>> ");
    chat.check("/show parameters", "num_predict");
    chat.leave();
}

#[test]
fn a_session_is_saved_as_a_model() {
    let home = Home::new();
    let mut chat = Chat::begin(&home, &["run", "pebble"]);
    chat.keyboard.write_all(b"/set system \"\"\"Be\n").expect("the terminal takes it");
    chat.wait_for("... ");
    chat.check("brief.\"\"\"", "Set system message.");
    chat.check("/show system", "Be\r\nbrief.");
    chat.check("/set parameter num_predict 4", "Set parameter");
    chat.say("Hello");
    chat.check("/save pebble", "neither replaced nor deleted");
    chat.check("/save guide", "Created new model 'guide'.");
    chat.check("/load guide", "Loaded 'guide'.");
    chat.check("/show parameters", "num_predict");
    chat.leave();
    let shown = home.run(&["show", "--modelfile", "guide"]);
    let modelfile = String::from_utf8_lossy(&shown.stdout).into_owned();
    for part in ["SYSTEM \"Be\nbrief.\"", "PARAMETER num_predict 4", "MESSAGE user Hello"] {
        assert!(modelfile.contains(part), "{part:?} is missing from {modelfile}");
    }
    assert!(modelfile.contains("MESSAGE assistant"), "the answer too: {modelfile}");
    let answer = home.run(&["run", "guide", "Hi"]);
    assert!(answer.status.success(), "it answers: {}", String::from_utf8_lossy(&answer.stderr));
}

//! The interactive chat of `cairn run`, in a pseudo-terminal.

use crate::cairn::Home;
use crate::terminal::Terminal;

/// An interactive chat in a pseudo-terminal.
struct Chat(Terminal);

impl Chat {
    fn begin(home: &Home, words: &[&str]) -> Self {
        let mut terminal = Terminal::begin(home, words);
        terminal.wait_for(">>> ");
        Self(terminal)
    }

    /// Types a line and returns the output up to the next prompt.
    fn send_line(&mut self, line: &str) -> String {
        self.0.type_in(format!("{line}\n"));
        self.0.wait_for(">>> ")
    }

    fn check(&mut self, line: &str, part: &str) {
        let answer = self.send_line(line);
        assert!(answer.contains(part), "{line:?}: {part:?} is missing from {answer:?}");
    }

    fn leave(mut self) {
        self.0.type_in("/bye\n");
        let status = self.0.end();
        assert!(status.success(), "{status}");
    }
}

#[test]
fn chat_commands_give_expected_replies() {
    let home = Home::new();
    let mut chat = Chat::begin(&home, &["run", "pebble"]);
    chat.check("/?", "/save NAME");
    chat.check("/? shortcuts", "Ctrl-W");
    chat.check("/set", "/set parameter NAME VALUE");
    chat.check("/sing", "Unknown command '/sing'");
    chat.check("/set parameter warmth 3", "Parameters: num_keep");
    chat.check("/set parameter num_predict many", "must be a whole number");
    chat.check("/set parameter num_predict 3", "Set parameter 'num_predict' to '3'.");
    chat.check("/set parameter temperature 0", "Set parameter 'temperature' to '0.0'.");
    chat.check("/set parameter stop <|a|> <|b|>", "to '<|a|>', '<|b|>'.");
    chat.check("/show parameters", "num_predict");
    chat.check("/set format xml", "the format must be json");
    chat.check("/set format json", "Set format to 'json'.");
    chat.check("/set noformat", "Disabled format.");
    for word in ["history", "nohistory", "wordwrap", "nowordwrap", "verbose"] {
        chat.check(&format!("/set {word}"), ".");
    }
    chat.check("How do I pull a model?", "eval count:           3 token(s)");
    chat.check("/set quiet", "Set 'quiet' mode.");
    assert!(!chat.send_line("Tell me more.").contains("eval count"), "quiet");
    chat.check("/clear", "Cleared session context.");
    chat.check("/show info", "architecture");
    chat.check("/show license", "license");
    chat.check("/show modelfile", "FROM");
    chat.check("/show template", "message");
    chat.check("/show system", "No system message");
    chat.check("/list", "pebble:latest");
    chat.check("/load missing", "model 'missing' not found");
    chat.check("/load pebble", "Loaded 'pebble'.");
    chat.leave();
}

#[test]
fn invalid_utf8_input_does_not_end_the_chat() {
    let home = Home::new();
    let mut chat = Chat::begin(&home, &["run", "pebble"]);
    chat.check("/set parameter num_predict 3", "Set parameter");
    chat.0.type_in(b"caf\xe9\n");
    chat.0.wait_for("not UTF-8");
    chat.0.wait_for(">>> ");
    chat.check("/show parameters", "num_predict");
    chat.leave();
}

#[test]
fn session_is_saved_as_a_model() {
    let home = Home::new();
    let mut chat = Chat::begin(&home, &["run", "pebble"]);
    chat.0.type_in(b"/set system \"\"\"Be\n");
    chat.0.wait_for("... ");
    chat.check("brief.\"\"\"", "Set system message.");
    chat.check("/show system", "Be\r\nbrief.");
    chat.check("/set parameter num_predict 4", "Set parameter");
    chat.send_line("Hello");
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
    assert!(modelfile.contains("MESSAGE assistant"), "the answer is saved: {modelfile}");
    let answer = home.run(&["run", "guide", "Hi"]);
    assert!(answer.status.success(), "the saved model answers: {}", String::from_utf8_lossy(&answer.stderr));
}

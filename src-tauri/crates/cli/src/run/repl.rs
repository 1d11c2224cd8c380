//! The chat at a terminal: a prompt, lines with history, a few commands.

use anyhow::Context;
use cairn_disk::{Disk, RealDisk};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use tokio::runtime::Runtime;

use super::session::Session;
use crate::{Setting, output};

const PROMPT: &str = ">>> ";
const CONTINUED: &str = "... ";
/// Opens and closes a text of several lines.
const QUOTES: &str = "\"\"\"";
/// Lines of history that are kept.
const HISTORY_LINES: usize = 100;

const HELP: &str = "\
Commands:
  /clear    Forget what was said
  /bye      Leave (or Ctrl-D)
  /?        This help

\"\"\" begins a text of several lines and ends it. Ctrl-C stops an answer.
";

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Nothing,
    Leave,
    Help,
    Clear,
    Unknown(String),
    Say(String),
}

pub(super) fn chat(setting: &Setting, runtime: &Runtime, session: &mut Session) -> anyhow::Result<()> {
    let config = rustyline::Config::builder()
        .max_history_size(HISTORY_LINES)
        .context("the history has a size")?
        .auto_add_history(false)
        .build();
    let mut editor = DefaultEditor::with_config(config).context("the terminal cannot be used")?;
    let history = setting.places.history_file();
    // There is none the first time, and one that cannot be read is no reason not to chat.
    let _ = editor.load_history(&history);
    let attending = session.client.is_ours().then(|| {
        let _inside = runtime.enter();
        session.client.attend()
    });
    let done = lines(&mut editor, runtime, session);
    if let Some(attending) = attending {
        attending.abort();
    }
    if RealDisk.create_dir_all(&setting.places.state).is_ok() {
        // Nor is one that cannot be written a reason to fail at the end of a chat.
        let _ = editor.save_history(&history);
    }
    done
}

fn lines(editor: &mut DefaultEditor, runtime: &Runtime, session: &mut Session) -> anyhow::Result<()> {
    output::print(&format!("Chatting with {}. /? for help, /bye to leave.\n", session.model))?;
    loop {
        let text = match read(editor) {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => {
                output::print("Use Ctrl-D or /bye to leave.\n")?;
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(error).context("the terminal cannot be read"),
        };
        match understand(&text) {
            Line::Nothing => {}
            Line::Leave => return Ok(()),
            Line::Help => output::print(HELP)?,
            Line::Clear => {
                session.messages.clear();
                output::print("Forgotten.\n")?;
            }
            Line::Unknown(command) => {
                output::print(&format!("Unknown command '{command}'. Type /? for help.\n"))?;
            }
            Line::Say(text) => {
                editor.add_history_entry(&text).context("the history takes every line")?;
                if let Err(error) = runtime.block_on(session.ask(&text)) {
                    output::note(&format!("Error: {}", crate::one_line(&error)));
                }
            }
        }
    }
}

/// One line, or the lines between two [`QUOTES`].
fn read(editor: &mut DefaultEditor) -> rustyline::Result<String> {
    let mut text = editor.readline(PROMPT)?;
    while is_open(&text) {
        text.push('\n');
        text += &editor.readline(CONTINUED)?;
    }
    Ok(text)
}

/// Does the text begin with quotes that are not closed yet?
fn is_open(text: &str) -> bool {
    text.trim_start().strip_prefix(QUOTES).is_some_and(|rest| !rest.trim_end().ends_with(QUOTES))
}

fn understand(text: &str) -> Line {
    let trimmed = text.trim();
    if let Some(quoted) = trimmed.strip_prefix(QUOTES) {
        let said = quoted.strip_suffix(QUOTES).unwrap_or(quoted).trim_matches('\n');
        return if said.trim().is_empty() { Line::Nothing } else { Line::Say(said.to_owned()) };
    }
    let command = trimmed.split_whitespace().next().unwrap_or_default();
    match command {
        "" => Line::Nothing,
        "/bye" | "/exit" => Line::Leave,
        "/?" | "/help" => Line::Help,
        "/clear" => Line::Clear,
        // A path begins with a slash too, and has another one.
        command if command.starts_with('/') && !command[1..].contains('/') => Line::Unknown(command.to_owned()),
        _ => Line::Say(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_questions() {
        let check = |text: &str, expected: Line| assert_eq!(understand(text), expected, "{text:?}");
        check("  ", Line::Nothing);
        check("/bye", Line::Leave);
        check(" /? ", Line::Help);
        check("/set verbose", Line::Unknown("/set".to_owned()));
        check("/tmp/x is a path", Line::Say("/tmp/x is a path".to_owned()));
        check("why?", Line::Say("why?".to_owned()));
        check("\"\"\"one\ntwo\"\"\"", Line::Say("one\ntwo".to_owned()));
        check("\"\"\"\none\n\"\"\"", Line::Say("one".to_owned()));
        check("\"\"\" \"\"\"", Line::Nothing);
    }

    #[test]
    fn quotes_stay_open_until_they_close() {
        let check = |text: &str, open: bool| assert_eq!(is_open(text), open, "{text:?}");
        check("one line", false);
        check("\"\"\"", true);
        check("\"\"\"one", true);
        check("\"\"\"one\ntwo\"\"\"", false);
        check("\"\"\"one\"\"\"", false);
    }
}

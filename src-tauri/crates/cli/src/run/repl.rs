//! The chat at a terminal: line editing with history, and `ollama`'s commands.

mod act;
mod command;
mod help;

use std::io::ErrorKind;

use anyhow::Context;
use cairn_disk::{Disk, RealDisk};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use tokio::runtime::Runtime;

use super::prompt::Prompt;
use super::session::Session;
use crate::{CliContext, output};
use command::{Command, is_open, parse};

const PROMPT: &str = ">>> ";
const CONTINUED: &str = "... ";
/// Start and end of a text of several lines.
const QUOTES: &str = "\"\"\"";
/// Most lines of history that are stored.
const HISTORY_LINES: usize = 100;

pub(super) fn chat(cli: &CliContext, runtime: &Runtime, session: &mut Session) -> anyhow::Result<()> {
    let config = rustyline::Config::builder()
        .max_history_size(HISTORY_LINES)
        .context("cannot set the size of the history")?
        .auto_add_history(false)
        .build();
    let mut editor = DefaultEditor::with_config(config).context("cannot use the terminal")?;
    let history = cli.places.history_file();
    // The history is optional, so a missing or unreadable file is ignored.
    let _ = editor.load_history(&history);
    let attending = session.client.is_own_daemon().then(|| {
        let _guard = runtime.enter();
        session.client.attend()
    });
    let result = run_lines(&mut editor, runtime, session);
    if let Some(attending) = attending {
        attending.abort();
    }
    if RealDisk.create_dir_all(&cli.places.state).is_ok() {
        // A failed write must not fail the chat.
        let _ = editor.save_history(&history);
    }
    result
}

fn run_lines(editor: &mut DefaultEditor, runtime: &Runtime, session: &mut Session) -> anyhow::Result<()> {
    output::print(&format!("Chatting with {}. /? for help, /bye to leave.\n", session.model))?;
    loop {
        let text = match read(editor) {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => {
                output::print("Use Ctrl-D or /bye to leave.\n")?;
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(()),
            // Input of another encoding, typed or pasted: drop the line and continue the chat.
            Err(ReadlineError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
                output::note("The input is not UTF-8; nothing was sent.");
                continue;
            }
            Err(error) => return Err(error).context("cannot read from the terminal"),
        };
        let result = match parse(&text) {
            Command::Nothing => Ok(String::new()),
            Command::Leave => return Ok(()),
            Command::Help(topic) => Ok(help::text(topic).to_owned()),
            Command::Clear => {
                session.messages.clear();
                Ok("Cleared session context.".to_owned())
            }
            Command::List => runtime.block_on(session.names()),
            Command::Load(model) => runtime.block_on(session.load(&model)),
            Command::Save(name) => runtime.block_on(session.save(&name)),
            Command::Set(set) => Ok(session.set(set)),
            Command::Show(part) => runtime.block_on(session.part(part)),
            Command::Invalid(message) => Ok(message),
            Command::Prompt(text) => {
                if session.keeps_history {
                    editor.add_history_entry(&text).context("cannot add the line to the history")?;
                }
                runtime.block_on(session.ask(&Prompt::typed(text))).map(|_| String::new())
            }
        };
        match result {
            Ok(text) if text.is_empty() => {}
            Ok(text) => output::print(&format!("{}\n", text.trim_end()))?,
            Err(error) => output::note(&format!("Error: {}", crate::one_line(&error))),
        }
    }
}

/// Reads one line, or the lines between two [`QUOTES`].
fn read(editor: &mut DefaultEditor) -> rustyline::Result<String> {
    let mut text = editor.readline(PROMPT)?;
    while is_open(&text) {
        text.push('\n');
        text += &editor.readline(CONTINUED)?;
    }
    Ok(text)
}

//! The chat at a terminal: a prompt, lines with history, and `ollama`'s commands.

mod act;
mod command;
mod help;

use std::io::ErrorKind;

use anyhow::Context;
use cairn_disk::{Disk, RealDisk};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use tokio::runtime::Runtime;

use super::session::Session;
use crate::{Setting, output};
use command::{Command, is_open, understand};

const PROMPT: &str = ">>> ";
const CONTINUED: &str = "... ";
/// Opens and closes a text of several lines.
const QUOTES: &str = "\"\"\"";
/// Lines of history that are kept.
const HISTORY_LINES: usize = 100;

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
            // Typed under another encoding, or pasted: the line is lost, and the chat is not.
            Err(ReadlineError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
                output::note("What was typed is not UTF-8; nothing was sent.");
                continue;
            }
            Err(error) => return Err(error).context("the terminal cannot be read"),
        };
        let done = match understand(&text) {
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
            Command::Wrong(said) => Ok(said),
            Command::Say(text) => {
                if session.keeps_history {
                    editor.add_history_entry(&text).context("the history takes every line")?;
                }
                runtime.block_on(session.ask(&text)).map(|_| String::new())
            }
        };
        match done {
            Ok(said) if said.is_empty() => {}
            Ok(said) => output::print(&format!("{}\n", said.trim_end()))?,
            Err(error) => output::note(&format!("Error: {}", crate::one_line(&error))),
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

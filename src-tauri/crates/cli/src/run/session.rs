//! One conversation: what was said, and how the next answer is asked for and printed.

use std::io::{self, Write};

use cairn_wire::app::LoadRequest;
use cairn_wire::ollama::{ChatChunk, ChatRequest, Message};
use cairn_wire::{KeepAlive, Think};
use serde_json::{Map, Value};

use super::{footer, left_out};
use crate::client::Client;
use crate::output;
use crate::terminal::{self, Wrap};

/// A conversation with a model.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) model: String,
    /// What was said, but for the system message.
    pub(super) messages: Vec<Message>,
    /// A system message in place of the model's own.
    pub(super) system: Option<String>,
    /// Options over the model's own.
    pub(super) options: Map<String, Value>,
    pub(super) keep_alive: Option<KeepAlive>,
    pub(super) think: Option<Think>,
    pub(super) force: bool,
    pub(super) hides_thinking: bool,
    pub(super) wraps: bool,
    pub(super) verbose: bool,
    pub(super) colours: bool,
    pub(super) keeps_history: bool,
}

/// How an answer ended here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// To its end.
    All,
    /// The user had heard enough.
    Interrupted,
}

impl Session {
    /// Asks, and prints the answer as it comes. A question that fails is not part of the conversation.
    pub(super) async fn ask(&mut self, text: &str) -> anyhow::Result<Heard> {
        self.messages.push(message("user", text));
        match self.answer().await {
            Ok((answer, heard)) => {
                // What was said so far is part of the conversation, so that the next turn continues what is cached.
                self.messages.push(answer);
                Ok(heard)
            }
            Err(error) => {
                self.messages.pop();
                Err(error)
            }
        }
    }

    async fn answer(&self) -> anyhow::Result<(Message, Heard)> {
        let request = ChatRequest {
            model: self.model.clone(),
            messages: self.system.iter().map(|text| message("system", text)).chain(self.messages.clone()).collect(),
            options: (!self.options.is_empty()).then(|| self.options.clone()),
            keep_alive: self.keep_alive,
            think: self.think,
            ..Default::default()
        };
        let mut printed = Printer::new(self);
        let asked = async {
            if self.force {
                let model = self.model.clone();
                self.client.tell("/app/load", &LoadRequest { model, force: true, keep_alive: self.keep_alive }).await?;
            }
            let mut lines = self.client.stream("/api/chat", &request).await?;
            while let Some(chunk) = lines.next::<ChatChunk>().await? {
                printed.chunk(&chunk)?;
                if chunk.done {
                    return Ok(Some((chunk.metrics, chunk.truncated)));
                }
            }
            anyhow::bail!("the answer broke off");
        };
        let metrics = tokio::select! {
            asked = asked => asked,
            // Dropping the request is what stops the computation.
            _ = tokio::signal::ctrl_c() => Ok(None),
        };
        printed.end()?;
        let heard = match metrics? {
            Some((metrics, truncated)) => {
                if let Some(truncated) = truncated {
                    output::note(&left_out::text(&truncated));
                }
                if self.verbose {
                    output::note(footer::text(&metrics).trim_end());
                }
                Heard::All
            }
            None => Heard::Interrupted,
        };
        Ok((message("assistant", &printed.content), heard))
    }
}

fn message(role: &str, content: &str) -> Message {
    Message { role: role.to_owned(), content: content.to_owned(), ..Default::default() }
}

/// Prints an answer, its thinking set apart.
struct Printer {
    wrap: Wrap<io::Stdout>,
    hides_thinking: bool,
    watched: bool,
    colours: bool,
    thinking: bool,
    printed: bool,
    content: String,
}

impl Printer {
    fn new(session: &Session) -> Self {
        let watched = terminal::is_watched();
        Self {
            wrap: Wrap::new(io::stdout(), session.wraps.then(terminal::width), watched),
            hides_thinking: session.hides_thinking,
            watched,
            colours: session.colours,
            thinking: false,
            printed: false,
            content: String::new(),
        }
    }

    fn chunk(&mut self, chunk: &ChatChunk) -> io::Result<()> {
        let message = &chunk.message;
        if !message.thinking.is_empty() && !self.hides_thinking {
            if !self.thinking {
                self.thinking = true;
                if self.colours {
                    self.wrap.command("\x1b[90m")?;
                }
                self.wrap.push("Thinking...\n")?;
            }
            self.wrap.push(&message.thinking)?;
            self.printed = true;
        }
        if !message.content.is_empty() {
            self.end_thinking()?;
            self.wrap.push(&message.content)?;
            self.content += &message.content;
            self.printed = true;
        }
        Ok(())
    }

    fn end_thinking(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.thinking) {
            return Ok(());
        }
        self.wrap.push("\n...done thinking.")?;
        if self.colours {
            self.wrap.command("\x1b[0m")?;
        }
        self.wrap.push("\n\n")
    }

    /// Prints what was held back, and a line's end for a reader.
    fn end(&mut self) -> io::Result<()> {
        self.end_thinking()?;
        self.wrap.finish()?;
        let mut out = io::stdout();
        if self.printed {
            out.write_all(b"\n")?;
        }
        if self.watched {
            out.write_all(b"\n")?;
        }
        out.flush()
    }
}

//! One chat at a terminal: its messages and settings, and the printing of answers.

use std::io::{self, Write};

use anyhow::Context;
use cairn_wire::app::LoadRequest;
use cairn_wire::ollama::{ChatChunk, ChatRequest, Message};
use cairn_wire::{KeepAlive, Think};
use serde_json::{Map, Value};

use super::images::PromptWithImages;
use super::prompt::Prompt;
use super::{footer, images, left_out};
use crate::client::Client;
use crate::terminal::{self, Wrap};
use crate::{model, output};

/// Capability of models that accept images.
const VISION: &str = "vision";

/// A chat with a model.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) model: String,
    /// Messages without the system message.
    pub(super) messages: Vec<Message>,
    /// A system message that replaces the model's own.
    pub(super) system: Option<String>,
    /// Options that override the model's own.
    pub(super) options: Map<String, Value>,
    pub(super) keep_alive: Option<KeepAlive>,
    pub(super) think: Option<Think>,
    /// Format of answers: `json` or a JSON Schema.
    pub(super) format: Option<Value>,
    pub(super) force: bool,
    pub(super) hides_thinking: bool,
    pub(super) wraps: bool,
    pub(super) verbose: bool,
    pub(super) colours: bool,
    pub(super) keeps_history: bool,
}

/// Outcome of a printed answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerOutcome {
    /// The answer is complete.
    Complete,
    /// The user pressed Ctrl-C.
    Interrupted,
}

impl Session {
    /// Sends a message and prints the answer as it streams. A message that fails is removed from the chat.
    pub(super) async fn ask(&mut self, prompt: &Prompt) -> anyhow::Result<AnswerOutcome> {
        let PromptWithImages { text, images, paths } = self.with_images(&prompt.typed).await?;
        for path in &paths {
            output::note(&format!("Added image '{path}'"));
        }
        let text = Prompt { piped: prompt.piped.clone(), typed: text }.text();
        let images = (!images.is_empty()).then_some(images);
        self.messages.push(Message { images, ..message("user", &text) });
        match self.answer().await {
            Ok((answer, outcome)) => {
                // An interrupted answer stays in the chat, so that the next turn extends the cached prefix.
                self.messages.push(answer);
                Ok(outcome)
            }
            Err(error) => {
                self.messages.pop();
                Err(error)
            }
        }
    }

    /// Separates typed text from its images. The text stays as it is if the model has no vision.
    async fn with_images(&self, typed: &str) -> anyhow::Result<PromptWithImages> {
        let paths = images::paths(typed);
        if paths.is_empty() || self.has_vision().await? {
            return images::extract(typed);
        }
        let are = if let [_] = paths.as_slice() { "is" } else { "are" };
        let paths: Vec<String> = paths.iter().map(|path| format!("'{path}'")).collect();
        output::note(&format!("{} has no vision, so {} {are} sent as text only", self.model, paths.join(", ")));
        Ok(PromptWithImages { text: typed.to_owned(), images: Vec::new(), paths: Vec::new() })
    }

    async fn has_vision(&self) -> anyhow::Result<bool> {
        let shown = model::show(&self.client, &self.model).await.context("cannot show the model")?;
        Ok(shown.capabilities.iter().any(|name| name == VISION))
    }

    async fn answer(&self) -> anyhow::Result<(Message, AnswerOutcome)> {
        let request = ChatRequest {
            model: self.model.clone(),
            messages: self.system.iter().map(|text| message("system", text)).chain(self.messages.clone()).collect(),
            options: (!self.options.is_empty()).then(|| self.options.clone()),
            keep_alive: self.keep_alive,
            think: self.think,
            format: self.format.clone(),
            ..Default::default()
        };
        let mut printer = Printer::new(self);
        let answered = async {
            if self.force {
                let model = self.model.clone();
                self.client
                    .post_without_response(
                        "/app/load",
                        &LoadRequest { model, force: true, keep_alive: self.keep_alive },
                    )
                    .await?;
            }
            let mut lines = self.client.stream("/api/chat", &request).await?;
            while let Some(chunk) = lines.next::<ChatChunk>().await? {
                printer.chunk(&chunk)?;
                if chunk.done {
                    return Ok(Some((chunk.metrics, chunk.truncated)));
                }
            }
            anyhow::bail!("the server ended before the answer was complete");
        };
        let metrics = tokio::select! {
            answered = answered => answered,
            // Dropping the request cancels the generation.
            _ = tokio::signal::ctrl_c() => Ok(None),
        };
        printer.end()?;
        let outcome = match metrics? {
            Some((metrics, truncated)) => {
                if let Some(truncated) = truncated {
                    output::note(&left_out::text(&truncated));
                }
                if self.verbose {
                    output::note(footer::text(&metrics).trim_end());
                }
                AnswerOutcome::Complete
            }
            None => AnswerOutcome::Interrupted,
        };
        Ok((message("assistant", &printer.content), outcome))
    }
}

fn message(role: &str, content: &str) -> Message {
    Message { role: role.to_owned(), content: content.to_owned(), ..Default::default() }
}

/// Prints an answer, with its thinking marked.
struct Printer {
    wrap: Wrap<io::Stdout>,
    hides_thinking: bool,
    is_terminal: bool,
    colours: bool,
    is_in_thinking: bool,
    has_printed: bool,
    content: String,
}

impl Printer {
    fn new(session: &Session) -> Self {
        let is_terminal = terminal::is_stdout_terminal();
        Self {
            wrap: Wrap::new(io::stdout(), session.wraps.then(terminal::width), is_terminal),
            hides_thinking: session.hides_thinking,
            is_terminal,
            colours: session.colours,
            is_in_thinking: false,
            has_printed: false,
            content: String::new(),
        }
    }

    fn chunk(&mut self, chunk: &ChatChunk) -> io::Result<()> {
        let message = &chunk.message;
        if !message.thinking.is_empty() && !self.hides_thinking {
            if !self.is_in_thinking {
                self.is_in_thinking = true;
                if self.colours {
                    self.wrap.command("\x1b[90m")?;
                }
                self.wrap.push("Thinking...\n")?;
            }
            self.wrap.push(&message.thinking)?;
            self.has_printed = true;
        }
        if !message.content.is_empty() {
            self.end_thinking()?;
            self.wrap.push(&message.content)?;
            self.content += &message.content;
            self.has_printed = true;
        }
        Ok(())
    }

    fn end_thinking(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.is_in_thinking) {
            return Ok(());
        }
        self.wrap.push("\n...done thinking.")?;
        if self.colours {
            self.wrap.command("\x1b[0m")?;
        }
        self.wrap.push("\n\n")
    }

    /// Prints the buffered text and line breaks after the answer.
    fn end(&mut self) -> io::Result<()> {
        self.end_thinking()?;
        self.wrap.finish()?;
        let mut out = io::stdout();
        if self.has_printed {
            out.write_all(b"\n")?;
        }
        if self.is_terminal {
            out.write_all(b"\n")?;
        }
        out.flush()
    }
}

//! Chat templates in Jinja, as models carry them in `tokenizer.chat_template`.
//!
//! They are written for Python's Jinja2 as Hugging Face's `transformers` sets it up, so the engine here is made to agree with
//! that: blocks are trimmed, nothing is escaped, values print the Python way ([`python`]), and strings have Python's methods. A
//! template may refuse a conversation by `raise_exception`; its words are then the error.
//!
//! **Invariant:** a template is input from strangers. Its steps, its depth, its memory and its output are bounded, so every
//! rendering ends.
//!
//! | module | what |
//! |---|---|
//! | `engine` | the set-up, compiling and running |
//! | `budget` | what one rendering may use |
//! | `operators`, `filters` | those that need watching |
//! | `python` | how Python prints and writes JSON |
//! | `clock` | dates for `strftime_now` |

mod budget;
pub(crate) mod clock;
mod engine;
mod filters;
mod operators;
mod python;

use std::collections::BTreeMap;

use minijinja::value::{Serde, Value};
use minijinja::{Environment, ErrorKind};

use crate::message::Message;
use clock::Moment;

/// Bytes of a template; the largest published one has 17 thousand.
const MAX_SOURCE_BYTES: usize = 1 << 20;

/// The template of models that have none: ChatML, which most small models were trained on.
const CHATML: &str = "{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\\n' }}
{%- endif -%}";

/// Why a conversation cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The template is not valid Jinja, or uses what is not supported.
    #[error("the chat template is not valid: {reason}")]
    Syntax {
        /// What the engine said, with the line.
        reason: String,
    },
    /// The template refused this conversation by `raise_exception`.
    #[error("the chat template refuses this conversation: {reason}")]
    Refused {
        /// The template's own words.
        reason: String,
    },
    /// The template failed while it ran.
    #[error("the chat template failed: {reason}")]
    Failed {
        /// What the engine said, with the line.
        reason: String,
    },
    /// The template, its steps or its output are larger than any real one's.
    #[error("the chat template exceeds the limit on its {what}")]
    TooLarge {
        /// `source`, `nesting`, `steps`, `memory` or `output`.
        what: &'static str,
    },
}

/// How much the model shall reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Think {
    /// Not at all.
    Off,
    /// As it likes.
    On,
    /// By a level that the model knows, such as `low`.
    Level(String),
}

/// What a template is rendered with.
#[derive(Debug, Clone, Default)]
pub struct Render<'a> {
    /// The conversation, oldest first.
    pub messages: &'a [Message],
    /// The tools on offer, as OpenAI's API lists them.
    pub tools: Option<&'a serde_json::Value>,
    /// Whether the text shall end where the assistant's answer begins.
    pub add_generation_prompt: bool,
    /// The text of the token that begins a sequence.
    pub bos_token: &'a str,
    /// The text of the token that ends one.
    pub eos_token: &'a str,
    /// How much to reason; unset leaves it to the template.
    pub thinking: Option<Think>,
    /// The time that `strftime_now` tells.
    pub now: Moment,
}

/// What a template shows that a model can do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// It mentions tools.
    pub tools: bool,
    /// It writes or removes `<think>` and `</think>`.
    pub thinking: bool,
}

/// A chat template, parsed once.
#[derive(Debug, Clone)]
pub struct Template {
    environment: Environment<'static>,
    source: String,
    /// What the engine reads in its place.
    readable: String,
}

impl Template {
    /// Parses a Jinja template.
    ///
    /// # Errors
    /// When it is not valid Jinja, or too long.
    pub fn jinja(source: &str) -> Result<Template, Error> {
        if source.len() > MAX_SOURCE_BYTES {
            return Err(Error::TooLarge { what: "source" });
        }
        let invalid = |reason: String| Error::Syntax { reason };
        let read = engine::readable(source).ok_or_else(|| invalid("the template engine broke off".to_owned()))?;
        let readable = read.map_err(|error| match classify(&error) {
            too_large @ Error::TooLarge { .. } => too_large,
            _ => invalid(error.to_string()),
        })?;
        Ok(Template { environment: engine::environment(), source: source.to_owned(), readable })
    }

    /// The template for models that carry none: ChatML.
    pub fn default_chatml() -> Template {
        Template::jinja(CHATML).expect("the template above is valid, which a test renders")
    }

    /// The template's text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What the template shows that the model can do.
    pub fn capabilities(&self) -> Capabilities {
        let has = |text| self.source.contains(text);
        Capabilities { tools: has("tools") || has("tool_call"), thinking: has("<think>") && has("</think>") }
    }

    /// The conversation as one text.
    ///
    /// # Errors
    /// When the template refuses the conversation, fails on it, or exceeds a limit.
    pub fn render(&self, input: &Render<'_>) -> Result<String, Error> {
        match engine::render(&self.environment, &self.readable, context(input)) {
            Some(Ok(text)) => Ok(text),
            Some(Err(error)) => Err(classify(&error)),
            None => Err(Error::Failed { reason: "the template engine broke off".to_owned() }),
        }
    }
}

/// The variables that `transformers` gives to a template.
fn context(input: &Render<'_>) -> Value {
    let json = |value: &serde_json::Value| Value::from(Serde(value));
    let messages: Vec<Value> = input.messages.iter().map(|message| json(&message.to_json())).collect();
    let now = input.now;
    let mut variables: BTreeMap<&str, Value> = BTreeMap::from([
        ("messages", Value::from(messages)),
        ("tools", input.tools.map_or(Value::from(()), json)),
        ("documents", Value::from(())),
        ("add_generation_prompt", Value::from(input.add_generation_prompt)),
        ("bos_token", Value::from(input.bos_token)),
        ("eos_token", Value::from(input.eos_token)),
        ("strftime_now", Value::from_function(move |format: String| now.strftime(&format))),
    ]);
    if let Some(think) = &input.thinking {
        // Most templates ask for `enable_thinking`, DeepSeek's and Granite's for `thinking`.
        let on = Value::from(*think != Think::Off);
        variables.insert("enable_thinking", on.clone());
        variables.insert("thinking", on);
        if let Think::Level(level) = think {
            variables.insert("reasoning_effort", Value::from(level.as_str()));
        }
    }
    Value::from_pairs(variables)
}

/// Tells a refusal from a failure, and a limit from both.
fn classify(error: &minijinja::Error) -> Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(engine::Refusal(words)) = inner.downcast_ref() {
            return Error::Refused { reason: words.clone() };
        }
        if let Some(budget::Exceeded(what)) = inner.downcast_ref() {
            return Error::TooLarge { what };
        }
        if let Some(inner) = inner.downcast_ref::<minijinja::Error>()
            && inner.kind() == ErrorKind::OutOfFuel
        {
            return Error::TooLarge { what: "steps" };
        }
        cause = inner.source();
    }
    Error::Failed { reason: error.to_string() }
}

#[cfg(test)]
mod tests;

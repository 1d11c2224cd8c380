//! Chat templates in Jinja, as models carry them in `tokenizer.chat_template`.
//!
//! They are written for Python's Jinja2 as Hugging Face's `transformers` sets it up, so the engine here is made to agree with
//! that: blocks are trimmed, nothing is escaped, values print the Python way ([`python`]), and strings have Python's methods. A
//! template may refuse a conversation by `raise_exception`; its words are then the error.
//!
//! **Invariant:** a template is input from strangers. Its steps, its depth and its output are bounded, so every rendering ends.

pub(crate) mod clock;
mod python;

use std::collections::BTreeMap;
use std::io;
use std::panic::{self, AssertUnwindSafe};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, ErrorKind};

use crate::message::Message;
use clock::Moment;

/// Steps of the template engine: the longest published templates take a few thousand for a long conversation.
const MAX_STEPS: u64 = 20_000_000;
/// Nested calls of macros and blocks; each takes about a kilobyte of stack.
const MAX_DEPTH: usize = 100;
/// Bytes of a rendered conversation: more than fits any model's context.
const MAX_OUTPUT_BYTES: usize = 64 << 20;
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
        /// `source`, `steps` or `output`.
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
}

/// The words of `raise_exception`, told apart from the engine's own errors by their type.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refusal(String);

impl Template {
    /// Parses a Jinja template.
    ///
    /// # Errors
    /// When it is not valid Jinja, or too long.
    pub fn jinja(source: &str) -> Result<Template, Error> {
        if source.len() > MAX_SOURCE_BYTES {
            return Err(Error::TooLarge { what: "source" });
        }
        let mut environment = environment();
        environment
            .add_template_owned("chat", without_generation_marks(source))
            .map_err(|error| Error::Syntax { reason: error.to_string() })?;
        Ok(Template { environment, source: source.to_owned() })
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
        let template =
            self.environment.get_template("chat").map_err(|error| Error::Syntax { reason: error.to_string() })?;
        let mut output = Output::default();
        // The engine has bugs of its own (3.0.5 panics on `[][::-1]`), and a template can reach them; state that a panic could
        // leave half changed is dropped here with it.
        let run = || template.render_captured_to(context(input), &mut output).map(drop);
        let Ok(result) = panic::catch_unwind(AssertUnwindSafe(run)) else {
            return Err(Error::Failed { reason: "the template engine broke off".to_owned() });
        };
        match result {
            Ok(()) => String::from_utf8(output.bytes).map_err(|error| Error::Failed { reason: error.to_string() }),
            Err(_) if output.is_full => Err(Error::TooLarge { what: "output" }),
            Err(error) => Err(classify(&error)),
        }
    }
}

/// An engine set up as `transformers` sets up Jinja2.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        environment.set_syntax(syntax);
    }
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_recursion_limit(MAX_DEPTH);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_formatter(python::print);
    environment.add_filter("tojson", python::to_json);
    environment.add_filter("length", python::length);
    environment.add_filter("count", python::length);
    environment.add_filter("string", python::string);
    environment.add_test("iterable", python::is_iterable);
    environment.add_function("raise_exception", |words: String| -> Result<Value, minijinja::Error> {
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, "refused").with_source(Refusal(words)))
    });
    environment
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
        if let Some(Refusal(words)) = inner.downcast_ref() {
            return Error::Refused { reason: words.clone() };
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

/// The template without `{% generation %}` and `{% endgeneration %}`, which mark the assistant's words for training. They are
/// made conditions that always hold, so that the white space around them is treated as before.
fn without_generation_marks(source: &str) -> String {
    let mut plain = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, after)) = rest.split_once("{%") {
        plain.push_str(before);
        plain.push_str("{%");
        let sign = after.len() - after.trim_start_matches(['-', '+']).len();
        let space = after.get(sign..).map_or(0, |inner| inner.len() - inner.trim_start().len());
        let (lead, inner) = after.split_at_checked(sign + space).unwrap_or(("", after));
        let word = inner.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default();
        let becomes = match word {
            "generation" => "if true",
            "endgeneration" => "endif",
            word => word,
        };
        plain.push_str(lead);
        plain.push_str(becomes);
        rest = inner.get(word.len()..).unwrap_or_default();
    }
    plain.push_str(rest);
    plain
}

/// Collects the output up to the limit.
#[derive(Debug, Default)]
struct Output {
    bytes: Vec<u8>,
    is_full: bool,
}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > MAX_OUTPUT_BYTES {
            self.is_full = true;
            return Err(io::Error::other("the output is too long"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;

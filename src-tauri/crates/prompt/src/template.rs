//! Chat templates: what makes one text of a conversation.
//!
//! Models bring them in two languages: Jinja in their own files ([`jinja`]), and Go's `text/template` as a layer of Ollama's
//! library ([`go`]). Both are behind [`Engine`]; who renders need not know which it is.
//!
//! **Invariant:** a template is input from strangers. Its steps, its depth, its memory and its output are bounded, so every
//! rendering ends.
//!
//! | module | what |
//! |---|---|
//! | `jinja` | Jinja: capabilities, variables, errors |
//! | `engine` | its set-up, compiling and running |
//! | `budget` | what one rendering of it may use |
//! | `operators`, `filters` | those of it that need watching |
//! | `python` | how Python prints and writes JSON |
//! | `go` | Go's language |
//! | `clock` | dates |

mod budget;
pub(crate) mod clock;
mod engine;
mod filters;
mod go;
mod jinja;
mod operators;
mod python;

use std::fmt;
use std::sync::Arc;

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
    /// The text is no valid template, or uses what is not supported.
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
        /// `source`, `depth`, `steps`, `memory` or `output`.
        what: &'static str,
    },
    /// The template does not know how to fill in before a suffix.
    #[error("the chat template does not support insert")]
    NoInsert,
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
    /// It also writes the model's calls of tools and their answers.
    pub tool_results: bool,
    /// It writes or removes reasoning, between tags that are known.
    pub thinking: bool,
    /// It can ask for what belongs before a suffix.
    pub insert: bool,
}

impl Capabilities {
    /// What the text of a Jinja template mentions, valid or not.
    pub fn of_jinja(source: &str) -> Capabilities {
        jinja::capabilities(source)
    }
}

/// The language of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Jinja, in a model's own file.
    Jinja,
    /// Go's `text/template`, in a layer of a library.
    Go,
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Jinja => "Jinja",
            Self::Go => "Go",
        })
    }
}

/// One template in one language, ready to render.
trait Engine: fmt::Debug + Send + Sync {
    /// The conversation as one text.
    fn render(&self, input: &Render<'_>) -> Result<String, Error>;

    /// What belongs between a prompt and a suffix, asked for in one text. The messages of `input` play no part.
    fn insert(&self, _prompt: &str, _suffix: &str, _input: &Render<'_>) -> Result<String, Error> {
        Err(Error::NoInsert)
    }

    /// What the template shows.
    fn capabilities(&self) -> Capabilities;

    /// What stands before and after reasoning, where the template shows it.
    fn thinking_tags(&self) -> Option<(&str, &str)>;
}

/// A chat template, parsed once. Clones share it.
#[derive(Debug, Clone)]
pub struct Template {
    engine: Arc<dyn Engine>,
    language: Language,
    source: Arc<str>,
}

impl Template {
    /// Parses a Jinja template.
    ///
    /// # Errors
    /// When it is not valid Jinja, or too long.
    pub fn jinja(source: &str) -> Result<Template, Error> {
        Self::of(source, Language::Jinja, |source| Ok(Arc::new(jinja::Jinja::parse(source)?)))
    }

    /// Parses a template in Go's language, with the functions and variables that Ollama gives it.
    ///
    /// # Errors
    /// When it is not valid, calls a function that there is none of, is nested too deeply or too long.
    pub fn go(source: &str) -> Result<Template, Error> {
        Self::of(source, Language::Go, |source| Ok(Arc::new(go::Go::parse(source)?)))
    }

    fn of(
        source: &str,
        language: Language,
        parse: impl FnOnce(&str) -> Result<Arc<dyn Engine>, Error>,
    ) -> Result<Template, Error> {
        if source.len() > MAX_SOURCE_BYTES {
            return Err(Error::TooLarge { what: "source" });
        }
        Ok(Template { engine: parse(source)?, language, source: source.into() })
    }

    /// The template for models that carry none: ChatML.
    pub fn default_chatml() -> Template {
        Template::jinja(CHATML).expect("the template above is valid, which a test renders")
    }

    /// The template's text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The language that it is written in.
    pub fn language(&self) -> Language {
        self.language
    }

    /// What the template shows that the model can do.
    pub fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }

    /// What stands before and after reasoning, where the template shows it.
    pub fn thinking_tags(&self) -> Option<(&str, &str)> {
        self.engine.thinking_tags()
    }

    /// The conversation as one text.
    ///
    /// # Errors
    /// When the template refuses the conversation, fails on it, or exceeds a limit.
    pub fn render(&self, input: &Render<'_>) -> Result<String, Error> {
        self.engine.render(input)
    }

    /// A text that asks for what belongs between a prompt and a suffix. The messages of `input` play no part.
    ///
    /// # Errors
    /// [`Error::NoInsert`] from a template that does not know this; else those of [`Self::render`].
    pub fn insert(&self, prompt: &str, suffix: &str, input: &Render<'_>) -> Result<String, Error> {
        if !self.capabilities().insert {
            return Err(Error::NoInsert);
        }
        self.engine.insert(prompt, suffix, input)
    }
}

#[cfg(test)]
mod tests;

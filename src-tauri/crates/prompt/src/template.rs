//! Chat templates: they render a conversation to one text.
//!
//! Templates come in two languages: Jinja in model files ([`jinja`]), and Go's `text/template` in a layer of Ollama's
//! library ([`go`]). Both implement [`Engine`].
//!
//! **Invariant:** a template is untrusted input. Steps, depth, memory and output of a rendering are bounded, so it
//! always ends.
//!
//! | module | content |
//! |---|---|
//! | `jinja` | Jinja: capabilities, variables, errors |
//! | `engine` | set-up, compiler and interpreter of Jinja |
//! | `budget` | limits of one Jinja rendering |
//! | `operators`, `filters` | Jinja operators and filters that charge the budget |
//! | `fold` | conversations for strict Jinja templates |
//! | `python` | `str`, `repr` and `json.dumps` of Python |
//! | `go` | Go's language |
//! | `renderer` | templates of Ollama's built-in renderers |
//! | `trial` | whether a template can render any conversation |
//! | `local_time` | dates |

mod budget;
mod engine;
mod filters;
mod fold;
mod go;
mod jinja;
pub(crate) mod local_time;
mod operators;
mod python;
mod renderer;
mod trial;

use std::fmt;
use std::sync::Arc;

use crate::answer::AnswerFormat;
use crate::message::Message;
use local_time::LocalTime;

/// Maximum size of a template. The largest published one has 17,000 bytes. Compiled, it takes up to 80 times its size.
const MAX_SOURCE_BYTES: usize = 256 << 10;

/// Template for models without one: ChatML, which most small models were trained on.
const CHATML: &str = "{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\\n' }}
{%- endif -%}";

/// Reasons why a template cannot be parsed or chosen, or a conversation not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The source is not a valid template, or uses an unsupported feature.
    #[error("the chat template is not valid: {reason}")]
    Syntax {
        /// The engine's message, with the line.
        reason: String,
    },
    /// The template rejected this conversation with `raise_exception`.
    #[error("the chat template refuses this conversation: {reason}")]
    Refused {
        /// The template's message.
        reason: String,
    },
    /// The template failed at run time.
    #[error("the chat template failed: {reason}")]
    Failed {
        /// The engine's message, with the line.
        reason: String,
    },
    /// A limit was exceeded.
    #[error("the chat template exceeds the limit on its {what}{}", advice(.what))]
    TooLarge {
        /// `source`, `depth`, `nesting`, `steps`, `memory` or `output`.
        what: &'static str,
    },
    /// The model's configuration names a renderer that is not built in, and the model has no template to replace it.
    #[error("the renderer {name:?} is not built in, and no other template can be used; create a model with a TEMPLATE")]
    UnknownRenderer {
        /// The name in the configuration.
        name: String,
    },
    /// The template does not use `.Suffix`, so it cannot insert text before a suffix.
    #[error("the chat template does not support insert")]
    InsertUnsupported,
}

/// Advice for a limit that a request can exceed; empty for limits of the template itself.
fn advice(what: &str) -> &'static str {
    match what {
        "nesting" => "; if the request has tools, nest their arguments, results and parameters less deeply",
        _ => "",
    }
}

/// How much the model should reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThinkMode {
    /// No reasoning.
    Off,
    /// Reasoning at the model's default level.
    On,
    /// Reasoning at a level that the model supports, such as `low`.
    Level(String),
}

/// Input of one rendering.
#[derive(Debug, Clone, Default)]
pub struct RenderInput<'a> {
    /// The conversation, oldest first.
    pub messages: &'a [Message],
    /// The available tools, in the format of OpenAI's API.
    pub tools: Option<&'a serde_json::Value>,
    /// Whether to end the text where the assistant's answer begins.
    pub add_generation_prompt: bool,
    /// Text of the BOS token.
    pub bos_token: &'a str,
    /// Text of the EOS token.
    pub eos_token: &'a str,
    /// How much to reason; `None` uses the template's default.
    pub thinking: Option<ThinkMode>,
    /// The time that `strftime_now` formats.
    pub now: LocalTime,
}

/// Features of a model that its template uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Tools are passed to the model.
    pub tools: bool,
    /// Tool calls and tool results are rendered too.
    pub tool_results: bool,
    /// Reasoning is rendered or removed, between detected tags.
    pub thinking: bool,
    /// Text can be inserted before a suffix.
    pub insert: bool,
}

impl Capabilities {
    /// Detects features in the source of a Jinja template. The source need not be valid.
    pub fn of_jinja(source: &str) -> Capabilities {
        jinja::capabilities(source)
    }
}

/// The language of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Jinja, in a model file.
    Jinja,
    /// Go's `text/template`, in a layer of a library model.
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

/// A parsed template of one language.
trait Engine: fmt::Debug + Send + Sync {
    /// Renders the conversation to one text.
    fn render(&self, input: &RenderInput<'_>) -> Result<String, Error>;

    /// Renders a prompt that asks for the text between `prompt` and `suffix`. Ignores the messages of `input`.
    fn insert(&self, _prompt: &str, _suffix: &str, _input: &RenderInput<'_>) -> Result<String, Error> {
        Err(Error::InsertUnsupported)
    }

    /// Returns the features that the template uses.
    fn capabilities(&self) -> Capabilities;

    /// Returns the tags before and after reasoning, if the template contains them.
    fn thinking_tags(&self) -> Option<(&str, &str)>;

    /// Returns the text before tool calls, if the language reveals it.
    fn call_tag(&self) -> Option<&str> {
        None
    }
}

/// Parsed chat template. Clones share it.
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
        Self::parse(source, Language::Jinja, |source| Ok(Arc::new(jinja::Jinja::parse(source)?)))
    }

    /// Parses a template in Go's language, with the functions and variables of Ollama.
    ///
    /// # Errors
    /// When it is not valid, calls an unknown function, is nested too deeply, or is too long.
    pub fn go(source: &str) -> Result<Template, Error> {
        Self::parse(source, Language::Go, |source| Ok(Arc::new(go::Go::parse(source)?)))
    }

    fn parse(
        source: &str,
        language: Language,
        parse: impl FnOnce(&str) -> Result<Arc<dyn Engine>, Error>,
    ) -> Result<Template, Error> {
        if source.len() > MAX_SOURCE_BYTES {
            return Err(Error::TooLarge { what: "source" });
        }
        Ok(Template { engine: parse(source)?, language, source: source.into() })
    }

    /// Returns the template for models without one: ChatML.
    pub fn default_chatml() -> Template {
        Template::jinja(CHATML).expect("the built-in template is valid")
    }

    /// The template's source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The language of the template.
    pub fn language(&self) -> Language {
        self.language
    }

    /// Returns the features that the template uses.
    pub fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }

    /// Returns the tags before and after reasoning, if the template contains them.
    pub fn thinking_tags(&self) -> Option<(&str, &str)> {
        self.engine.thinking_tags()
    }

    /// Returns what the model's answers look like.
    pub fn answer_format(&self) -> AnswerFormat {
        let has_tools = self.capabilities().tools;
        AnswerFormat::of_template(&self.source, self.thinking_tags(), self.engine.call_tag(), has_tools)
    }

    /// Renders the conversation to one text.
    ///
    /// # Errors
    /// When the template rejects the conversation, fails, or exceeds a limit.
    pub fn render(&self, input: &RenderInput<'_>) -> Result<String, Error> {
        self.engine.render(input)
    }

    /// Renders a prompt that asks for the text between `prompt` and `suffix`. Ignores the messages of `input`.
    ///
    /// # Errors
    /// [`Error::InsertUnsupported`] if the template does not use `.Suffix`; else those of [`Self::render`].
    pub fn insert(&self, prompt: &str, suffix: &str, input: &RenderInput<'_>) -> Result<String, Error> {
        if !self.capabilities().insert {
            return Err(Error::InsertUnsupported);
        }
        self.engine.insert(prompt, suffix, input)
    }
}

#[cfg(test)]
mod tests;

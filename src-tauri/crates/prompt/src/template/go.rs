//! Chat templates in the language of Go's `text/template`, as Ollama's library carries them.
//!
//! The crate `gotmpl` parses. Its interpreter has no types, on which the results of Go depend, so this module has its own
//! ([`run`]), with the values ([`values`]) and functions ([`functions`]) of Ollama. A template without `.Messages` runs
//! once per exchange (`.System`, `.Prompt`, `.Response`); the last run ends at `.Response`, where the model continues.
//!
//! Spec: <https://pkg.go.dev/text/template>, <https://docs.ollama.com/modelfile#template>. The test `go_recorded` compares
//! with texts that Ollama rendered.
//!
//! | module | content |
//! |---|---|
//! | `structure` | checks that blocks are closed and not too deep |
//! | `scope` | checks that functions, variables and loops exist |
//! | `tree` | analysis and rewriting of the syntax tree |
//! | `run` | execution |
//! | `values`, `schema` | the conversation and its tools as values |
//! | `functions`, `printf` | functions of templates |
//! | `format`, `number`, `json` | Go's printing and JSON encoding |
//! | `budget` | limits of one rendering |

mod budget;
mod format;
mod functions;
mod json;
mod number;
mod printf;
mod run;
mod schema;
mod scope;
mod structure;
mod tree;
mod values;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};

use gotmpl::TemplateError;
use gotmpl::parse::{ListNode, Parser};

use super::{Capabilities, Engine, Error, RenderInput, ThinkMode};
use crate::message::Message;
use run::Run;
use values::{Items, Value, list_or_nil};

/// Maximum size of a template; the largest published ones have 10,000 bytes. A short action takes 1,000 bytes of tree.
const MAX_SOURCE_BYTES: usize = 128 << 10;

/// Parsed template.
#[derive(Debug)]
pub(super) struct Go {
    main: ListNode,
    /// The main template up to the model's answer.
    until_response: ListNode,
    /// Defined templates by name.
    defined: BTreeMap<String, ListNode>,
    /// Whether the template reads `.Messages`.
    has_messages: bool,
    capabilities: Capabilities,
    tags: (String, String),
    /// The text before tool calls.
    call_tag: Option<String>,
}

impl Go {
    /// Parses a template.
    ///
    /// # Errors
    /// [`Error::Syntax`] with the line, or [`Error::TooLarge`].
    pub(super) fn parse(source: &str) -> Result<Self, Error> {
        if source.len() > MAX_SOURCE_BYTES {
            return Err(Error::TooLarge { what: "source" });
        }
        structure::check(source)?;
        let parse = || Parser::new(source, "{{", "}}")?.parse();
        let panicked = || Error::Syntax { reason: "the template engine panicked".to_owned() };
        let (main, defines) = panic::catch_unwind(AssertUnwindSafe(parse)).map_err(|_| panicked())?.map_err(invalid)?;
        let mut defined: BTreeMap<String, ListNode> = BTreeMap::new();
        for define in defines {
            let name = define.name.to_string();
            // An empty definition never replaces another one. Two non-empty definitions are an error.
            match defined.get(&name).filter(|body| !body.is_empty_tree()) {
                Some(_) if define.body.is_empty_tree() => {}
                Some(_) => {
                    let line = define.pos.line;
                    return Err(Error::Syntax { reason: format!("line {line}: {name:?} is defined twice") });
                }
                None => drop(defined.insert(name, define.body)),
            }
        }
        let mut field_names = tree::field_names(&main);
        scope::check(&main)?;
        for body in defined.values() {
            scope::check(body)?;
            field_names.extend(tree::field_names(body));
        }
        let has = |name: &str| field_names.contains(name);
        let main = if has("messages") || has("response") { main } else { tree::with_response(main) };
        let tags = tree::thinking_tags(&main);
        let call_tag = tree::call_tag(&main, &defined);
        let result_marks = ["eq .Role \"tool\"", "tool_response", "TOOL_RESULTS"];
        Ok(Self {
            has_messages: has("messages"),
            capabilities: Capabilities {
                tools: has("tools"),
                tool_results: has("tools") && has("toolcalls") && result_marks.iter().any(|text| source.contains(text)),
                thinking: !tags.0.is_empty() && !tags.1.is_empty(),
                insert: has("suffix"),
            },
            tags,
            call_tag,
            until_response: tree::until_response(&main),
            main,
            defined,
        })
    }

    /// Runs the template once per exchange.
    fn exchanges(&self, messages: &[Cow<'_, Message>], input: &RenderInput<'_>) -> Result<String, Error> {
        let mut run = Run::new(&self.defined, input.now);
        let mut exchange = Exchange::default();
        for message in messages {
            let content = message.content.as_str();
            match message.role.as_str() {
                "system" => {
                    if !exchange.prompt.is_empty() || !exchange.response.is_empty() {
                        run.template(&self.main, &exchange.data(input), true)?;
                        exchange = Exchange::default();
                    }
                    exchange.system = content;
                }
                "user" => {
                    if !exchange.response.is_empty() {
                        run.template(&self.main, &exchange.data(input), true)?;
                        exchange = Exchange::default();
                    }
                    exchange.prompt = content;
                }
                "assistant" => exchange.response = content,
                _ => {}
            }
        }
        // Ollama renders the cut tree without the option for missing keys.
        run.template(&self.until_response, &exchange.data(input), false)?;
        Ok(run.into_text())
    }
}

/// Creates the data of a rendering: `entries`, and the values for thinking.
fn data<'a>(entries: impl IntoIterator<Item = (&'static str, Value<'a>)>, input: &RenderInput<'_>) -> Value<'a> {
    let thinking = input.thinking.as_ref();
    let level = match thinking {
        Some(ThinkMode::Level(level)) => level.clone().into(),
        // Templates that need a level get this one.
        Some(ThinkMode::On) => "medium".into(),
        Some(ThinkMode::Off) | None => "".into(),
    };
    values::data(entries.into_iter().chain([
        ("Think", Value::Bool(thinking.is_some_and(|think| *think != ThinkMode::Off))),
        ("ThinkLevel", level),
        ("IsThinkSet", Value::Bool(thinking.is_some())),
    ]))
}

impl Engine for Go {
    fn render(&self, input: &RenderInput<'_>) -> Result<String, Error> {
        let messages = merged(input.messages);
        if !self.has_messages {
            return self.exchanges(&messages, input);
        }
        let system = input.messages.iter().filter(|message| message.role == "system");
        let system: Vec<&str> = system.map(|message| message.content.as_str()).collect();
        let messages: Vec<&Message> = messages.iter().map(AsRef::as_ref).collect();
        let tools = schema::tools(input.tools);
        let entries = [
            ("System", system.join("\n\n").into()),
            ("Messages", list_or_nil(&messages, Items::Messages)),
            ("Tools", values::list(tools.as_deref(), Items::Tools)),
            ("Response", "".into()),
        ];
        let mut run = Run::new(&self.defined, input.now);
        run.template(&self.main, &data(entries, input), true)?;
        Ok(run.into_text())
    }

    fn insert(&self, prompt: &str, suffix: &str, input: &RenderInput<'_>) -> Result<String, Error> {
        let entries = [("Prompt", prompt.into()), ("Suffix", suffix.into()), ("Response", "".into())];
        let mut run = Run::new(&self.defined, input.now);
        run.template(&self.main, &data(entries, input), true)?;
        Ok(run.into_text())
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn thinking_tags(&self) -> Option<(&str, &str)> {
        self.capabilities.thinking.then_some((self.tags.0.as_str(), self.tags.1.as_str()))
    }

    fn call_tag(&self) -> Option<&str> {
        self.call_tag.as_deref()
    }
}

/// Values of one exchange.
#[derive(Debug, Default)]
struct Exchange<'a> {
    system: &'a str,
    prompt: &'a str,
    response: &'a str,
}

impl<'a> Exchange<'a> {
    fn data(&self, input: &RenderInput<'_>) -> Value<'a> {
        let entries = [("System", self.system), ("Prompt", self.prompt), ("Response", self.response)];
        data(entries.map(|(name, text)| (name, Value::from(text))), input)
    }
}

/// Merges consecutive messages of one role, with a blank line between their texts. Tool results stay separate, because
/// each belongs to a call.
fn merged(messages: &[Message]) -> Vec<Cow<'_, Message>> {
    let mut merged: Vec<Cow<'_, Message>> = Vec::new();
    for message in messages {
        match merged.last_mut() {
            Some(last) if last.role == message.role && message.role != "tool" => {
                let last = last.to_mut();
                last.content.push_str("\n\n");
                last.content.push_str(&message.content);
            }
            _ => merged.push(Cow::Borrowed(message)),
        }
    }
    merged
}

/// Converts an error of the parser.
fn invalid(error: TemplateError) -> Error {
    let reason = match error {
        TemplateError::Parse { line, message, .. } | TemplateError::Lex { line, message, .. } if line > 0 => {
            format!("line {line}: {message}")
        }
        error => error.to_string(),
    };
    Error::Syntax { reason }
}

#[cfg(test)]
mod tests;

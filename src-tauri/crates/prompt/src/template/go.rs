//! Chat templates in the language of Go's `text/template`, as Ollama's library carries them.
//!
//! The engine is the crate `gotmpl`. This module adds what is specific to Ollama: the values ([`values`]) and functions
//! ([`functions`]) of a template, and the merging of messages. A template without a loop over messages runs once per
//! exchange (`.System`, `.Prompt`, `.Response`); the last run ends at `.Response`, where the model continues.
//!
//! Spec: <https://pkg.go.dev/text/template>, <https://docs.ollama.com/modelfile#template>.
//!
//! **Invariant:** the executed tree has a step action before every node, so that a rendering ends and errors have a
//! line. The syntax tree is public API of `gotmpl`.
//!
//! | module | content |
//! |---|---|
//! | `structure` | checks that blocks are closed and not too deep |
//! | `tree` | analysis and rewriting of the syntax tree |
//! | `values` | the conversation as values |
//! | `functions` | functions of templates |
//! | `text` | Go's printing and JSON encoding |
//! | `budget` | limits of one rendering |

mod budget;
mod functions;
mod structure;
mod text;
mod tree;
mod values;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use gotmpl::parse::{ListNode, Parser};
use gotmpl::{MissingKey, TemplateError, Value};

use super::{Capabilities, Engine, Error, RenderInput};
use crate::message::Message;
use budget::{Budget, Output};
use text::JsonTexts;

/// Maximum size of a template; the largest published ones have 10,000 bytes. A short action takes 1,000 bytes of tree,
/// and every rendering copies the tree.
const MAX_SOURCE_BYTES: usize = 128 << 10;
/// Name of the main template among the defined ones. A definition of this name is overwritten.
const MAIN: &str = " main";
/// Name of the main template up to the model's answer.
const UNTIL_RESPONSE: &str = " until response";

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
        tree::check(&main)?;
        for body in defined.values() {
            tree::check(body)?;
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
            until_response: tree::instrument(tree::until_response(&main)),
            main: tree::instrument(main),
            defined: defined.into_iter().map(|(name, body)| (name, tree::instrument(body))).collect(),
        })
    }

    /// Runs the template once per exchange.
    fn exchanges(&self, messages: &[Cow<'_, Message>], input: &RenderInput<'_>) -> Result<String, Error> {
        let mut rendering = Rendering::new(self, JsonTexts::default(), input);
        let mut exchange = Exchange::default();
        for message in messages {
            let content = message.content.as_str();
            match message.role.as_str() {
                "system" => {
                    if !exchange.prompt.is_empty() || !exchange.response.is_empty() {
                        rendering.run(MAIN, &exchange.values(input))?;
                        exchange = Exchange::default();
                    }
                    exchange.system = content;
                }
                "user" => {
                    if !exchange.response.is_empty() {
                        rendering.run(MAIN, &exchange.values(input))?;
                        exchange = Exchange::default();
                    }
                    exchange.prompt = content;
                }
                "assistant" => exchange.response = content,
                _ => {}
            }
        }
        rendering.run(UNTIL_RESPONSE, &exchange.values(input))?;
        Ok(rendering.text)
    }
}

impl Engine for Go {
    fn render(&self, input: &RenderInput<'_>) -> Result<String, Error> {
        let messages = merged(input.messages);
        if !self.has_messages {
            return self.exchanges(&messages, input);
        }
        let system = input.messages.iter().filter(|message| message.role == "system");
        let system: Vec<&str> = system.map(|message| message.content.as_str()).collect();
        let mut json_texts = JsonTexts::default();
        let values: Vec<Value> = messages.iter().map(|message| values::message(message, &mut json_texts)).collect();
        let tools = values::tools(input.tools, &mut json_texts);
        let entries = [
            ("System", Value::from(system.join("\n\n"))),
            ("Messages", Value::from(values)),
            ("Tools", tools),
            ("Response", Value::from("")),
        ];
        let data = values::map(entries.into_iter().chain(values::thinking(input)));
        let mut rendering = Rendering::new(self, json_texts, input);
        rendering.run(MAIN, &data)?;
        Ok(rendering.text)
    }

    fn insert(&self, prompt: &str, suffix: &str, input: &RenderInput<'_>) -> Result<String, Error> {
        let entries = [("Prompt", Value::from(prompt)), ("Suffix", Value::from(suffix)), ("Response", Value::from(""))];
        let data = values::map(entries.into_iter().chain(values::thinking(input)));
        let mut rendering = Rendering::new(self, JsonTexts::default(), input);
        rendering.run(MAIN, &data)?;
        Ok(rendering.text)
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

/// State of one rendering, which may run the template many times.
struct Rendering {
    template: gotmpl::Template,
    budget: Arc<Budget>,
    text: String,
}

impl Rendering {
    /// Prepares a rendering. The values in `json_texts` must outlive it.
    fn new(go: &Go, json_texts: JsonTexts, input: &RenderInput<'_>) -> Self {
        let budget = Arc::new(Budget::default());
        let empty = gotmpl::Template::new("")
            .missing_key(MissingKey::ZeroValue)
            .max_range_iters(budget::MAX_TURNS)
            .funcs(functions::function_map(Arc::clone(&budget), json_texts, input.now));
        let defined =
            go.defined.iter().fold(empty, |template, (name, body)| template.add_parse_tree(name, body.clone()));
        let template =
            defined.add_parse_tree(MAIN, go.main.clone()).add_parse_tree(UNTIL_RESPONSE, go.until_response.clone());
        Self { template, budget, text: String::new() }
    }

    /// Runs a tree and appends its output.
    fn run(&mut self, tree: &str, data: &Value) -> Result<(), Error> {
        let mut output = Output { text: &mut self.text, budget: &self.budget };
        let execute = || self.template.execute_template_fmt(&mut output, tree, data);
        match (panic::catch_unwind(AssertUnwindSafe(execute)), self.budget.exceeded()) {
            (_, Some(what)) => Err(Error::TooLarge { what }),
            (Ok(Ok(())), None) => Ok(()),
            (Ok(Err(TemplateError::RangeIterLimit)), None) => Err(Error::TooLarge { what: "steps" }),
            (Ok(Err(TemplateError::RecursionLimit)), None) => Err(Error::TooLarge { what: "depth" }),
            (Ok(Err(error)), None) => {
                let what = match error {
                    TemplateError::Exec(what) => what,
                    error => error.to_string(),
                };
                Err(Error::Failed { reason: format!("line {}: {what}", self.budget.line()) })
            }
            (Err(_), None) => Err(Error::Failed { reason: "the template engine panicked".to_owned() }),
        }
    }
}

/// Values of one exchange.
#[derive(Debug, Default)]
struct Exchange<'a> {
    system: &'a str,
    prompt: &'a str,
    response: &'a str,
}

impl Exchange<'_> {
    fn values(&self, input: &RenderInput<'_>) -> Value {
        let entries = [("System", self.system), ("Prompt", self.prompt), ("Response", self.response)];
        values::map(entries.map(|(name, text)| (name, Value::from(text))).into_iter().chain(values::thinking(input)))
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

//! Chat templates in the language of Go's `text/template`, as Ollama's library carries them.
//!
//! The engine is the crate `gotmpl`. What is Ollama's own lies here: which values a template finds ([`values`]), which functions
//! ([`functions`]), how messages are gathered, and how a template without a loop over messages is run once for each exchange
//! (`.System`, `.Prompt`, `.Response`), the last time only up to `.Response`, where the model goes on.
//!
//! Spec: <https://pkg.go.dev/text/template>, <https://docs.ollama.com/modelfile#template>.
//!
//! **Invariant:** the tree that is run has a step before every node, so that a rendering ends and errors have a line.
//!
//! | module | what |
//! |---|---|
//! | `structure` | blocks are ended and not too deep |
//! | `tree` | walks over the parsed template |
//! | `values` | the conversation as values |
//! | `functions` | what a template may call |
//! | `text` | how Go prints and writes JSON |
//! | `budget` | what one rendering may use |

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

use super::{Capabilities, Engine, Error, Render};
use crate::message::Message;
use budget::{Budget, Output};
use text::Printed;

/// Bytes of a template; the largest published ones have ten thousand. A short action is a thousand bytes of tree, and a rendering
/// has its own copy.
const MAX_SOURCE_BYTES: usize = 128 << 10;
/// The name of the template itself among those that it defines; one of the same name gives way.
const MAIN: &str = " main";
/// The name of the template up to where the model's answer begins.
const UNTIL_RESPONSE: &str = " until response";

/// A template, parsed once.
#[derive(Debug)]
pub(super) struct Go {
    main: ListNode,
    /// The template up to where the model's answer begins.
    until_response: ListNode,
    /// What it defines, by name.
    defined: BTreeMap<String, ListNode>,
    /// Whether it goes through the messages by itself.
    has_messages: bool,
    capabilities: Capabilities,
    tags: (String, String),
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
        let read = || Parser::new(source, "{{", "}}")?.parse();
        let broken_off = || Error::Syntax { reason: "the template engine broke off".to_owned() };
        let (main, defines) =
            panic::catch_unwind(AssertUnwindSafe(read)).map_err(|_| broken_off())?.map_err(invalid)?;
        let mut defined: BTreeMap<String, ListNode> = BTreeMap::new();
        for define in defines {
            let name = define.name.to_string();
            // An empty definition does not replace one that is not; two that are not contradict each other.
            match defined.get(&name).filter(|known| !known.is_empty_tree()) {
                Some(_) if define.body.is_empty_tree() => {}
                Some(_) => {
                    let line = define.pos.line;
                    return Err(Error::Syntax { reason: format!("line {line}: {name:?} is defined twice") });
                }
                None => drop(defined.insert(name, define.body)),
            }
        }
        let mut mentioned = tree::mentioned(&main);
        tree::check(&main)?;
        for body in defined.values() {
            tree::check(body)?;
            mentioned.extend(tree::mentioned(body));
        }
        let has = |name: &str| mentioned.contains(name);
        let main = if has("messages") || has("response") { main } else { tree::with_response(main) };
        let tags = tree::thinking_tags(&main);
        let answers = ["eq .Role \"tool\"", "tool_response", "TOOL_RESULTS"];
        Ok(Self {
            has_messages: has("messages"),
            capabilities: Capabilities {
                tools: has("tools"),
                tool_results: has("tools") && has("toolcalls") && answers.iter().any(|text| source.contains(text)),
                thinking: !tags.0.is_empty() && !tags.1.is_empty(),
                insert: has("suffix"),
            },
            tags,
            until_response: tree::watched(tree::cut(&main)),
            main: tree::watched(main),
            defined: defined.into_iter().map(|(name, body)| (name, tree::watched(body))).collect(),
        })
    }

    /// Runs the template once for each exchange.
    fn exchanges(&self, messages: &[Cow<'_, Message>], input: &Render<'_>) -> Result<String, Error> {
        let mut run = Run::new(self, Printed::default(), input);
        let mut slots = Slots::default();
        for message in messages {
            let content = message.content.as_str();
            match message.role.as_str() {
                "system" => {
                    if !slots.prompt.is_empty() || !slots.response.is_empty() {
                        run.run(MAIN, &slots.values(input))?;
                        slots = Slots::default();
                    }
                    slots.system = content;
                }
                "user" => {
                    if !slots.response.is_empty() {
                        run.run(MAIN, &slots.values(input))?;
                        slots = Slots::default();
                    }
                    slots.prompt = content;
                }
                "assistant" => slots.response = content,
                _ => {}
            }
        }
        run.run(UNTIL_RESPONSE, &slots.values(input))?;
        Ok(run.text)
    }
}

impl Engine for Go {
    fn render(&self, input: &Render<'_>) -> Result<String, Error> {
        let messages = gathered(input.messages);
        if !self.has_messages {
            return self.exchanges(&messages, input);
        }
        let system = input.messages.iter().filter(|message| message.role == "system");
        let system: Vec<&str> = system.map(|message| message.content.as_str()).collect();
        let mut printed = Printed::default();
        let values: Vec<Value> = messages.iter().map(|message| values::message(message, &mut printed)).collect();
        let tools = values::tools(input.tools, &mut printed);
        let own = [
            ("System", Value::from(system.join("\n\n"))),
            ("Messages", Value::from(values)),
            ("Tools", tools),
            ("Response", Value::from("")),
        ];
        let data = values::map(own.into_iter().chain(values::thinking(input)));
        let mut run = Run::new(self, printed, input);
        run.run(MAIN, &data)?;
        Ok(run.text)
    }

    fn insert(&self, prompt: &str, suffix: &str, input: &Render<'_>) -> Result<String, Error> {
        let own = [("Prompt", Value::from(prompt)), ("Suffix", Value::from(suffix)), ("Response", Value::from(""))];
        let data = values::map(own.into_iter().chain(values::thinking(input)));
        let mut run = Run::new(self, Printed::default(), input);
        run.run(MAIN, &data)?;
        Ok(run.text)
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn thinking_tags(&self) -> Option<(&str, &str)> {
        self.capabilities.thinking.then_some((self.tags.0.as_str(), self.tags.1.as_str()))
    }
}

/// One rendering, which may run the template many times.
struct Run {
    template: gotmpl::Template,
    budget: Arc<Budget>,
    text: String,
}

impl Run {
    /// Makes a rendering ready. The values that `printed` knows must outlive it.
    fn new(go: &Go, printed: Printed, input: &Render<'_>) -> Self {
        let budget = Arc::new(Budget::default());
        let empty = gotmpl::Template::new("")
            .missing_key(MissingKey::ZeroValue)
            .max_range_iters(budget::MAX_TURNS)
            .funcs(functions::all(Arc::clone(&budget), printed, input.now));
        let defined =
            go.defined.iter().fold(empty, |template, (name, body)| template.add_parse_tree(name, body.clone()));
        let template =
            defined.add_parse_tree(MAIN, go.main.clone()).add_parse_tree(UNTIL_RESPONSE, go.until_response.clone());
        Self { template, budget, text: String::new() }
    }

    /// Runs a tree, whose text comes behind that of the runs before.
    fn run(&mut self, tree: &str, data: &Value) -> Result<(), Error> {
        let mut output = Output { text: &mut self.text, budget: &self.budget };
        let ran = || self.template.execute_template_fmt(&mut output, tree, data);
        match (panic::catch_unwind(AssertUnwindSafe(ran)), self.budget.exceeded()) {
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
            (Err(_), None) => Err(Error::Failed { reason: "the template engine broke off".to_owned() }),
        }
    }
}

/// One exchange.
#[derive(Debug, Default)]
struct Slots<'a> {
    system: &'a str,
    prompt: &'a str,
    response: &'a str,
}

impl Slots<'_> {
    fn values(&self, input: &Render<'_>) -> Value {
        let own = [("System", self.system), ("Prompt", self.prompt), ("Response", self.response)];
        values::map(own.map(|(name, text)| (name, Value::from(text))).into_iter().chain(values::thinking(input)))
    }
}

/// Messages with those of one role that follow each other made one, a blank line between their texts; tools' answers stay
/// apart, because each belongs to a call.
fn gathered(messages: &[Message]) -> Vec<Cow<'_, Message>> {
    let mut gathered: Vec<Cow<'_, Message>> = Vec::new();
    for message in messages {
        match gathered.last_mut() {
            Some(last) if last.role == message.role && message.role != "tool" => {
                let last = last.to_mut();
                last.content.push_str("\n\n");
                last.content.push_str(&message.content);
            }
            _ => gathered.push(Cow::Borrowed(message)),
        }
    }
    gathered
}

/// The parser's error, with its line.
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

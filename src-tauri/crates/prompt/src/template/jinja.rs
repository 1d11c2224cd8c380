//! Chat templates in Jinja, from the key `tokenizer.chat_template`.
//!
//! They are written for Python's Jinja2 as Hugging Face's `transformers` configures it: blocks are trimmed, nothing is
//! escaped, values print as in Python ([`super::python`]), and strings have Python's methods. A template may reject a
//! conversation with `raise_exception`; its message is then the error.

use std::collections::BTreeMap;

use minijinja::value::{Serde, Value};
use minijinja::{Environment, ErrorKind};

use super::{Capabilities, Engine, Error, RenderInput, ThinkMode, budget, engine};
use crate::thinking;

/// Validated Jinja template.
#[derive(Debug)]
pub(super) struct Jinja {
    environment: Environment<'static>,
    /// The preprocessed source.
    source_for_engine: String,
    capabilities: Capabilities,
    thinking_tags: Option<(&'static str, &'static str)>,
}

impl Jinja {
    /// Validates a template.
    ///
    /// # Errors
    /// When it is not valid Jinja.
    pub(super) fn parse(source: &str) -> Result<Self, Error> {
        let invalid = |reason: String| Error::Syntax { reason };
        let preprocessed =
            engine::preprocess(source).ok_or_else(|| invalid("the template engine panicked".to_owned()))?;
        let source_for_engine = preprocessed.map_err(|error| match classify(&error) {
            too_large @ Error::TooLarge { .. } => too_large,
            _ => invalid(error.to_string()),
        })?;
        Ok(Self {
            environment: engine::environment(),
            source_for_engine,
            capabilities: capabilities(source),
            thinking_tags: thinking::tags_in(source),
        })
    }
}

impl Engine for Jinja {
    fn render(&self, input: &RenderInput<'_>) -> Result<String, Error> {
        match engine::render(&self.environment, &self.source_for_engine, context(input)) {
            Some(Ok(text)) => Ok(text),
            Some(Err(error)) => Err(classify(&error)),
            None => Err(Error::Failed { reason: "the template engine panicked".to_owned() }),
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn thinking_tags(&self) -> Option<(&str, &str)> {
        self.thinking_tags
    }
}

/// Detects features by words in the source.
pub(super) fn capabilities(source: &str) -> Capabilities {
    let has = |text: &str| source.contains(text);
    let any = |texts: &[&str]| texts.iter().any(|text| has(text));
    let tools = any(&["tools", "tool_call"]);
    let calls = any(&["tool_calls", "assistant_tool_call"]);
    let role = ["role'] == 'tool'", "role'] == \"tool\"", "role\"] == 'tool'", "role\"] == \"tool\""];
    let results =
        any(&["tool_response", "tool_results", "message.role == 'tool'", "message.role == \"tool\"", "ipython"]);
    Capabilities {
        tools,
        tool_results: tools && calls && (results || any(&role)),
        thinking: thinking::tags_in(source).is_some(),
        insert: false,
    }
}

/// Returns the variables that `transformers` passes to a template.
fn context(input: &RenderInput<'_>) -> Value {
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
        // Most templates read `enable_thinking`, those of DeepSeek and Granite read `thinking`.
        let on = Value::from(*think != ThinkMode::Off);
        variables.insert("enable_thinking", on.clone());
        variables.insert("thinking", on);
        if let ThinkMode::Level(level) = think {
            variables.insert("reasoning_effort", Value::from(level.as_str()));
        }
    }
    Value::from_pairs(variables)
}

/// Converts an engine error to a rejection, an exceeded limit, or a failure.
fn classify(error: &minijinja::Error) -> Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(engine::Refusal(message)) = inner.downcast_ref() {
            return Error::Refused { reason: message.clone() };
        }
        if let Some(budget::Exceeded(what)) = inner.downcast_ref() {
            return Error::TooLarge { what };
        }
        if let Some(inner) = inner.downcast_ref::<minijinja::Error>() {
            match (inner.kind(), inner.detail()) {
                (ErrorKind::OutOfFuel, _) => return Error::TooLarge { what: "steps" },
                // The engine has no kind for it. Templates call themselves for nested values.
                (ErrorKind::InvalidOperation, Some("recursion limit exceeded")) => {
                    return Error::TooLarge { what: "nesting" };
                }
                _ => {}
            }
        }
        cause = inner.source();
    }
    Error::Failed { reason: error.to_string() }
}

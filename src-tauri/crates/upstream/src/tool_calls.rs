//! Tool calls of a stream of OpenAI's API. They arrive in fragments and are complete at the end of their answer.

use std::collections::BTreeMap;

use cairn_prompt::ToolCall;
use serde_json::{Map, Value};

use crate::failure::Failure;

/// Most tool calls of one response. Further ones are ignored.
pub(crate) const MAX_TOOL_CALLS: usize = 128;
/// Most bytes of all tool calls of one response.
const MAX_CALL_BYTES: usize = 8 << 20;

/// A fragment of a tool call. The texts continue those of the fragments before; the id is in one of them.
#[derive(Debug, Default)]
pub(crate) struct CallFragment {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// The tool calls of a response that are not complete.
#[derive(Debug, Default)]
pub(crate) struct PartialCalls {
    /// By the number of the answer, and that of the call in it.
    calls: BTreeMap<(u64, u64), CallFragment>,
    /// Bytes of all fragments so far.
    size_bytes: usize,
}

impl PartialCalls {
    /// Adds a fragment of the call `call` of the answer `answer`.
    pub(crate) fn add(&mut self, answer: u64, call: u64, fragment: CallFragment) -> Result<(), Failure> {
        if self.calls.len() >= MAX_TOOL_CALLS && !self.calls.contains_key(&(answer, call)) {
            return Ok(());
        }
        let CallFragment { id, name, arguments } = fragment;
        self.size_bytes += id.as_ref().map_or(0, String::len) + name.len() + arguments.len();
        if self.size_bytes > MAX_CALL_BYTES {
            return Err(Failure::TooLarge { limit_bytes: MAX_CALL_BYTES });
        }
        let partial = self.calls.entry((answer, call)).or_default();
        partial.id = partial.id.take().or(id.filter(|id| !id.is_empty()));
        partial.name += &name;
        partial.arguments += &arguments;
        Ok(())
    }

    /// Takes the calls of an answer that ends. If a limit of tokens cut it (`is_cut`), an incomplete call is omitted.
    pub(crate) fn take(&mut self, answer: u64, is_cut: bool) -> Result<Vec<ToolCall>, Failure> {
        let (ended, rest): (BTreeMap<_, _>, _) =
            std::mem::take(&mut self.calls).into_iter().partition(|((of, _), _)| *of == answer);
        self.calls = rest;
        let mut complete = Vec::new();
        for CallFragment { id, name, arguments } in ended.into_values() {
            let arguments = match arguments.trim() {
                "" if is_cut => continue,
                "" => Value::Object(Map::new()),
                text => match serde_json::from_str(text) {
                    Ok(arguments) => arguments,
                    Err(_) if is_cut => continue,
                    Err(_) => return Err(Failure::Malformed { reason: "the arguments of a tool call are not JSON" }),
                },
            };
            complete.push(ToolCall { id, name, arguments });
        }
        Ok(complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(name: &str, arguments: &str) -> CallFragment {
        CallFragment { id: None, name: name.to_owned(), arguments: arguments.to_owned() }
    }

    fn names(calls: &[ToolCall]) -> Vec<&str> {
        calls.iter().map(|call| call.name.as_str()).collect()
    }

    #[test]
    fn calls_of_each_answer_are_separate() {
        let mut calls = PartialCalls::default();
        calls.add(0, 0, fragment("a", r#"{"x""#)).unwrap();
        calls.add(1, 0, fragment("b", "")).unwrap();
        calls.add(0, 0, fragment("", ":1}")).unwrap();
        let first = calls.take(0, false).unwrap();
        assert_eq!((names(&first), first[0].arguments.to_string()), (vec!["a"], r#"{"x":1}"#.to_owned()));
        assert_eq!(names(&calls.take(1, false).unwrap()), ["b"], "the other answer");
    }

    #[test]
    fn incomplete_call_is_omitted_only_if_the_answer_is_cut() {
        let mut calls = PartialCalls::default();
        calls.add(0, 0, fragment("a", r#"{"x"#)).unwrap();
        assert_eq!(calls.take(0, true), Ok(Vec::new()));
        calls.add(0, 0, fragment("a", r#"{"x"#)).unwrap();
        assert!(matches!(calls.take(0, false), Err(Failure::Malformed { .. })));
        calls.add(0, 0, fragment("a", "{}")).unwrap();
        calls.add(0, 1, fragment("b", "")).unwrap();
        assert_eq!(names(&calls.take(0, true).unwrap()), ["a"], "the complete one stays");
    }

    #[test]
    fn endless_call_is_refused() {
        let mut calls = PartialCalls::default();
        let text = "x".repeat(1 << 20);
        let refused = (0..20).find_map(|_| calls.add(0, 0, fragment("", &text)).err());
        assert_eq!(refused, Some(Failure::TooLarge { limit_bytes: MAX_CALL_BYTES }));
    }
}

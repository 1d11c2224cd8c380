//! The texts of tool calls in a syntax, so that an answer can be limited to calls.
//!
//! Only syntaxes with arguments in JSON have one: the arguments of a call match the schema of its tool. The texts are those that the
//! models were trained on, with their white space.

use cairn_grammar::Part;
use serde_json::Value;

use super::AnswerFormat;
use super::syntax::Syntax;
use super::tool::Tool;

/// Which calls an answer may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Maximum number of calls.
    pub most: Option<u32>,
    /// Whether a tool with a schema that cannot be enforced is an error. Otherwise its arguments are any object.
    pub is_strict: bool,
}

impl AnswerFormat {
    /// Returns the text of one call or several; none if the syntax has no arguments in JSON.
    pub fn calls(&self, tools: &[Tool], limits: CallLimits) -> Option<Part> {
        let syntax = self.tool_calls.as_ref()?;
        let calls = Calls { tools, limits };
        let text = |text: &str| Part::Text(text.to_owned());
        let tag = |text: &str| Part::Tag(text.to_owned());
        let space = || Part::Regex("[ \\n]{1,4}".to_owned()).optional();
        Some(match syntax {
            Syntax::Hermes => calls.repeated(
                Part::Sequence(vec![
                    space(),
                    tag("<tool_call>"),
                    text("\n"),
                    calls.objects("name", &["arguments"]),
                    text("\n"),
                    tag("</tool_call>"),
                ]),
                "",
            ),
            Syntax::Llama => calls.repeated(calls.objects("name", &["parameters", "arguments"]), "; "),
            Syntax::Mistral => Part::Choice(vec![
                Part::Sequence(vec![tag("[TOOL_CALLS]"), calls.list("name", "arguments")]),
                calls.repeated(
                    calls
                        .each(|tool| vec![tag("[TOOL_CALLS]"), text(&tool.name), tag("[ARGS]"), calls.arguments(tool)]),
                    "",
                ),
            ]),
            Syntax::DeepSeek => {
                let separator = || tag("<｜tool▁sep｜>");
                let call = calls.each(|tool| {
                    let (name, fence) = (text(&tool.name), text("\n```json\n"));
                    let new = Part::Sequence(vec![name.clone(), separator(), calls.arguments(tool)]);
                    let old = vec![text("function"), separator(), name, fence, calls.arguments(tool), text("\n```")];
                    vec![
                        tag("<｜tool▁call▁begin｜>"),
                        Part::Choice(vec![new, Part::Sequence(old)]),
                        tag("<｜tool▁call▁end｜>"),
                        text("\n").optional(),
                    ]
                });
                Part::Sequence(vec![
                    space(),
                    tag("<｜tool▁calls▁begin｜>"),
                    calls.repeated(call, ""),
                    tag("<｜tool▁calls▁end｜>"),
                ])
            }
            Syntax::Kimi => {
                let call = calls.each(|tool| {
                    vec![
                        tag("<|tool_call_begin|>"),
                        text(&format!("functions.{}:", tool.name)),
                        Part::Regex("[0-9]{1,3}".to_owned()),
                        tag("<|tool_call_argument_begin|>"),
                        calls.arguments(tool),
                        tag("<|tool_call_end|>"),
                    ]
                });
                Part::Sequence(vec![
                    tag("<|tool_calls_section_begin|>"),
                    calls.repeated(call, ""),
                    tag("<|tool_calls_section_end|>"),
                ])
            }
            Syntax::Pipes => Part::Sequence(vec![tag("<|tool_call|>"), calls.list("name", "arguments")]),
            Syntax::Cohere => Part::Sequence(vec![
                tag("<|START_ACTION|>"),
                calls.list("tool_name", "parameters"),
                tag("<|END_ACTION|>"),
            ]),
            Syntax::After(start) => Part::Sequence(vec![tag(start), space(), calls.list("name", "arguments")]),
            Syntax::Xml
            | Syntax::Harmony
            | Syntax::Gemma4
            | Syntax::FunctionGemma
            | Syntax::Glm
            | Syntax::Lfm2
            | Syntax::Olmo3 => return None,
        })
    }
}

/// Calls of some tools.
struct Calls<'a> {
    tools: &'a [Tool],
    limits: CallLimits,
}

impl Calls<'_> {
    /// One call of any of the tools.
    fn each(&self, call: impl Fn(&Tool) -> Vec<Part>) -> Part {
        Part::Choice(self.tools.iter().map(|tool| Part::Sequence(call(tool))).collect())
    }

    /// A call as an object. Its arguments have one of the keys.
    fn objects(&self, name_key: &str, keys: &[&str]) -> Part {
        self.each(|tool| {
            let start =
                |key: &&str| Part::Text(format!("{{\"{name_key}\": {}, \"{key}\": ", Value::from(tool.name.as_str())));
            let starts = Part::Choice(keys.iter().map(start).collect());
            vec![starts, self.arguments(tool), Part::Text("}".to_owned())]
        })
    }

    /// A list of calls.
    fn list(&self, name_key: &str, key: &str) -> Part {
        let calls = self.repeated(self.objects(name_key, &[key]), ", ");
        Part::Sequence(vec![Part::Text("[".to_owned()), calls, Part::Text("]".to_owned())])
    }

    fn arguments(&self, tool: &Tool) -> Part {
        Part::Object { schema: tool.parameters.clone(), is_strict: self.limits.is_strict }
    }

    fn repeated(&self, call: Part, separator: &str) -> Part {
        Part::Repeat { part: Box::new(call), separator: separator.to_owned(), most: self.limits.most }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cairn_grammar::{Constraint, Matcher, Vocabulary};
    use serde_json::json;

    use super::*;
    use crate::{AnswerParser, Delta, ThinkingStart, ToolCall};

    const MOST_BYTES: usize = 5000;

    fn bytes() -> Arc<Vocabulary> {
        let all: Vec<u8> = (0..=255).collect();
        Vocabulary::new(all.chunks(1).chain([&b""[..]]), &[256]).expect("the vocabulary is valid")
    }

    fn tools() -> Vec<Tool> {
        let properties =
            json!({"city": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer", "maximum": 9, "minimum": 1}});
        let weather =
            json!({"type": "object", "properties": properties, "required": ["city"], "additionalProperties": false});
        Tool::list(&json!([
            {"type": "function", "function": {"name": "weather", "parameters": weather}},
            {"type": "function", "function": {"name": "clock"}},
        ]))
    }

    /// Generates a text of the grammar. Different seeds select different bytes.
    fn generate(matcher: &Matcher, seed: u64) -> String {
        let (mut matcher, mut state, mut text) = (matcher.clone(), seed, Vec::new());
        while !matcher.is_complete() && text.len() < MOST_BYTES {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let random = (state >> 33) as usize;
            if matcher.is_accepting() && random.is_multiple_of(2) {
                break;
            }
            let mask = matcher.mask().expect("the text can continue");
            let allowed: Vec<u32> = (0..256).filter(|byte| mask.is_allowed(*byte)).collect();
            let Some(byte) = allowed.get(random / 2 % allowed.len().max(1)) else { break };
            matcher.accept(*byte).expect("the byte is allowed");
            text.push(*byte as u8);
        }
        String::from_utf8(text).expect("the grammar has no other text")
    }

    fn parse(format: &AnswerFormat, text: &str) -> (String, Vec<ToolCall>) {
        let mut parser = AnswerParser::new(format, &tools(), ThinkingStart::AtTag);
        let deltas = parser.push(text).into_iter().chain(parser.finish());
        let (mut rest, mut calls) = (String::new(), Vec::new());
        for delta in deltas {
            match delta {
                Delta::ToolCall(call) => calls.push(call),
                Delta::Text(text) | Delta::Thinking(text) => rest += &text,
            }
        }
        (rest, calls)
    }

    #[test]
    fn texts_of_the_grammar_are_parsed_as_calls() {
        let vocabulary = bytes();
        let syntaxes = [
            Syntax::Hermes,
            Syntax::Llama,
            Syntax::Mistral,
            Syntax::DeepSeek,
            Syntax::Kimi,
            Syntax::Pipes,
            Syntax::Cohere,
            Syntax::After("<TOOLCALL>".to_owned()),
        ];
        for syntax in syntaxes {
            let format = AnswerFormat { thinking: None, tool_calls: Some(syntax.clone()) };
            for most in [Some(1), Some(3)] {
                let part = format.calls(&tools(), CallLimits { most, is_strict: true }).expect("calls with JSON");
                let constraint = Constraint::Parts(part.with_tokens(&|_| None));
                let matcher = Matcher::new(&vocabulary, &constraint).expect("the grammar compiles");
                let mut counts = Vec::new();
                for seed in 0..30 {
                    let text = generate(&matcher, seed);
                    let (rest, calls) = parse(&format, &text);
                    assert_eq!(rest.trim(), "", "{syntax:?}: {text}");
                    assert!(!calls.is_empty() && calls.len() as u32 <= most.unwrap_or(1), "{syntax:?}: {text}");
                    for call in &calls {
                        let is_valid = match call.name.as_str() {
                            "weather" => ["Oslo", "Rome"].iter().any(|city| call.arguments["city"] == *city),
                            "clock" => call.arguments == json!({}),
                            _ => false,
                        };
                        assert!(is_valid, "{syntax:?}: {call:?} in {text}");
                    }
                    counts.push(calls.len());
                }
                assert!(most == Some(1) || counts.iter().any(|count| *count > 1), "{syntax:?}: {counts:?}");
            }
        }
    }

    #[test]
    fn syntax_without_json_has_no_grammar() {
        for syntax in [Syntax::Xml, Syntax::Harmony, Syntax::Glm, Syntax::Gemma4] {
            let format = AnswerFormat { thinking: None, tool_calls: Some(syntax) };
            assert_eq!(format.calls(&tools(), CallLimits { most: None, is_strict: true }), None, "{format:?}");
        }
        let format = AnswerFormat { thinking: None, tool_calls: None };
        assert_eq!(format.calls(&tools(), CallLimits { most: None, is_strict: true }), None, "no calls");
    }
}

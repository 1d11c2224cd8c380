//! A chat template in either language, and a conversation.
//!
//! The first byte selects the other inputs of the template. The template's text follows up to a zero byte, then the
//! messages, each ended by a zero byte: the number of a role and a text. Invalid UTF-8 is replaced by U+FFFD.
//!
//! Guarantees: no panic, and a text or an error after a bounded number of steps.

use cairn_prompt::{Message, RenderInput, Template, ThinkMode, ToolCall};
use serde_json::json;

const ROLES: &[&str] = &["user", "assistant", "system", "tool", "developer", ""];
const MOST_MESSAGES: usize = 8;

/// Runs this fuzz target on one input.
pub fn run(input: &[u8]) {
    let (&offered, input) = input.split_first().unwrap_or((&0, &[]));
    let mut parts = input.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    let source = parts.next().unwrap_or_default();
    let has = |bit: u8| offered & (1 << bit) != 0;
    let messages: Vec<Message> = parts.take(MOST_MESSAGES).map(|part| message(&part, has(0))).collect();
    let tools = json!([{
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Returns the weather.",
            "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
        },
    }]);
    let render = RenderInput {
        messages: &messages,
        tools: has(1).then_some(&tools),
        add_generation_prompt: has(2),
        bos_token: if has(3) { "<s>" } else { "" },
        eos_token: "</s>",
        thinking: match (has(4), has(5)) {
            (false, false) => None,
            (true, false) => Some(ThinkMode::On),
            (false, true) => Some(ThinkMode::Off),
            (true, true) => Some(ThinkMode::Level("low".to_owned())),
        },
        ..RenderInput::default()
    };
    for parsed in [Template::jinja(&source), Template::go(&source)] {
        let rendered = parsed.and_then(|template| {
            template.capabilities();
            template.thinking_tags();
            // Most templates have no place for a suffix.
            let _ = template.insert("a", "b", &render);
            template.render(&render)
        });
        if let Err(error) = rendered {
            assert!(!error.to_string().is_empty(), "an error says what is wrong");
        }
    }
}

/// A message out of a number and a text.
fn message(part: &str, calls: bool) -> Message {
    let mut letters = part.chars();
    let role = letters.next().map_or(0, |letter| letter as usize % ROLES.len());
    let text = letters.as_str();
    let mut message = Message::new(ROLES.get(role).copied().unwrap_or_default(), text);
    if calls && message.role == "assistant" {
        message.thinking = Some(text.to_owned());
        message.tool_calls = vec![ToolCall {
            id: Some("call-1".to_owned()),
            name: "weather".to_owned(),
            arguments: json!({"place": text, "days": 2}),
        }];
    }
    if calls && message.role == "tool" {
        message.tool_name = Some("weather".to_owned());
        message.tool_call_id = Some("call-1".to_owned());
    }
    message
}

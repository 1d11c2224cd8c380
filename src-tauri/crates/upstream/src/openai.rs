//! Translates requests of Ollama's API for servers that have only OpenAI's.
//!
//! `num_predict`, `temperature`, `top_p`, `seed`, `stop`, `frequency_penalty` and `presence_penalty` have the same meaning in both
//! APIs. `top_k`, `min_p` and `chat_template_kwargs` are extensions that vLLM, SGLang and llama-server share. All other options are
//! omitted: those of a server's own resources (`num_ctx`, `num_gpu`), and `repeat_penalty`, `repeat_last_n` and `typical_p`. So are
//! `keep_alive`, `truncate` and `shift`. Other fields without a counterpart are refused.

use cairn_wire::ollama::{ChatRequest, GenerateRequest, Message, ToolCall};
use cairn_wire::{OptionError, Options, Think};
use serde_json::{Map, Value, json};

use crate::translation::TranslationError;

/// Translates a chat request to the body of `/v1/chat/completions`, with a streamed response.
pub(crate) fn chat(request: &ChatRequest) -> Result<Map<String, Value>, TranslationError> {
    let absent = |is_set: bool, what| if is_set { Err(TranslationError::Feature(what)) } else { Ok(()) };
    absent(request.logprobs == Some(true), "log probabilities")?;
    absent(request.debug_render_only == Some(true), "rendering a prompt")?;
    let mut body = Map::new();
    body.insert("model".to_owned(), Value::from(request.model.clone()));
    body.insert("messages".to_owned(), Value::Array(messages(&request.messages)?));
    body.insert("stream".to_owned(), Value::Bool(true));
    body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    if let Some(tools) = request.tools.as_ref().filter(|tools| !tools.is_empty()) {
        body.insert("tools".to_owned(), Value::Array(tools.clone()));
    }
    if let Some(format) = request.format.as_ref().filter(|format| !format.is_null() && **format != json!("")) {
        body.insert("response_format".to_owned(), response_format(format)?);
    }
    match request.think {
        None => {}
        Some(Think::Level(level)) => drop(body.insert("reasoning_effort".to_owned(), Value::from(level.as_str()))),
        Some(Think::Switch(is_on)) => {
            body.insert("chat_template_kwargs".to_owned(), json!({"enable_thinking": is_on}));
        }
    }
    if let Some(options) = &request.options {
        add_options(&mut body, options)?;
    }
    Ok(body)
}

/// Translates a request for the answer to a prompt: the prompt becomes a user's message.
pub(crate) fn generate(request: &GenerateRequest) -> Result<Map<String, Value>, TranslationError> {
    let absent = |is_set: bool, what| if is_set { Err(TranslationError::Feature(what)) } else { Ok(()) };
    let has_text = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    absent(request.raw == Some(true), "raw prompts")?;
    absent(has_text(&request.suffix), "text after the answer (suffix)")?;
    absent(has_text(&request.template), "templates of a request")?;
    absent(request.context.as_ref().is_some_and(|tokens| !tokens.is_empty()), "the context of an earlier answer")?;
    absent(request.images.as_ref().is_some_and(|images| !images.is_empty()), "images")?;
    let message = |role: &str, content: &str| Message {
        role: role.to_owned(),
        content: content.to_owned(),
        ..Message::default()
    };
    let system = request.system.as_deref().filter(|text| !text.is_empty());
    let messages = system.map(|text| message("system", text)).into_iter().chain([message("user", &request.prompt)]);
    chat(&ChatRequest {
        model: request.model.clone(),
        messages: messages.collect(),
        format: request.format.clone(),
        options: request.options.clone(),
        think: request.think,
        logprobs: request.logprobs,
        debug_render_only: request.debug_render_only,
        ..ChatRequest::default()
    })
}

fn messages(messages: &[Message]) -> Result<Vec<Value>, TranslationError> {
    // Ids of the calls that have no result yet, with their names. A result of Ollama's API may have a name only.
    let mut open: Vec<(String, String)> = Vec::new();
    let mut calls = 0;
    let convert = |message: &Message| {
        if message.images.as_ref().is_some_and(|images| !images.is_empty()) {
            return Err(TranslationError::Feature("images"));
        }
        let mut row = Map::from_iter([("role".to_owned(), Value::from(message.role.clone()))]);
        row.insert("content".to_owned(), Value::from(message.content.clone()));
        let made: Vec<Value> =
            message.tool_calls.iter().flatten().map(|call| tool_call(call, &mut calls, &mut open)).collect();
        if !made.is_empty() {
            row.insert("tool_calls".to_owned(), Value::Array(made));
        }
        if message.role == "tool" {
            let name = message.tool_name.as_deref();
            let is_of = |(id, called): &(String, String)| match (&message.tool_call_id, name) {
                (Some(wanted), _) => id == wanted,
                (None, Some(name)) => called == name,
                (None, None) => true,
            };
            let of_call = open.iter().position(is_of).map(|at| open.remove(at).0);
            let id = message.tool_call_id.clone().or(of_call).unwrap_or_else(|| "call_0".to_owned());
            row.insert("tool_call_id".to_owned(), Value::from(id));
        }
        Ok(Value::Object(row))
    };
    messages.iter().map(convert).collect()
}

fn tool_call(call: &ToolCall, calls: &mut u32, open: &mut Vec<(String, String)>) -> Value {
    *calls += 1;
    let id = call.id.clone().unwrap_or_else(|| format!("call_{calls}"));
    open.push((id.clone(), call.function.name.clone()));
    let arguments = call.function.arguments.to_string();
    json!({"id": id, "type": "function", "function": {"name": call.function.name, "arguments": arguments}})
}

fn response_format(format: &Value) -> Result<Value, TranslationError> {
    match format {
        Value::String(word) if word == "json" => Ok(json!({"type": "json_object"})),
        Value::Object(_) => {
            Ok(json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": format, "strict": true}}))
        }
        _ => Err(TranslationError::Feature("this format of answers")),
    }
}

fn add_options(body: &mut Map<String, Value>, options: &Map<String, Value>) -> Result<(), OptionError> {
    let mut read = Options::default();
    read.merge(options)?;
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(name.to_owned(), value);
        }
    };
    // -1 and -2 mean no limit, which is the default of OpenAI's API.
    set("max_tokens", read.num_predict.filter(|tokens| *tokens >= 0).map(Value::from));
    set("temperature", read.temperature.map(Value::from));
    set("top_p", read.top_p.map(Value::from));
    set("top_k", read.top_k.map(Value::from));
    set("min_p", read.min_p.map(Value::from));
    set("seed", read.seed.map(Value::from));
    set("stop", read.stop.filter(|stops| !stops.is_empty()).map(Value::from));
    set("frequency_penalty", read.frequency_penalty.map(Value::from));
    set("presence_penalty", read.presence_penalty.map(Value::from));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(value: Value) -> ChatRequest {
        serde_json::from_value(value).expect("a chat request")
    }

    #[test]
    fn chat_request_is_translated() {
        let request = request(json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be short."},
                {"role": "user", "content": "1 + 1?"},
                {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "add", "arguments": {"a": 1}}}]},
                {"role": "tool", "tool_name": "add", "content": "2"},
            ],
            "tools": [{"type": "function", "function": {"name": "add"}}],
            "format": {"type": "object"},
            "think": "low",
            "options": {"num_predict": 5, "temperature": 0, "stop": ["x"], "num_ctx": 4096, "top_k": 3},
        }));
        let expected = json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be short."},
                {"role": "user", "content": "1 + 1?"},
                {"role": "assistant", "content": "", "tool_calls":
                    [{"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{\"a\":1}"}}]},
                {"role": "tool", "content": "2", "tool_call_id": "call_1"},
            ],
            "stream": true,
            "stream_options": {"include_usage": true},
            "tools": [{"type": "function", "function": {"name": "add"}}],
            "response_format": {"type": "json_schema", "json_schema":
                {"name": "answer", "schema": {"type": "object"}, "strict": true}},
            "reasoning_effort": "low",
            "max_tokens": 5, "temperature": 0.0, "stop": ["x"], "top_k": 3,
        });
        assert_eq!(Value::Object(chat(&request).unwrap()), expected);
    }

    #[test]
    fn request_without_counterpart_is_refused() {
        let check = |value: Value, expected: &str| {
            let error = chat(&request(value)).expect_err("refused").to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(json!({"messages": [{"role": "user", "images": ["x"]}]}), "images");
        check(json!({"logprobs": true}), "log probabilities");
        check(json!({"options": {"temperature": "warm"}}), "temperature");
        let check = |value: Value, expected: &str| {
            let request: GenerateRequest = serde_json::from_value(value).expect("a generate request");
            let error = generate(&request).expect_err("refused").to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(json!({"raw": true}), "raw");
        check(json!({"suffix": "x"}), "suffix");
        check(json!({"template": "x"}), "templates");
        check(json!({"context": [1]}), "context");
        check(json!({"images": ["x"]}), "images");
    }

    #[test]
    fn prompt_becomes_a_message() {
        let request = GenerateRequest {
            prompt: "Why?".to_owned(),
            system: Some("Be short.".to_owned()),
            ..GenerateRequest::default()
        };
        let body = generate(&request).unwrap();
        let expected = json!([{"role": "system", "content": "Be short."}, {"role": "user", "content": "Why?"}]);
        assert_eq!(body["messages"], expected);
    }
}

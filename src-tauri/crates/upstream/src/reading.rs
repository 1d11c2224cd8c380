//! What the frames of an answer mean: deltas, the usage at the end, or an error. The bytes stay as they are.

use std::time::Duration;

use cairn_prompt::{Delta, ToolCall};
use cairn_wire::Usage;
use cairn_wire::ollama::Metrics;
use serde::Deserialize;
use serde_json::Value;

use crate::failure::Failure;
use crate::frames::{Framing, event_data};
use crate::tool_calls::{CallFragment, MAX_TOOL_CALLS, PartialCalls};

/// A part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Text, reasoning or a tool call.
    Delta(Delta),
    /// A fragment of a tool call, as servers of OpenAI's API stream it. The complete call follows as a delta only if the request
    /// was translated.
    CallFragment,
    /// The end, with the usage that the server reported. Times that it did not report are 0.
    End(Box<Usage>),
}

/// Most tokens that a server may report. Sums of counts up to it cannot overflow.
const MAX_TOKENS: u64 = 1 << 40;

/// The end of an answer.
fn end(usage: Usage) -> Piece {
    let limited = |tokens: u64| tokens.min(MAX_TOKENS);
    Piece::End(Box::new(Usage {
        prompt_tokens: limited(usage.prompt_tokens),
        cached_tokens: limited(usage.cached_tokens),
        ram_tokens: limited(usage.ram_tokens),
        ssd_tokens: limited(usage.ssd_tokens),
        remote_tokens: limited(usage.remote_tokens),
        answer_tokens: limited(usage.answer_tokens),
        ..usage
    }))
}

/// Result of reading a frame.
pub(crate) type Read = Result<Vec<Piece>, Failure>;

/// Reader of the frames of one answer.
#[derive(Debug)]
pub(crate) enum Reader {
    Ollama,
    OpenAi(Box<OpenAiReader>),
    /// Reads only the usage, of vectors and scores.
    Usage,
}

impl Reader {
    /// Reads a frame. An error of the server is [`Failure::Reported`], with the text as the server sent it.
    pub(crate) fn read(&mut self, framing: Framing, frame: &[u8]) -> Read {
        let event;
        let json = match framing {
            Framing::Events => match event_data(frame) {
                Some(data) => {
                    event = data;
                    &event
                }
                None => return Ok(Vec::new()),
            },
            Framing::Lines | Framing::Whole => frame,
        };
        match (json.trim_ascii(), self) {
            ([], _) => Ok(Vec::new()),
            (json, Self::Ollama) => read_ollama(json),
            (json, Self::Usage) => read_usage(json),
            (b"[DONE]", Self::OpenAi(reader)) => Ok(reader.end().into_iter().collect()),
            (json, Self::OpenAi(reader)) => reader.read(json),
        }
    }

    /// Reads the end of the response. Servers of OpenAI's API may omit the marker of the end.
    pub(crate) fn finish(&mut self, framing: Framing) -> Option<Piece> {
        match self {
            Self::OpenAi(reader) if reader.has_finished || framing == Framing::Whole => reader.end(),
            _ => None,
        }
    }
}

const NOT_JSON: Failure = Failure::Malformed { reason: "a part of the answer is not the expected JSON" };

fn read_ollama(json: &[u8]) -> Read {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Line {
        error: Option<String>,
        message: Option<Message>,
        response: String,
        thinking: String,
        done: bool,
        done_reason: Option<String>,
        #[serde(flatten)]
        metrics: Metrics,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Message {
        content: String,
        thinking: String,
        tool_calls: Option<Vec<cairn_wire::ollama::ToolCall>>,
    }
    let line: Line = serde_json::from_slice(json).map_err(|_| NOT_JSON)?;
    if let Some(text) = line.error {
        return Err(Failure::Reported { text });
    }
    let message = line.message.unwrap_or_default();
    let mut pieces = Vec::new();
    push_text(&mut pieces, line.thinking + &message.thinking, Delta::Thinking);
    push_text(&mut pieces, line.response + &message.content, Delta::Text);
    for call in message.tool_calls.unwrap_or_default().into_iter().take(MAX_TOOL_CALLS) {
        let call = ToolCall { id: call.id, name: call.function.name, arguments: call.function.arguments };
        pieces.push(Piece::Delta(Delta::ToolCall(call)));
    }
    if line.done {
        let metrics = line.metrics;
        pieces.push(end(Usage {
            prompt_tokens: metrics.prompt_eval_count,
            cached_tokens: metrics.cached_tokens.min(metrics.prompt_eval_count),
            ram_tokens: metrics.ram_tokens,
            ssd_tokens: metrics.ssd_tokens,
            remote_tokens: metrics.remote_tokens,
            restore: Duration::from_nanos(metrics.restore_duration),
            recompute_estimate: Duration::from_nanos(metrics.recompute_duration),
            load: Duration::from_nanos(metrics.load_duration),
            prompt: Duration::from_nanos(metrics.prompt_eval_duration),
            answer_tokens: metrics.eval_count,
            answer: Duration::from_nanos(metrics.eval_duration),
            length_reached: line.done_reason.as_deref() == Some("length"),
            ..Usage::default()
        }));
    }
    Ok(pieces)
}

/// Reads the usage of a response without an answer. Ollama's `/api/embeddings` reports none.
fn read_usage(json: &[u8]) -> Read {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Response {
        error: Option<Value>,
        prompt_eval_count: Option<u64>,
        load_duration: Option<u64>,
        usage: Option<InputUsage>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct InputUsage {
        prompt_tokens: Option<u64>,
        /// All that some servers report for rerank.
        total_tokens: Option<u64>,
    }
    let response: Response = serde_json::from_slice(json).map_err(|_| NOT_JSON)?;
    if let Some(error) = response.error.filter(|error| !error.is_null()) {
        return Err(reported(&error));
    }
    let usage = response.usage.unwrap_or_default();
    let tokens = response.prompt_eval_count.or(usage.prompt_tokens).or(usage.total_tokens);
    Ok(vec![end(Usage {
        prompt_tokens: tokens.unwrap_or_default(),
        load: Duration::from_nanos(response.load_duration.unwrap_or_default()),
        ..Usage::default()
    })])
}

/// An error in the body of a successful response of OpenAI's API.
fn reported(error: &Value) -> Failure {
    let message = error.get("message").and_then(Value::as_str).or(error.as_str());
    Failure::Reported { text: message.map_or_else(|| error.to_string(), str::to_owned) }
}

fn push_text(pieces: &mut Vec<Piece>, text: String, delta: fn(String) -> Delta) {
    if !text.is_empty() {
        pieces.push(Piece::Delta(delta(text)));
    }
}

/// State of a stream of OpenAI's API.
#[derive(Debug, Default)]
pub(crate) struct OpenAiReader {
    usage: Usage,
    /// Whether an answer has its finish reason.
    has_finished: bool,
    has_ended: bool,
    /// Collects the tool calls of a request that was translated. Otherwise their bytes are passed on.
    calls: Option<PartialCalls>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Chunk {
    error: Option<Value>,
    choices: Option<Vec<Choice>>,
    usage: Option<ChunkUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Choice {
    index: Option<u64>,
    #[serde(alias = "message")]
    delta: Option<ChoiceDelta>,
    /// Text of `/v1/completions`.
    text: Option<String>,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ChoiceDelta {
    content: Option<String>,
    reasoning: Option<String>,
    reasoning_content: Option<String>,
    tool_calls: Option<Vec<CallPart>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CallPart {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionPart>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FunctionPart {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ChunkUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    prompt_tokens_details: Option<Details>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    cached_tokens: Option<u64>,
}

impl From<CallPart> for CallFragment {
    fn from(part: CallPart) -> Self {
        let function = part.function.unwrap_or_default();
        Self { id: part.id, name: function.name.unwrap_or_default(), arguments: function.arguments.unwrap_or_default() }
    }
}

impl OpenAiReader {
    /// A reader that collects tool calls, for a request that was translated.
    pub(crate) fn translating() -> Self {
        Self { calls: Some(PartialCalls::default()), ..Self::default() }
    }

    fn read(&mut self, json: &[u8]) -> Read {
        let chunk: Chunk = serde_json::from_slice(json).map_err(|_| NOT_JSON)?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(reported(&error));
        }
        let mut pieces = Vec::new();
        for choice in chunk.choices.unwrap_or_default() {
            let answer = choice.index.unwrap_or(0);
            let delta = choice.delta.unwrap_or_default();
            push_text(&mut pieces, delta.reasoning_content.or(delta.reasoning).unwrap_or_default(), Delta::Thinking);
            push_text(&mut pieces, delta.content.or(choice.text).unwrap_or_default(), Delta::Text);
            for (at, part) in (0..).zip(delta.tool_calls.unwrap_or_default()) {
                pieces.push(Piece::CallFragment);
                if let Some(calls) = &mut self.calls {
                    calls.add(answer, part.index.unwrap_or(at), part.into())?;
                }
            }
            if let Some(reason) = choice.finish_reason {
                let is_cut = reason == "length";
                self.has_finished = true;
                self.usage.length_reached |= is_cut;
                if let Some(calls) = &mut self.calls {
                    let complete = calls.take(answer, is_cut)?.into_iter();
                    pieces.extend(complete.map(|call| Piece::Delta(Delta::ToolCall(call))));
                }
            }
        }
        if let Some(usage) = chunk.usage {
            let cached = usage.prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or(0);
            self.usage.prompt_tokens = usage.prompt_tokens;
            self.usage.cached_tokens = cached.min(usage.prompt_tokens);
            self.usage.answer_tokens = usage.completion_tokens;
        }
        Ok(pieces)
    }

    fn end(&mut self) -> Option<Piece> {
        (!std::mem::replace(&mut self.has_ended, true)).then(|| end(self.usage.clone()))
    }
}

#[cfg(test)]
mod tests;

//! `POST /api/chat`: the next message of a conversation.

use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::inference::{CacheScope, Chat, Delta, Endpoint, Event, Finish, Message, Reply, ToolCall};
use cairn_app::{App, Error};
use cairn_wire::Timestamp;
use cairn_wire::ollama::{ChatChunk, ChatRequest, DebugInfo, DoneReason, FunctionCall, Metrics, ReplyMessage};

use super::FullAnswer;
use super::unsupported::check_top_logprobs;
use crate::body::{BodyLimit, JsonBytes};
use crate::client_inference::ClientInference;
use crate::error::{ApiError, json};
use crate::relay::{RelayOutcome, RelayRequest, relay};
use crate::request_log::LogHandle;
use crate::{Server, images, ndjson, tools};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/chat", post(chat).layer(BodyLimit::PROMPT.layer()))
}

impl RelayRequest for ChatRequest {
    const ENDPOINT: Endpoint = Endpoint::OllamaChat;

    fn model(&self) -> &str {
        &self.model
    }

    fn is_streamed(&self) -> bool {
        self.stream.unwrap_or(true)
    }
}

async fn chat(
    State(server): State<Server>,
    client: ClientInference,
    log: LogHandle,
    body: JsonBytes,
) -> Result<Response, ApiError> {
    let request: ChatRequest = match relay(&server, &client, &log, body).await? {
        RelayOutcome::Local(request) => request,
        RelayOutcome::Response(response) => return Ok(response),
    };
    let ClientInference { inference, scope } = client;
    check_top_logprobs(request.top_logprobs)?;
    log.set_model(&request.model);
    let stream = request.is_streamed();
    let chunks =
        ChunkBuilder { app: server.app().clone(), model: request.model.clone(), log, calls: AtomicU32::new(0) };
    let answer = match inference.chat(use_case(request, scope)?).await? {
        Reply::Answer(answer) => answer,
        Reply::Rendered(text) => return Ok(json(StatusCode::OK, &chunks.rendered(text))),
        Reply::Loaded => return Ok(json(StatusCode::OK, &chunks.empty(DoneReason::Load))),
        Reply::Unloaded => return Ok(json(StatusCode::OK, &chunks.empty(DoneReason::Unload))),
    };
    if stream {
        return Ok(ndjson::stream(*answer, server.activity().begin(), move |event| chunks.event(event)));
    }
    let FullAnswer { text, thinking, tool_calls, finish } = FullAnswer::collect(*answer).await?;
    let tool_calls = tool_calls.into_iter().map(|call| chunks.tool_call(call)).collect();
    let mut chunk = chunks.last(finish, text, thinking);
    chunk.message.tool_calls = tool_calls;
    Ok(json(StatusCode::OK, &chunk))
}

fn use_case(request: ChatRequest, scope: CacheScope) -> Result<Chat, ApiError> {
    let tool_call = |call: cairn_wire::ollama::ToolCall| {
        let arguments = tools::arguments(call.function.arguments, &call.function.name)?;
        Ok::<_, ApiError>(ToolCall { id: call.id, name: call.function.name, arguments })
    };
    let message = |message: cairn_wire::ollama::Message| {
        Ok::<_, ApiError>(Message {
            thinking: message.thinking,
            tool_calls: message.tool_calls.unwrap_or_default().into_iter().map(tool_call).collect::<Result<_, _>>()?,
            tool_name: message.tool_name,
            tool_call_id: message.tool_call_id,
            images: images::of_list(message.images)?,
            ..Message::new(message.role, message.content)
        })
    };
    Ok(Chat {
        model: request.model,
        messages: request.messages.into_iter().map(message).collect::<Result<_, _>>()?,
        tools: request.tools.unwrap_or_default(),
        format: super::format(request.format)?,
        options: request.options,
        think: request.think,
        keep_alive: request.keep_alive,
        whole: request.truncate == Some(false),
        no_shift: request.shift == Some(false),
        logprobs: super::requested_logprobs(request.logprobs, request.top_logprobs),
        scope,
        render_only: request.debug_render_only == Some(true),
        ..Chat::default()
    })
}

/// Builder of the response chunks of one answer.
struct ChunkBuilder {
    app: App,
    model: String,
    log: LogHandle,
    /// Number of tool calls so far.
    calls: AtomicU32,
}

impl ChunkBuilder {
    fn tool_call(&self, call: ToolCall) -> cairn_wire::ollama::ToolCall {
        let index = self.calls.fetch_add(1, Ordering::Relaxed);
        let function = FunctionCall { index, name: call.name, arguments: call.arguments };
        cairn_wire::ollama::ToolCall { id: call.id, function }
    }

    fn delta(&self, content: String, thinking: String) -> ChatChunk {
        ChatChunk {
            model: self.model.clone(),
            created_at: Timestamp(self.app.clock().now()),
            message: ReplyMessage { role: "assistant".to_owned(), content, thinking, tool_calls: Vec::new() },
            done: false,
            done_reason: None,
            logprobs: Vec::new(),
            metrics: Metrics::default(),
            truncated: None,
            warnings: Vec::new(),
            debug_info: None,
        }
    }

    fn rendered(&self, text: String) -> ChatChunk {
        ChatChunk {
            debug_info: Some(DebugInfo { rendered_template: text }),
            ..self.delta(String::new(), String::new())
        }
    }

    fn empty(&self, reason: DoneReason) -> ChatChunk {
        ChatChunk { done: true, done_reason: Some(reason), ..self.delta(String::new(), String::new()) }
    }

    fn last(&self, finish: Finish, content: String, thinking: String) -> ChatChunk {
        self.log.set_usage(&finish.usage);
        ChatChunk {
            done: true,
            done_reason: Some(super::done_reason(&finish.usage)),
            metrics: super::metrics(&finish.usage),
            truncated: finish.usage.truncated,
            warnings: crate::warnings::of_answer(&finish),
            logprobs: super::logprobs(finish.logprobs),
            ..self.delta(content, thinking)
        }
    }

    fn event(&self, event: Event) -> Result<ChatChunk, Error> {
        match event {
            Event::Delta(delta, logprobs) => {
                self.log.record_first_token();
                let chunk = match delta {
                    Delta::Text(text) => self.delta(text, String::new()),
                    Delta::Thinking(thinking) => self.delta(String::new(), thinking),
                    Delta::ToolCall(call) => {
                        let mut chunk = self.delta(String::new(), String::new());
                        chunk.message.tool_calls.push(self.tool_call(call));
                        chunk
                    }
                };
                Ok(ChatChunk { logprobs: super::logprobs(logprobs), ..chunk })
            }
            Event::Finish(finish) => Ok(self.last(finish, String::new(), String::new())),
            Event::Failed(error) => Err(error.into()),
        }
    }
}

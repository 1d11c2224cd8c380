//! `POST /api/chat`: the next message of a conversation.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::inference::{CacheScope, Chat, Delta, Done, Event, Message, Reply};
use cairn_app::{App, Error};
use cairn_wire::Timestamp;
use cairn_wire::ollama::{ChatChunk, ChatRequest, DebugInfo, DoneReason, Metrics, ReplyMessage};

use super::FullAnswer;
use super::unsupported::{any, check_top_logprobs, has_format, reject};
use crate::body::{Body, BodyLimit};
use crate::cache_scope::RequestScope;
use crate::error::{ApiError, json};
use crate::request_log::LogHandle;
use crate::{Server, ndjson};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/chat", post(chat).layer(BodyLimit::PROMPT.layer()))
}

async fn chat(
    State(server): State<Server>,
    RequestScope(scope): RequestScope,
    log: LogHandle,
    Body(request): Body<ChatRequest>,
) -> Result<Response, ApiError> {
    check_top_logprobs(request.top_logprobs)?;
    reject(&[
        (any(request.tools.as_ref()), "calling tools"),
        (request.messages.iter().any(|message| any(message.tool_calls.as_ref())), "calling tools"),
        (request.messages.iter().any(|message| any(message.images.as_ref())), "reading images"),
        (has_format(request.format.as_ref()), "structured output (format)"),
    ])?;
    log.set_model(&request.model);
    let stream = request.stream.unwrap_or(true);
    let chunks = ChunkBuilder { app: server.app().clone(), model: request.model.clone(), log };
    let answer = match server.app().inference().chat(use_case(request, scope)).await? {
        Reply::Answer(answer) => answer,
        Reply::Rendered(text) => return Ok(json(StatusCode::OK, &chunks.rendered(text))),
        Reply::Loaded => return Ok(json(StatusCode::OK, &chunks.empty(DoneReason::Load))),
        Reply::Unloaded => return Ok(json(StatusCode::OK, &chunks.empty(DoneReason::Unload))),
    };
    if stream {
        return Ok(ndjson::stream(*answer, server.activity().begin(), move |event| chunks.event(event)));
    }
    let FullAnswer { text, thinking, done } = FullAnswer::collect(*answer).await?;
    Ok(json(StatusCode::OK, &chunks.last(done, text, thinking)))
}

fn use_case(request: ChatRequest, scope: CacheScope) -> Chat {
    let message = |message: cairn_wire::ollama::Message| Message {
        thinking: message.thinking,
        ..Message::new(message.role, message.content)
    };
    Chat {
        model: request.model,
        messages: request.messages.into_iter().map(message).collect(),
        options: request.options,
        think: request.think,
        keep_alive: request.keep_alive,
        whole: request.truncate == Some(false),
        no_shift: request.shift == Some(false),
        logprobs: super::requested_logprobs(request.logprobs, request.top_logprobs),
        scope,
        render_only: request.debug_render_only == Some(true),
        ..Chat::default()
    }
}

/// Builder of the response chunks of one answer.
struct ChunkBuilder {
    app: App,
    model: String,
    log: LogHandle,
}

impl ChunkBuilder {
    fn delta(&self, content: String, thinking: String) -> ChatChunk {
        ChatChunk {
            model: self.model.clone(),
            created_at: Timestamp(self.app.clock().now()),
            message: ReplyMessage { role: "assistant".to_owned(), content, thinking },
            done: false,
            done_reason: None,
            logprobs: Vec::new(),
            metrics: Metrics::default(),
            truncated: None,
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

    fn last(&self, done: Done, content: String, thinking: String) -> ChatChunk {
        self.log.set_usage(&done.usage);
        ChatChunk {
            done: true,
            done_reason: Some(super::done_reason(&done.usage)),
            metrics: super::metrics(&done.usage),
            truncated: done.usage.truncated,
            logprobs: super::logprobs(done.logprobs),
            ..self.delta(content, thinking)
        }
    }

    fn event(&self, event: Event) -> Result<ChatChunk, Error> {
        match event {
            Event::Delta(delta, logprobs) => {
                self.log.record_first_token();
                let (text, thinking) = match delta {
                    Delta::Text(text) => (text, String::new()),
                    Delta::Thinking(thinking) => (String::new(), thinking),
                };
                Ok(ChatChunk { logprobs: super::logprobs(logprobs), ..self.delta(text, thinking) })
            }
            Event::Done(done) => Ok(self.last(done, String::new(), String::new())),
            Event::Failed(error) => Err(error.into()),
        }
    }
}

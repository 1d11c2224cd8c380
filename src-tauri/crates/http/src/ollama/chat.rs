//! `POST /api/chat`: the next message of a conversation.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::inference::{CacheScope, Chat, Done, Event, Message, Reply, Said};
use cairn_app::{App, Error};
use cairn_wire::Timestamp;
use cairn_wire::ollama::{ChatChunk, ChatRequest, DebugInfo, DoneReason, Metrics, ReplyMessage};

use super::Whole;
use super::refused::{any, asks_for_format, check_top_logprobs, refuse};
use crate::body::Body;
use crate::error::{ApiError, json};
use crate::requests::Logged;
use crate::whose::For;
use crate::{Server, ndjson};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/chat", post(chat))
}

async fn chat(
    State(server): State<Server>,
    For(whose): For,
    logged: Logged,
    Body(request): Body<ChatRequest>,
) -> Result<Response, ApiError> {
    check_top_logprobs(request.top_logprobs)?;
    refuse(&[
        (any(request.tools.as_ref()), "calling tools"),
        (request.messages.iter().any(|message| any(message.tool_calls.as_ref())), "calling tools"),
        (request.messages.iter().any(|message| any(message.images.as_ref())), "reading images"),
        (asks_for_format(request.format.as_ref()), "structured output (format)"),
    ])?;
    logged.asks(&request.model);
    let streams = request.stream.unwrap_or(true);
    let chunk = Chunk { app: server.app().clone(), model: request.model.clone(), logged };
    let answer = match server.app().inference().chat(use_case(request, whose)).await? {
        Reply::Answer(answer) => answer,
        Reply::Rendered(text) => return Ok(json(StatusCode::OK, &chunk.rendered(text))),
        Reply::Loaded => return Ok(json(StatusCode::OK, &chunk.empty(DoneReason::Load))),
        Reply::Unloaded => return Ok(json(StatusCode::OK, &chunk.empty(DoneReason::Unload))),
    };
    if streams {
        return Ok(ndjson::stream(*answer, server.activity().begin(), move |event| chunk.of(event)));
    }
    let Whole { text, thinking, done } = Whole::of(*answer).await?;
    Ok(json(StatusCode::OK, &chunk.last(done, text, thinking)))
}

fn use_case(request: ChatRequest, whose: CacheScope) -> Chat {
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
        logprobs: super::asked_logprobs(request.logprobs, request.top_logprobs),
        whose,
        render_only: request.debug_render_only == Some(true),
        begun: None,
    }
}

/// Makes chunks of one answer.
struct Chunk {
    app: App,
    model: String,
    logged: Logged,
}

impl Chunk {
    fn piece(&self, content: String, thinking: String) -> ChatChunk {
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
            ..self.piece(String::new(), String::new())
        }
    }

    fn empty(&self, reason: DoneReason) -> ChatChunk {
        ChatChunk { done: true, done_reason: Some(reason), ..self.piece(String::new(), String::new()) }
    }

    fn last(&self, done: Done, content: String, thinking: String) -> ChatChunk {
        self.logged.cost(&done.cost);
        ChatChunk {
            done: true,
            done_reason: Some(super::done_reason(done.reason)),
            metrics: super::metrics(&done.cost),
            truncated: done.truncated.map(super::truncated),
            logprobs: super::logprobs(done.logprobs),
            ..self.piece(content, thinking)
        }
    }

    fn of(&self, event: Event) -> Result<ChatChunk, Error> {
        if matches!(event, Event::Text(_) | Event::Thinking(_)) {
            self.logged.piece();
        }
        match event {
            Event::Text(Said { text, logprobs }) => {
                Ok(ChatChunk { logprobs: super::logprobs(logprobs), ..self.piece(text, String::new()) })
            }
            Event::Thinking(Said { text, logprobs }) => {
                Ok(ChatChunk { logprobs: super::logprobs(logprobs), ..self.piece(String::new(), text) })
            }
            Event::Done(done) => Ok(self.last(done, String::new(), String::new())),
            Event::Failed(error) => Err(error.into()),
        }
    }
}

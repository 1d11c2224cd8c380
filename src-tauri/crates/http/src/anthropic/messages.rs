//! `POST /v1/messages`: the next message of a conversation, and `POST /v1/messages/count_tokens`: the size of its prompt.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::inference::{Answer, CacheScope, Chat, Reply, ToolCall, TracePrompt};
use cairn_app::secret::random_hex;
use cairn_wire::anthropic::{MessageResponse, MessagesRequest, ResponseBlock, Role, TokenCount, Usage};

use super::stream::MessageStream;
use super::{ending, request};
use crate::body::{Body, BodyLimit};
use crate::client_inference::ClientInference;
use crate::error::{ApiError, json};
use crate::ollama::FullAnswer;
use crate::request_log::LogHandle;
use crate::{RESPONSE_ID_BYTES, Server, streaming};

pub(super) fn routes() -> Router<Server> {
    Router::new()
        .route("/v1/messages", post(message).layer(BodyLimit::PROMPT.layer()))
        .route("/v1/messages/count_tokens", post(count_tokens).layer(BodyLimit::PROMPT.layer()))
}

async fn message(
    State(server): State<Server>,
    ClientInference { inference, scope }: ClientInference,
    log: LogHandle,
    Body(request): Body<MessagesRequest>,
) -> Result<Response, ApiError> {
    if request.max_tokens.is_none_or(|tokens| tokens < 1) {
        return Err(ApiError::bad_request("max_tokens is required and must be positive"));
    }
    check(&request)?;
    log.set_model(&request.model);
    let is_stream = request.stream == Some(true);
    let model = request.model.clone();
    let answer = match inference.chat(use_case(request, scope)?).await? {
        Reply::Answer(answer) => answer,
        Reply::Rendered(_) | Reply::Loaded | Reply::Unloaded => {
            return Err(ApiError::bad_request("messages is required"));
        }
    };
    let response = beginning(model, &answer)?;
    if is_stream {
        let (stream, first) = MessageStream::new(log, response);
        return Ok(streaming::respond(first, *answer, server.activity().begin(), stream));
    }
    let _guard = server.activity().begin();
    let full = FullAnswer::collect(*answer).await?;
    log.set_usage(&full.finish.usage);
    Ok(json(StatusCode::OK, &complete(response, full)))
}

async fn count_tokens(
    State(server): State<Server>,
    Body(mut request): Body<MessagesRequest>,
) -> Result<Response, ApiError> {
    check(&request)?;
    let (tools, _) = request::tools(&mut request)?;
    let prompt = TracePrompt {
        think: request::think(&request)?,
        is_think_optional: true,
        tools,
        messages: request::messages(&mut request)?,
        model: request.model,
        ..TracePrompt::default()
    };
    let traced = server.app().inference().trace(prompt).await?;
    Ok(json(StatusCode::OK, &TokenCount { input_tokens: traced.tokens as u64 }))
}

/// Checks the fields that both endpoints require.
fn check(request: &MessagesRequest) -> Result<(), ApiError> {
    match () {
        () if request.model.is_empty() => Err(ApiError::bad_request("model is required")),
        () if request.messages.is_empty() => Err(ApiError::bad_request("messages is required")),
        () => Ok(()),
    }
}

fn use_case(mut request: MessagesRequest, scope: CacheScope) -> Result<Chat, ApiError> {
    let (tools, tool_use) = request::tools(&mut request)?;
    Ok(Chat {
        options: Some(request::options(&request)),
        format: request::format(&mut request)?,
        think: request::think(&request)?,
        is_think_optional: true,
        tools,
        tool_use,
        messages: request::messages(&mut request)?,
        model: request.model,
        scope,
        ..Chat::default()
    })
}

/// Returns the response before its content. Its input tokens are all tokens of the prompt, because the number of cached ones
/// comes later; the last event corrects it.
fn beginning(model: String, answer: &Answer) -> Result<MessageResponse, ApiError> {
    Ok(MessageResponse {
        id: format!("msg_{}", random_hex::<RESPONSE_ID_BYTES>()?),
        kind: "message".to_owned(),
        role: Role::Assistant,
        model,
        content: Vec::new(),
        stop_reason: None,
        stop_sequence: None,
        usage: Usage { input_tokens: answer.prompt_tokens() as u64, ..Usage::default() },
    })
}

fn complete(response: MessageResponse, full: FullAnswer) -> MessageResponse {
    let FullAnswer { text, thinking, tool_calls, finish } = full;
    let usage = ending::usage(&finish);
    let mut content = Vec::new();
    if !thinking.is_empty() {
        content.push(ResponseBlock::Thinking { thinking, signature: String::new() });
    }
    if !text.is_empty() {
        content.push(ResponseBlock::Text { text });
    }
    let (stop_reason, stop_sequence) = ending::stop(finish, !tool_calls.is_empty());
    let call = |call: ToolCall| {
        let id = call.id.unwrap_or_default();
        ResponseBlock::ToolUse { id, name: call.name, input: call.arguments }
    };
    content.extend(tool_calls.into_iter().map(call));
    MessageResponse { content, stop_reason: Some(stop_reason), stop_sequence, usage, ..response }
}

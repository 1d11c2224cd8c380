//! `POST /v1/responses`: the next items of a conversation, as an adapter over the same use case as `/v1/chat/completions`. Nothing
//! is stored: a request that refers to an earlier response is refused.

mod input;
mod output;
mod tools;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::inference::{CacheScope, Chat, Reply};
use cairn_wire::openai::{Reasoning, ResponseObject, ResponseStatus, ResponsesRequest};
use serde_json::Value;

use super::{Envelope, format, messages, options, service_tier, think};
use crate::Server;
use crate::body::{Body, BodyLimit};
use crate::client_inference::ClientInference;
use crate::error::{ApiError, json};
use crate::request_log::LogHandle;
use crate::sampling::Sampling;
use crate::streaming;
use output::Output;
use tools::Tools;

/// The value of `include` that returns log probabilities.
const INCLUDE_LOGPROBS: &str = "message.output_text.logprobs";

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/v1/responses", post(respond).layer(BodyLimit::PROMPT.layer()))
}

async fn respond(
    State(server): State<Server>,
    ClientInference { inference, scope }: ClientInference,
    log: LogHandle,
    Body(mut request): Body<ResponsesRequest>,
) -> Result<Response, ApiError> {
    check(&request)?;
    log.set_model(&request.model);
    let (inference, tier) = service_tier::apply(request.service_tier.as_deref(), inference);
    let response = beginning(&request, Envelope::new(server.app(), "resp_", &request.model, tier)?);
    let is_stream = request.stream == Some(true);
    let mut warnings = crate::warnings::of_fields(&request.ignored());
    let mut tools = Tools::of(request.tools.take().unwrap_or_default())?;
    warnings.extend(crate::warnings::of_tools(&tools.ignored));
    let namespaces = std::mem::take(&mut tools.namespaces);
    let answer = match inference.chat(use_case(request, tools, scope)?).await? {
        Reply::Answer(answer) => *answer,
        Reply::Rendered(_) | Reply::Loaded | Reply::Unloaded => return Err(ApiError::bad_request("input is empty")),
    };
    let mut output = Output::new(log, response, namespaces, warnings);
    if is_stream {
        let first = output.begin();
        return Ok(streaming::respond(first, answer, server.activity().begin(), output));
    }
    let _guard = server.activity().begin();
    Ok(json(StatusCode::OK, &output.collect(answer).await?))
}

/// Refuses what needs stored responses.
fn check(request: &ResponsesRequest) -> Result<(), ApiError> {
    let refuse = |text: &str| Err(ApiError::bad_request(text));
    if request.previous_response_id.is_some() {
        return refuse(
            "previous_response_id is not supported: this server stores no responses; send the whole conversation in input",
        );
    }
    if request.conversation.as_ref().is_some_and(|conversation| !conversation.is_null()) {
        return refuse(
            "conversation is not supported: this server stores no conversations; send the whole conversation in input",
        );
    }
    if request.background == Some(true) {
        return refuse("background is not supported: this server stores no responses; use stream");
    }
    crate::ollama::unsupported::check_top_logprobs(request.top_logprobs)
}

fn use_case(request: ResponsesRequest, tools: Tools, scope: CacheScope) -> Result<Chat, ApiError> {
    let sampling = Sampling {
        max_tokens: request.max_output_tokens,
        temperature: request.temperature,
        top_p: request.top_p,
        ..Sampling::default()
    };
    let (tools, tool_use) = tools.offered(request.tool_choice, request.parallel_tool_calls)?;
    let wants_logprobs = request.include.is_some_and(|include| include.iter().any(|name| name == INCLUDE_LOGPROBS));
    let text = request.text.unwrap_or_default().format;
    let effort = request.reasoning.and_then(|reasoning| reasoning.effort);
    Ok(Chat {
        model: request.model,
        tools,
        tool_use,
        messages: messages::messages(input::messages(request.instructions, request.input)?)?,
        format: format("text.format", &text.kind, text.schema)?,
        options: Some(options(sampling, request.options)),
        think: think(effort.as_deref())?,
        whole: request.truncation.as_deref() == Some("disabled"),
        logprobs: crate::ollama::requested_logprobs(Some(wants_logprobs), request.top_logprobs),
        scope,
        ..Chat::default()
    })
}

/// Returns the response without its output.
fn beginning(request: &ResponsesRequest, envelope: Envelope) -> ResponseObject {
    ResponseObject {
        id: envelope.id,
        object: "response".to_owned(),
        created_at: envelope.created,
        service_tier: envelope.service_tier,
        status: ResponseStatus::InProgress,
        background: false,
        error: None,
        incomplete_details: None,
        instructions: request.instructions.clone(),
        max_output_tokens: request.max_output_tokens,
        model: envelope.model,
        output: Vec::new(),
        parallel_tool_calls: request.parallel_tool_calls.unwrap_or(true),
        previous_response_id: None,
        // The reasoning itself is sent, and no summary.
        reasoning: Reasoning { summary: None, ..request.reasoning.clone().unwrap_or_default() },
        store: false,
        temperature: request.temperature.unwrap_or(1.0),
        text: request.text.clone().unwrap_or_default(),
        tool_choice: request.tool_choice.clone().unwrap_or_else(|| Value::from("auto")),
        tools: request.tools.clone().unwrap_or_default(),
        top_p: request.top_p.unwrap_or(1.0),
        truncation: request.truncation.clone().unwrap_or_else(|| "auto".to_owned()),
        usage: None,
        metadata: request.metadata.clone().unwrap_or_default(),
        warnings: Vec::new(),
    }
}

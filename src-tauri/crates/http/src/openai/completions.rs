//! `POST /v1/completions`: the answer to a text. As in Ollama, the model's template renders the text as a user's message.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::inference::{CacheScope, Delta, Endpoint, Event, Generate, Logprob, Reply};
use cairn_wire::ErrorBody;
use cairn_wire::openai::{
    Completion, CompletionChoice, CompletionLogprobs, CompletionRequest, FinishReason, Prompts, Stop,
    StructuredOutputs, Usage,
};
use serde_json::Map;

use super::choices::{self, Choices};
use super::{Envelope, UsageSum, finish_reason, guided, options, service_tier};
use crate::body::{BodyLimit, JsonBytes};
use crate::client_inference::ClientInference;
use crate::error::{ApiError, json};
use crate::relay::{RelayOutcome, RelayRequest, relay};
use crate::request_log::LogHandle;
use crate::sampling::Sampling;
use crate::streaming::{self, Encoder};
use crate::{Server, sse};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/v1/completions", post(complete).layer(BodyLimit::PROMPT.layer()))
}

impl RelayRequest for CompletionRequest {
    const ENDPOINT: Endpoint = Endpoint::OpenAiCompletions;

    fn model(&self) -> &str {
        &self.model
    }

    fn is_streamed(&self) -> bool {
        self.stream == Some(true)
    }
}

async fn complete(
    State(server): State<Server>,
    client: ClientInference,
    log: LogHandle,
    body: JsonBytes,
) -> Result<Response, ApiError> {
    let mut request: CompletionRequest = match relay(&server, &client, &log, body).await? {
        RelayOutcome::Local(request) => request,
        RelayOutcome::Response(response) => return Ok(response),
    };
    let ClientInference { inference, scope } = client;
    log.set_model(&request.model);
    let prompts = match std::mem::take(&mut request.prompt) {
        Prompts::One(prompt) => vec![prompt],
        Prompts::Many(prompts) => prompts,
    };
    if prompts.is_empty() || prompts.iter().any(String::is_empty) {
        return Err(ApiError::bad_request("prompt is empty"));
    }
    if request.echo == Some(true) {
        return Err(ApiError::bad_request("echo is not supported; a client has its prompt already"));
    }
    let per_prompt = choices::count(request.n)?;
    let count = u32::try_from(prompts.len()).unwrap_or(u32::MAX).saturating_mul(per_prompt);
    choices::count(Some(count))?;
    let (inference, tier) = service_tier::apply(request.service_tier.as_deref(), inference);
    let envelope = Envelope::new(server.app(), "cmpl-", &request.model, tier)?;
    let is_stream = request.is_streamed();
    let wants_usage = request.stream_options.is_some_and(|options| options.include_usage);
    let warnings = crate::warnings::of_fields(&request.ignored());
    let generate = use_case(request, scope)?;
    let mut answers = Vec::new();
    for prompt in prompts {
        for index in 0..per_prompt {
            let options = choices::with_seed(generate.options.clone(), index);
            let generate = Generate { prompt: prompt.clone(), options, ..generate.clone() };
            match inference.generate(generate).await? {
                Reply::Answer(answer) => answers.push(*answer),
                // A request with a prompt always gets an answer.
                Reply::Rendered(_) | Reply::Loaded | Reply::Unloaded => {}
            }
        }
    }
    let offsets = vec![0; answers.len()];
    let (open, usage) = (answers.len(), UsageSum::default());
    let chunks = Chunks { envelope, log, per_prompt, offsets, open, usage, warnings, wants_usage };
    let answers = Choices::of(answers);
    if is_stream {
        return Ok(streaming::respond(Vec::new(), answers, server.activity().begin(), chunks));
    }
    let _guard = server.activity().begin();
    Ok(json(StatusCode::OK, &chunks.complete(answers.collect().await?)))
}

fn use_case(request: CompletionRequest, scope: CacheScope) -> Result<Generate, ApiError> {
    let sampling = Sampling {
        max_tokens: request.max_tokens,
        temperature: request.temperature,
        top_p: request.top_p,
        seed: request.seed,
        stop: request.stop.map(Stop::into_list),
        frequency_penalty: request.frequency_penalty,
        presence_penalty: request.presence_penalty,
        ..Sampling::default()
    };
    let guided = StructuredOutputs {
        json: request.guided_json,
        regex: request.guided_regex,
        choice: request.guided_choice,
        grammar: request.guided_grammar,
    };
    Ok(Generate {
        model: request.model,
        format: guided::format(None, request.structured_outputs, guided)?,
        suffix: request.suffix.filter(|text| !text.is_empty()),
        options: Some(options(sampling, request.options)),
        logprobs: request.logprobs.and_then(|count| usize::try_from(count.min(20)).ok()),
        scope,
        ..Generate::default()
    })
}

/// Builder of the parts of a response.
struct Chunks {
    envelope: Envelope,
    log: LogHandle,
    /// Number of answers to each prompt.
    per_prompt: u32,
    /// Characters of each choice so far.
    offsets: Vec<u64>,
    /// Number of answers that are not complete.
    open: usize,
    usage: UsageSum,
    warnings: Vec<String>,
    wants_usage: bool,
}

impl Chunks {
    /// Returns a part of a choice, and counts it.
    fn part(&mut self, index: u32, event: Event) -> Result<CompletionChoice, cairn_app::Error> {
        let (text, tokens, finish_reason) = match event {
            Event::Delta(Delta::Text(text), tokens) => {
                self.log.record_first_token();
                (text, tokens, None)
            }
            // The API has no place for the reasoning before the text.
            Event::Delta(_, tokens) => (String::new(), tokens, None),
            Event::Finish(finish) => {
                self.open -= 1;
                crate::warnings::add_of_answer(&mut self.warnings, &finish);
                self.log.set_usage(self.usage.add(index / self.per_prompt, &finish.usage));
                (String::new(), finish.logprobs, Some(finish_reason(&finish.usage, false)))
            }
            Event::Failed(error) => return Err(error.into()),
        };
        let offset = &mut self.offsets[index as usize];
        let logprobs = logprobs(tokens, offset);
        Ok(CompletionChoice { index, text, logprobs, finish_reason })
    }

    fn response(&self, choices: Vec<CompletionChoice>, usage: Option<Usage>) -> Completion {
        let Envelope { id, created, model, system_fingerprint, service_tier } = self.envelope.clone();
        let object = "text_completion".to_owned();
        let warnings = Vec::new();
        Completion { id, object, created, model, system_fingerprint, service_tier, choices, usage, warnings }
    }

    /// Builds the complete response of all events.
    fn complete(mut self, events: Vec<(u32, Event)>) -> Completion {
        let empty = |index| CompletionChoice { index, text: String::new(), logprobs: None, finish_reason: None };
        let mut choices: Vec<CompletionChoice> = (0..).take(self.offsets.len()).map(empty).collect();
        for (index, event) in events {
            let Ok(part) = self.part(index, event) else { continue };
            let choice = &mut choices[index as usize];
            choice.text += &part.text;
            choice.finish_reason = part.finish_reason.or(choice.finish_reason);
            match (&mut choice.logprobs, part.logprobs) {
                (Some(all), Some(more)) => {
                    all.tokens.extend(more.tokens);
                    all.token_logprobs.extend(more.token_logprobs);
                    all.top_logprobs.extend(more.top_logprobs);
                    all.text_offset.extend(more.text_offset);
                }
                (all, more) => *all = more.or(all.take()),
            }
        }
        for choice in &mut choices {
            choice.finish_reason.get_or_insert(FinishReason::Stop);
        }
        let response = self.response(choices, Some(self.usage.total()));
        Completion { warnings: self.warnings, ..response }
    }
}

/// Returns log probabilities for a response; `None` if there are none. Advances the offset of the text.
fn logprobs(tokens: Vec<Logprob>, offset: &mut u64) -> Option<CompletionLogprobs> {
    if tokens.is_empty() {
        return None;
    }
    let mut all = CompletionLogprobs::default();
    for token in tokens {
        let chosen = super::top_logprob(token.chosen);
        let top: Map<_, _> =
            token.top.into_iter().map(super::top_logprob).map(|top| (top.token, top.logprob.into())).collect();
        all.text_offset.push(*offset);
        *offset += chosen.token.chars().count() as u64;
        all.tokens.push(chosen.token);
        all.token_logprobs.push(chosen.logprob);
        all.top_logprobs.push(top);
    }
    Some(all)
}

impl Encoder<(u32, Event)> for Chunks {
    const CONTENT_TYPE: &'static str = sse::CONTENT_TYPE;

    fn encode(&mut self, (index, event): (u32, Event)) -> Result<Vec<u8>, cairn_app::Error> {
        let mut stream = Vec::new();
        let part = self.part(index, event)?;
        let is_empty = part.text.is_empty() && part.logprobs.is_none() && part.finish_reason.is_none();
        let mut last = self.response(vec![part], None);
        if self.open == 0 {
            if self.wants_usage {
                sse::push_data(&mut stream, &last);
                last = self.response(Vec::new(), Some(self.usage.total()));
            }
            last.warnings = std::mem::take(&mut self.warnings);
        }
        if !is_empty {
            sse::push_data(&mut stream, &last);
        }
        if self.open == 0 {
            stream.extend_from_slice(sse::DONE);
        }
        Ok(stream)
    }

    fn encode_error(error: &ErrorBody) -> Vec<u8> {
        super::encode_error(error)
    }
}

//! `POST /v1/rerank`: orders documents by their relevance for a query.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::inference::{Endpoint, Rerank};
use cairn_wire::Usage;
use cairn_wire::openai::{RerankDocument, RerankRequest, RerankResponse, RerankResult};

use super::embeddings::usage;
use crate::Server;
use crate::body::{BodyLimit, JsonBytes};
use crate::client_inference::ClientInference;
use crate::error::{ApiError, json};
use crate::relay::{RelayOutcome, RelayRequest, relay};
use crate::request_log::LogHandle;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/v1/rerank", post(rerank).layer(BodyLimit::PROMPT.layer()))
}

impl RelayRequest for RerankRequest {
    const ENDPOINT: Endpoint = Endpoint::Rerank;

    fn model(&self) -> &str {
        &self.model
    }
}

async fn rerank(
    State(server): State<Server>,
    client: ClientInference,
    log: LogHandle,
    body: JsonBytes,
) -> Result<Response, ApiError> {
    let request: RerankRequest = match relay(&server, &client, &log, body).await? {
        RelayOutcome::Local(request) => request,
        RelayOutcome::Response(response) => return Ok(response),
    };
    log.set_model(&request.model);
    if request.query.is_empty() || request.documents.is_empty() {
        return Err(ApiError::bad_request("query and documents must not be empty"));
    }
    if request.top_n == Some(0) {
        return Err(ApiError::bad_request("top_n cannot be 0; it must be 1 or more"));
    }
    let _guard = server.activity().begin();
    let documents: Vec<String> = request.documents.into_iter().map(RerankDocument::into_text).collect();
    // Documents may be megabytes, and most clients do not request them back.
    let texts = if request.return_documents == Some(true) { documents.clone() } else { Vec::new() };
    let rerank = Rerank { model: request.model.clone(), query: request.query, documents, top: request.top_n };
    let ranking = client.inference.rerank(rerank).await?;
    log.set_usage(&Usage { prompt_tokens: ranking.tokens, ..Usage::default() });
    let result = |ranked: cairn_app::inference::RankedDocument| RerankResult {
        index: ranked.index,
        relevance_score: ranked.score,
        document: texts.get(ranked.index).map(|text| RerankDocument::Object { text: text.clone() }),
    };
    let results = ranking.documents.into_iter().map(result).collect();
    Ok(json(StatusCode::OK, &RerankResponse { model: request.model, results, usage: usage(ranking.tokens) }))
}

//! `/app/remotes`: other servers with models that this daemon serves.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use cairn_app::remotes::{Health, NewRemote, RemoteStatus};
use cairn_wire::app::{
    AddRemoteRequest, CheckRemotesRequest, Remote, RemoteState, RemotesResponse, RemoveRemoteRequest,
};

use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, blocking, json, remote_failure};

pub(super) fn routes() -> Router<Server> {
    Router::new()
        .route("/app/remotes", get(list).post(add))
        .route("/app/remotes/remove", post(remove))
        .route("/app/remotes/check", post(check))
}

async fn list(State(server): State<Server>) -> Result<Response, ApiError> {
    let remotes = server.app().remotes().clone();
    let remotes = blocking(move || remotes.list()).await??.into_iter().map(row).collect();
    Ok(json(StatusCode::OK, &RemotesResponse { remotes }))
}

async fn add(State(server): State<Server>, Body(request): Body<AddRemoteRequest>) -> Result<Response, ApiError> {
    let AddRemoteRequest { name, url, key, insecure } = request;
    server.app().remotes().add(NewRemote { name, url, key, insecure }).await?;
    list(State(server)).await
}

async fn remove(State(server): State<Server>, Body(request): Body<RemoveRemoteRequest>) -> Result<Response, ApiError> {
    server.app().remotes().remove(&request.name).await?;
    list(State(server)).await
}

async fn check(State(server): State<Server>, Body(request): Body<CheckRemotesRequest>) -> Result<Response, ApiError> {
    server.app().remotes().check(request.name.as_deref()).await?;
    list(State(server)).await
}

fn row(remote: RemoteStatus) -> Remote {
    let (state, error) = match (remote.health, remote.circuit_failure) {
        (Health::Down(failure), _) => (RemoteState::Down, Some(remote_failure(&failure))),
        (_, Some(failure)) => (RemoteState::Paused, Some(remote_failure(&failure))),
        (Health::Up, None) => (RemoteState::Up, None),
        (Health::Unknown, None) => (RemoteState::Unknown, None),
    };
    Remote {
        name: remote.name,
        url: remote.url,
        kind: remote.kind.word().to_owned(),
        has_key: remote.has_key,
        state,
        error,
        latency_ms: remote.latency.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        models: remote.models,
        hidden_models: remote.hidden_models,
        outstanding: remote.outstanding as u64,
        requests: remote.counts.requests,
        failures: remote.counts.failed,
        prompt_tokens: remote.counts.prompt_tokens,
        cached_tokens: remote.counts.cached_tokens,
        answer_tokens: remote.counts.answer_tokens,
    }
}

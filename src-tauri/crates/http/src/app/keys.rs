//! `/app/keys`: API keys of other programs.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use cairn_app::keys::StoredKey;
use cairn_wire::app::{CreateKeyRequest, CreateKeyResponse, KeysResponse, ListedKey, RevokeKeyRequest};

use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, blocking, json};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/keys", get(list).post(create)).route("/app/keys/revoke", post(revoke))
}

async fn list(State(server): State<Server>) -> Result<Response, ApiError> {
    let keys = server.app().keys().list()?.into_iter();
    let listed = |(name, StoredKey { scopes, created_at, last_used_at, .. })| ListedKey {
        name,
        scopes,
        created_at,
        last_used_at,
    };
    Ok(json(StatusCode::OK, &KeysResponse { keys: keys.map(listed).collect() }))
}

async fn create(State(server): State<Server>, Body(request): Body<CreateKeyRequest>) -> Result<Response, ApiError> {
    let CreateKeyRequest { name, scopes } = request;
    let key = blocking(move || server.app().keys().create(&name, &scopes)).await??;
    // The response has a secret, so caches must not store it.
    Ok(([(header::CACHE_CONTROL, "no-store")], json(StatusCode::OK, &CreateKeyResponse { key })).into_response())
}

async fn revoke(State(server): State<Server>, Body(request): Body<RevokeKeyRequest>) -> Result<Response, ApiError> {
    let keys = server.app().keys().clone();
    blocking(move || keys.revoke(&request.name)).await??;
    list(State(server)).await
}

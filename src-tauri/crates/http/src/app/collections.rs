//! `/app/collections`: collections of documents, and searches in them.

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{delete, get, post};
use cairn_wire::app::collections::{CollectionChange, CollectionSearch, CollectionsResponse, NewCollectionRequest};

use super::documents::{NameQuery, file_name};
use crate::Server;
use crate::body::{Body, BodyLimit, FileBytes};
use crate::error::{ApiError, json};

pub(super) fn routes() -> Router<Server> {
    Router::new()
        .route("/app/collections", get(list).post(create))
        .route("/app/collections/{id}", get(collection).patch(change).delete(remove))
        .route("/app/collections/{id}/documents", post(add_document).layer(BodyLimit::DOCUMENT.layer()))
        .route("/app/collections/{id}/documents/{document}", delete(remove_document))
        .route("/app/collections/{id}/search", post(search))
}

async fn list(State(server): State<Server>) -> Result<Response, ApiError> {
    let collections = server.app().collections().list().await?;
    Ok(json(StatusCode::OK, &CollectionsResponse { collections }))
}

async fn create(State(server): State<Server>, Body(request): Body<NewCollectionRequest>) -> Result<Response, ApiError> {
    Ok(json(StatusCode::CREATED, &server.app().collections().create(request).await?))
}

async fn collection(State(server): State<Server>, Path(id): Path<String>) -> Result<Response, ApiError> {
    Ok(json(StatusCode::OK, &server.app().collections().collection(&id).await?))
}

async fn change(
    State(server): State<Server>,
    Path(id): Path<String>,
    Body(request): Body<CollectionChange>,
) -> Result<Response, ApiError> {
    Ok(json(StatusCode::OK, &server.app().collections().change(&id, request).await?))
}

async fn remove(State(server): State<Server>, Path(id): Path<String>) -> Result<StatusCode, ApiError> {
    server.app().collections().delete(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn add_document(
    State(server): State<Server>,
    Path(id): Path<String>,
    request: Result<Query<NameQuery>, QueryRejection>,
    FileBytes { bytes, memory }: FileBytes,
) -> Result<Response, ApiError> {
    let name = file_name(request)?;
    Ok(json(StatusCode::CREATED, &server.app().collections().add_document(&id, &name, bytes, memory).await?))
}

async fn remove_document(
    State(server): State<Server>,
    Path((id, document)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    server.app().collections().remove_document(&id, &document).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn search(
    State(server): State<Server>,
    Path(id): Path<String>,
    Body(request): Body<CollectionSearch>,
) -> Result<Response, ApiError> {
    let CollectionSearch { query, limit } = request;
    Ok(json(StatusCode::OK, &server.app().collections().search(&id, &query, limit).await?))
}

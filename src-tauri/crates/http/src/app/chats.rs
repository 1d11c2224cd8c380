//! `/app/chats`: creates, lists, changes and deletes chats. The modules `messages` and `answer` have their contents.

mod answer;
mod branch;
mod events;
mod exchange;
mod messages;
mod presets;
mod search;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use cairn_app::chats::ChatFilter;
use cairn_wire::app::chats::{ChatChange, NewChatRequest};
use serde::Deserialize;

use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, blocking, json};

/// Default number of chats on a page.
const DEFAULT_LIMIT: usize = 200;

pub(super) fn routes() -> Router<Server> {
    Router::new()
        .route("/app/chats", get(list).post(create))
        .route("/app/chats/{id}", get(chat).patch(change).delete(delete))
        .route("/app/chats/{id}/restore", post(restore))
        .route("/app/chats/{id}/prefetch", post(prefetch))
        .merge(answer::routes())
        .merge(branch::routes())
        .merge(events::routes())
        .merge(exchange::routes())
        .merge(messages::routes())
        .merge(presets::routes())
        .merge(search::routes())
}

#[derive(Deserialize)]
struct ListQuery {
    folder: Option<String>,
    #[serde(default)]
    trash: bool,
    #[serde(default)]
    temporary: bool,
    limit: Option<usize>,
    after: Option<String>,
}

/// Returns the parameters of a query, or the error of an invalid one.
fn query<T>(request: Result<Query<T>, QueryRejection>) -> Result<T, ApiError> {
    request.map(|Query(query)| query).map_err(|rejection| ApiError::bad_request(rejection.body_text()))
}

/// Runs a use case of chats on a thread for blocking work.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, cairn_app::chats::Error> + Send + 'static,
) -> Result<T, ApiError> {
    Ok(blocking(work).await??)
}

async fn list(
    State(server): State<Server>,
    request: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let request = query(request)?;
    let app = server.app().clone();
    let response = run_blocking(move || {
        if request.temporary {
            return app.chats().list_temporary_chats();
        }
        let filter = match request.folder {
            _ if request.trash => ChatFilter::Trash,
            Some(folder) => ChatFilter::Folder(folder),
            None => ChatFilter::Unpinned,
        };
        app.chats().list_chats(filter, request.after.as_deref(), request.limit.unwrap_or(DEFAULT_LIMIT))
    });
    Ok(json(StatusCode::OK, &response.await?))
}

async fn create(State(server): State<Server>, Body(request): Body<NewChatRequest>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let chat = run_blocking(move || app.chats().create_chat(request)).await?;
    Ok(json(StatusCode::CREATED, &chat))
}

async fn chat(State(server): State<Server>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    Ok(json(StatusCode::OK, &run_blocking(move || app.chats().chat(&id)).await?))
}

async fn change(
    State(server): State<Server>,
    Path(id): Path<String>,
    Body(request): Body<ChatChange>,
) -> Result<Response, ApiError> {
    let app = server.app().clone();
    Ok(json(StatusCode::OK, &run_blocking(move || app.chats().change_chat(&id, request)).await?))
}

#[derive(Deserialize)]
struct DeleteQuery {
    #[serde(default)]
    forever: bool,
}

async fn delete(
    State(server): State<Server>,
    Path(id): Path<String>,
    request: Result<Query<DeleteQuery>, QueryRejection>,
) -> Result<StatusCode, ApiError> {
    server.app().chats().delete_chat(&id, query(request)?.forever).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn restore(State(server): State<Server>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    Ok(json(StatusCode::OK, &run_blocking(move || app.chats().restore_chat(&id)).await?))
}

async fn prefetch(State(server): State<Server>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let prefetched = run_blocking(move || app.chats().prefetch_chat(&id)).await?;
    Ok(json(StatusCode::ACCEPTED, &prefetched))
}

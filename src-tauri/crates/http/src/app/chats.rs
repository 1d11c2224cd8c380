//! `/app/chats`: creates, lists, changes and deletes chats. The modules `messages` and `answer` have their contents.

mod answer;
mod events;
mod exchange;
mod messages;
mod presets;
mod search;
mod wire_types;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use cairn_app::chats::{ChatFilter, ChatMessageId, ChatToMake, ChatUpdate, TitleSource};
use cairn_wire::Think;
use cairn_wire::app::chats as wire;
use serde::Deserialize;
use serde_json::Value;

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

fn id(text: &str) -> Result<ChatMessageId, ApiError> {
    text.parse().map_err(|error: cairn_app::chats::ChatsError| cairn_app::chats::Error::from(error).into())
}

async fn list(
    State(server): State<Server>,
    request: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let request = query(request)?;
    let app = server.app().clone();
    let response = run_blocking(move || {
        if request.temporary {
            let chats = app.chats().list_temporary_chats()?.into_iter().map(wire_types::summary).collect();
            return Ok(wire::ChatsResponse { chats, ..wire::ChatsResponse::default() });
        }
        let filter = match request.folder {
            _ if request.trash => ChatFilter::Trash,
            Some(folder) => ChatFilter::Folder(folder),
            None => ChatFilter::Unpinned,
        };
        let lists = app.chats().list_chats(filter, request.after.as_deref(), request.limit.unwrap_or(DEFAULT_LIMIT))?;
        Ok(wire_types::lists(lists))
    });
    Ok(json(StatusCode::OK, &response.await?))
}

async fn create(State(server): State<Server>, Body(request): Body<wire::NewChatRequest>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let new = ChatToMake {
        id: String::new(),
        title: request.title.filter(|title| !title.trim().is_empty()),
        model: request.model,
        folder: request.folder,
        system: request.system,
        options: request.options.unwrap_or_default(),
        think: request.think.map(think),
        preset: request.preset,
    };
    let (chat, summary) = run_blocking(move || app.chats().create_chat(new, request.temporary)).await?;
    Ok(json(StatusCode::CREATED, &wire_types::chat(chat, summary)))
}

async fn chat(State(server): State<Server>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let (chat, summary) = run_blocking(move || app.chats().kept_chat(&id)).await?;
    Ok(json(StatusCode::OK, &wire_types::chat(chat, summary)))
}

async fn change(
    State(server): State<Server>,
    Path(id): Path<String>,
    Body(request): Body<wire::ChatChange>,
) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let change = ChatUpdate {
        title: request.title.map(|title| (title, TitleSource::User)),
        model: request.model,
        folder: request.folder,
        pinned: request.pinned,
        system: request.system,
        options: request.options,
        think: request.think.map(|value| value.map(think)),
        preset: request.preset,
    };
    let (chat, summary) = run_blocking(move || app.chats().change_chat(&id, change)).await?;
    Ok(json(StatusCode::OK, &wire_types::chat(chat, summary)))
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
    let (chat, summary) = run_blocking(move || app.chats().restore_chat(&id)).await?;
    Ok(json(StatusCode::OK, &wire_types::chat(chat, summary)))
}

async fn prefetch(State(server): State<Server>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let (warmth, contexts) = run_blocking(move || app.chats().prefetch_chat(&id)).await?;
    let response = wire::ChatPrefetched { warmth: wire_types::warmth(warmth), contexts: contexts as u64 };
    Ok(json(StatusCode::ACCEPTED, &response))
}

fn think(think: Think) -> Value {
    serde_json::to_value(think).expect("a level or a boolean is valid JSON")
}

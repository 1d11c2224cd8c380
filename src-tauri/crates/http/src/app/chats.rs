//! `/app/chats`: making, listing, changing and deleting chats. What is said in them is in `messages` and `answer`.

mod answer;
mod events;
mod exchange;
mod messages;
mod presets;
mod search;
mod told;

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

/// Chats of a list, unless its client says otherwise.
const LIMIT: usize = 200;

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
struct Asked {
    folder: Option<String>,
    #[serde(default)]
    trash: bool,
    #[serde(default)]
    temporary: bool,
    limit: Option<usize>,
    after: Option<String>,
}

/// What a query says, or why it says nothing.
fn read<T>(asked: Result<Query<T>, QueryRejection>) -> Result<T, ApiError> {
    asked.map(|Query(asked)| asked).map_err(|rejection| ApiError::bad_request(rejection.body_text()))
}

/// Does something with chats, which waits for disks.
async fn done<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, cairn_app::chats::Error> + Send + 'static,
) -> Result<T, ApiError> {
    Ok(blocking(work).await??)
}

fn id(text: &str) -> Result<ChatMessageId, ApiError> {
    text.parse().map_err(|error: cairn_app::chats::ChatsError| cairn_app::chats::Error::from(error).into())
}

async fn list(State(server): State<Server>, asked: Result<Query<Asked>, QueryRejection>) -> Result<Response, ApiError> {
    let asked = read(asked)?;
    let app = server.app().clone();
    let response = done(move || {
        if asked.temporary {
            let chats = app.chats().list_temporary_chats()?.into_iter().map(told::summary).collect();
            return Ok(wire::ChatsResponse { chats, ..wire::ChatsResponse::default() });
        }
        let which = match asked.folder {
            _ if asked.trash => ChatFilter::Trash,
            Some(folder) => ChatFilter::Folder(folder),
            None => ChatFilter::Unpinned,
        };
        let lists = app.chats().list_chats(which, asked.after.as_deref(), asked.limit.unwrap_or(LIMIT))?;
        Ok(told::lists(lists))
    });
    Ok(json(StatusCode::OK, &response.await?))
}

async fn create(State(server): State<Server>, Body(asked): Body<wire::NewChatRequest>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let new = ChatToMake {
        id: String::new(),
        title: asked.title.filter(|title| !title.trim().is_empty()),
        model: asked.model,
        folder: asked.folder,
        system: asked.system,
        options: asked.options.unwrap_or_default(),
        think: asked.think.map(think),
        preset: asked.preset,
    };
    let (chat, summary) = done(move || app.chats().create_chat(new, asked.temporary)).await?;
    Ok(json(StatusCode::CREATED, &told::chat(chat, summary)))
}

async fn chat(State(server): State<Server>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let (chat, summary) = done(move || app.chats().kept_chat(&id)).await?;
    Ok(json(StatusCode::OK, &told::chat(chat, summary)))
}

async fn change(
    State(server): State<Server>,
    Path(id): Path<String>,
    Body(asked): Body<wire::ChatChange>,
) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let change = ChatUpdate {
        title: asked.title.map(|title| (title, TitleSource::User)),
        model: asked.model,
        folder: asked.folder,
        pinned: asked.pinned,
        system: asked.system,
        options: asked.options,
        think: asked.think.map(|asked| asked.map(think)),
        preset: asked.preset,
    };
    let (chat, summary) = done(move || app.chats().change_chat(&id, change)).await?;
    Ok(json(StatusCode::OK, &told::chat(chat, summary)))
}

#[derive(Deserialize)]
struct Deleted {
    #[serde(default)]
    forever: bool,
}

async fn delete(
    State(server): State<Server>,
    Path(id): Path<String>,
    asked: Result<Query<Deleted>, QueryRejection>,
) -> Result<StatusCode, ApiError> {
    server.app().chats().delete_chat(&id, read(asked)?.forever).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn restore(State(server): State<Server>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let (chat, summary) = done(move || app.chats().restore_chat(&id)).await?;
    Ok(json(StatusCode::OK, &told::chat(chat, summary)))
}

async fn prefetch(State(server): State<Server>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let (warmth, contexts) = done(move || app.chats().prefetch_chat(&id)).await?;
    let response = wire::ChatPrefetched { warmth: told::warmth(warmth), contexts: contexts as u64 };
    Ok(json(StatusCode::ACCEPTED, &response))
}

fn think(think: Think) -> Value {
    serde_json::to_value(think).expect("it is a word or a switch")
}

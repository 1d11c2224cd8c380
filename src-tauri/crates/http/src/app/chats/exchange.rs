//! Exports and imports: `GET /app/chats/{id}/export?format=`, `GET /app/chats/export`, `GET|POST /app/chats/import`.

use std::convert::Infallible;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use cairn_app::chats::{ChatToMake, Error, Exported, ImportFrom, ImportedChat, ImportedMessage};
use cairn_wire::Timestamp;
use cairn_wire::app::chats::{
    ChatsExport, ChatsImportRequest, ChatsImported, ChatsToImport, ExportedChat, SkippedChat,
};
use serde::Deserialize;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::{done, read, think, told};
use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, json};

const FORMAT: &str = "cairn-chats";
const VERSION: u32 = 1;
/// Chats that may wait for a slow client. Each may be as long as a book with pictures.
const WAITING: usize = 2;
/// Exports of all chats at a time; others wait for their turn. Each holds a thread, of those that all work is shared out to, for as long as
/// its client reads.
static TURNS: Semaphore = Semaphore::const_new(8);

pub(super) fn routes() -> Router<Server> {
    Router::new()
        .route("/app/chats/export", get(all))
        .route("/app/chats/import", get(to_import).post(import))
        .route("/app/chats/{id}/export", get(one))
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    format: Format,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Json,
    Md,
}

async fn one(
    State(server): State<Server>,
    Path(id): Path<String>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, ApiError> {
    let (app, format) = (server.app().clone(), read(asked)?.format);
    match format {
        Format::Md => {
            let text = done(move || app.chats().chat_as_markdown(&id)).await?;
            Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], text).into_response())
        }
        Format::Json => {
            let chats = vec![exported(done(move || app.chats().export_chat(&id)).await?)];
            Ok(json(StatusCode::OK, &export(&server, chats)))
        }
    }
}

/// All chats, each sent as soon as it is read: together they may be more than memory should hold.
async fn all(State(server): State<Server>) -> Response {
    let (sender, receiver) = mpsc::channel::<Bytes>(WAITING);
    let head = serde_json::to_string(&export(&server, Vec::new())).expect("texts can be written");
    let (head, tail) = head.split_at(head.len() - "]}".len());
    let (head, tail) = (head.to_owned(), tail.to_owned());
    let turn = TURNS.acquire().await.expect("nobody closes it");
    let (app, busy) = (server.app().clone(), server.activity().begin());
    tokio::task::spawn_blocking(move || {
        let _held = (busy, turn);
        let mut before = head;
        let read = app.chats().export_chats(|chat| {
            let mut piece = std::mem::replace(&mut before, ",".to_owned());
            piece += &serde_json::to_string(&exported(chat)).expect("texts and numbers can be written");
            sender.blocking_send(piece.into()).is_ok()
        });
        match read {
            // Without its end it is no JSON, so nobody takes it for the whole.
            Err(error) => tracing::error!(%error, "an export ended half-way"),
            Ok(()) => {
                let before = if before == "," { String::new() } else { before };
                // The client may have left.
                let _ = sender.blocking_send((before + &tail).into());
            }
        }
    });
    let pieces = ReceiverStream::new(receiver).map(Ok::<_, Infallible>);
    ([(header::CONTENT_TYPE, "application/json; charset=utf-8")], axum::body::Body::from_stream(pieces)).into_response()
}

fn export(server: &Server, chats: Vec<ExportedChat>) -> ChatsExport {
    let exported_at = Timestamp(server.app().clock().now());
    ChatsExport { format: FORMAT.to_owned(), version: VERSION, exported_at, chats }
}

/// Chats of other apps that could be brought.
async fn to_import(State(server): State<Server>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let found = done(move || Ok(app.chats().chats_of_ollama())).await?;
    // A path that is no Unicode can be brought neither by this nor by typing it.
    let ollama_db = found.and_then(|path| path.to_str().map(str::to_owned));
    Ok(json(StatusCode::OK, &ChatsToImport { ollama_db }))
}

async fn import(State(server): State<Server>, Body(asked): Body<ChatsImportRequest>) -> Result<Response, ApiError> {
    let from = match (asked.export, asked.ollama_db) {
        (Some(ChatsExport { format, version, chats, .. }), None) => {
            if format != FORMAT || version != VERSION {
                return Err(Error::Format { format, version }.into());
            }
            ImportFrom::Export(chats.into_iter().map(brought).collect())
        }
        (None, Some(path)) => ImportFrom::Ollama(path.into()),
        _ => return Err(Error::NoImport.into()),
    };
    let app = server.app().clone();
    let arrived = done(move || app.chats().import_chats(from)).await?;
    let skipped = arrived.skipped.into_iter().map(|(title, reason)| SkippedChat { title, reason });
    let imported = ChatsImported {
        chats: arrived.chats.len() as u64,
        messages: arrived.messages,
        present: arrived.present,
        skipped: skipped.collect(),
    };
    Ok(json(StatusCode::OK, &imported))
}

fn exported(of: Exported) -> ExportedChat {
    let Exported { chat, messages } = of;
    ExportedChat {
        id: chat.row.id,
        title: chat.row.title,
        model: chat.row.model,
        folder: chat.row.folder,
        pinned: chat.row.pinned,
        created_at: told::at(chat.row.created_ms),
        updated_at: told::at(chat.row.updated_ms),
        system: chat.system,
        options: chat.options,
        think: chat.think.and_then(told::think),
        head: chat.head.map(|head| head.to_string()),
        messages: messages.into_iter().map(told::exported).collect(),
    }
}

fn brought(chat: ExportedChat) -> ImportedChat {
    let message = |mut message: cairn_wire::app::chats::ExportedMessage| ImportedMessage {
        id: std::mem::take(&mut message.id),
        parent: message.parent.take(),
        body: told::said(message),
    };
    ImportedChat {
        origin: String::new(),
        pinned: chat.pinned,
        created_ms: told::ms(chat.created_at),
        updated_ms: told::ms(chat.updated_at),
        head: chat.head,
        messages: chat.messages.into_iter().map(message).collect(),
        chat: ChatToMake {
            id: chat.id,
            title: Some(chat.title).filter(|title| !title.is_empty()),
            model: chat.model,
            folder: chat.folder,
            system: chat.system,
            options: chat.options,
            think: chat.think.map(think),
            preset: None,
        },
    }
}

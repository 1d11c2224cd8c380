//! Export and import: `GET /app/chats/{id}/export?format=`, `GET /app/chats/export`, `GET|POST /app/chats/import`.

use std::convert::Infallible;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use cairn_app::chats::{Error, ImportFrom};
use cairn_wire::Timestamp;
use cairn_wire::app::chats::{ChatsExport, ChatsImportRequest, ChatsToImport, ExportedChat};
use serde::Deserialize;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::{query, run_blocking};
use crate::Server;
use crate::body::{Body, BodyLimit};
use crate::error::{ApiError, json};

const FORMAT: &str = "cairn-chats";
const VERSION: u32 = 1;
/// Capacity of the channel to the client in chats. A chat with images can have many megabytes.
const QUEUED_CHATS: usize = 2;
/// Limit of concurrent exports of all chats. Each export occupies a thread of the blocking pool while its client reads.
static EXPORTS: Semaphore = Semaphore::const_new(8);

pub(super) fn routes() -> Router<Server> {
    Router::new()
        .route("/app/chats/export", get(all))
        .route("/app/chats/import", get(to_import).post(import).layer(BodyLimit::EXPORT.layer()))
        .route("/app/chats/{id}/export", get(one))
}

#[derive(Deserialize)]
struct ExportQuery {
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
    request: Result<Query<ExportQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let (app, format) = (server.app().clone(), query(request)?.format);
    match format {
        Format::Md => {
            let text = run_blocking(move || app.chats().chat_as_markdown(&id)).await?;
            Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], text).into_response())
        }
        Format::Json => {
            let chats = vec![run_blocking(move || app.chats().export_chat(&id)).await?];
            Ok(json(StatusCode::OK, &export(&server, chats)))
        }
    }
}

/// Streams an export of all chats. It sends each chat after reading it, because all chats may not fit into memory.
async fn all(State(server): State<Server>) -> Response {
    let (sender, receiver) = mpsc::channel::<Bytes>(QUEUED_CHATS);
    let head = serde_json::to_string(&export(&server, Vec::new())).expect("wire types have string keys");
    let (head, tail) = head.split_at(head.len() - "]}".len());
    let (head, tail) = (head.to_owned(), tail.to_owned());
    let permit = EXPORTS.acquire().await.expect("the semaphore is never closed");
    let (app, guard) = (server.app().clone(), server.activity().begin());
    tokio::task::spawn_blocking(move || {
        let _guards = (guard, permit);
        let mut prefix = head;
        let result = app.chats().export_chats(|chat| {
            let mut chunk = std::mem::replace(&mut prefix, ",".to_owned());
            chunk += &serde_json::to_string(&chat).expect("wire types have string keys and finite numbers");
            sender.blocking_send(chunk.into()).is_ok()
        });
        match result {
            // The body stays incomplete JSON, so a client cannot mistake it for a complete export.
            Err(error) => tracing::error!(%error, "cannot complete an export of all chats"),
            Ok(()) => {
                let prefix = if prefix == "," { String::new() } else { prefix };
                // The client may have disconnected.
                let _ = sender.blocking_send((prefix + &tail).into());
            }
        }
    });
    let chunks = ReceiverStream::new(receiver).map(Ok::<_, Infallible>);
    ([(header::CONTENT_TYPE, "application/json; charset=utf-8")], axum::body::Body::from_stream(chunks)).into_response()
}

fn export(server: &Server, chats: Vec<ExportedChat>) -> ChatsExport {
    let exported_at = Timestamp(server.app().clock().now());
    ChatsExport { format: FORMAT.to_owned(), version: VERSION, exported_at, chats }
}

/// Chats of other apps that can be imported.
async fn to_import(State(server): State<Server>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let found = run_blocking(move || Ok(app.chats().chats_of_ollama())).await?;
    // A path that is not Unicode cannot be sent in an import request.
    let ollama_db = found.and_then(|path| path.to_str().map(str::to_owned));
    Ok(json(StatusCode::OK, &ChatsToImport { ollama_db }))
}

async fn import(State(server): State<Server>, Body(request): Body<ChatsImportRequest>) -> Result<Response, ApiError> {
    let from = match (request.export, request.ollama_db) {
        (Some(ChatsExport { format, version, chats, .. }), None) => {
            if format != FORMAT || version != VERSION {
                return Err(Error::Format { format, version }.into());
            }
            ImportFrom::Export(chats)
        }
        (None, Some(path)) => ImportFrom::Ollama(path.into()),
        _ => return Err(Error::NoImport.into()),
    };
    let app = server.app().clone();
    Ok(json(StatusCode::OK, &run_blocking(move || app.chats().import_chats(from)).await?))
}

//! `POST /app/gc`: removes garbage blobs and, on request, partial downloads.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::library::{GarbageFile, GarbageKind};
use cairn_wire::app::{self as wire, GcRequest, GcResponse};

use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, blocking, json};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/gc", post(gc))
}

async fn gc(State(server): State<Server>, Body(request): Body<GcRequest>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let GcRequest { dry_run, partials } = request;
    let collected = blocking(move || app.collect_garbage(dry_run, partials)).await??;
    let freed_bytes = collected.removed.iter().map(|file| file.size_bytes).sum();
    let files = |garbage: Vec<GarbageFile>| garbage.into_iter().map(file).collect();
    let (removed, kept) = (files(collected.removed), files(collected.kept));
    Ok(json(StatusCode::OK, &GcResponse { dry_run, freed_bytes, removed, kept }))
}

fn file(file: GarbageFile) -> wire::LeftoverFile {
    wire::LeftoverFile {
        path: file.path.display().to_string(),
        size: file.size_bytes,
        kind: match file.kind {
            GarbageKind::Unreferenced => wire::LeftoverKind::Unreferenced,
            GarbageKind::Partial => wire::LeftoverKind::Partial,
        },
        young: file.is_recent,
    }
}

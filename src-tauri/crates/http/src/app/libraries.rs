//! `GET /app/libraries` and `GET /app/usage`: the model libraries and their disk usage.

use std::path::PathBuf;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_app::library::{DiskUsage, LibraryInfo, LibraryRole, LibraryState, LibraryUsage};
use cairn_wire::app as wire;

use crate::Server;
use crate::error::{ApiError, blocking, json};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/libraries", get(libraries)).route("/app/usage", get(usage))
}

async fn libraries(State(server): State<Server>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let libraries = blocking(move || app.library().libraries()).await?;
    let libraries = libraries.into_iter().map(library).collect();
    Ok(json(StatusCode::OK, &wire::LibrariesResponse { libraries }))
}

async fn usage(State(server): State<Server>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let usage = blocking(move || app.library().usage()).await?;
    let libraries: Vec<wire::LibraryUsage> = usage.into_iter().map(row).collect();
    let total = libraries.iter().map(|row| row.model_bytes + row.unreferenced_bytes + row.partial_bytes);
    Ok(json(StatusCode::OK, &wire::UsageResponse { total_bytes: total.sum(), libraries }))
}

fn library(info: LibraryInfo) -> wire::Library {
    let (state, reason) = match info.state {
        LibraryState::Present => (wire::LibraryState::Present, None),
        LibraryState::Absent(reason) => (wire::LibraryState::Absent, Some(reason)),
        LibraryState::Unreadable(reason) => (wire::LibraryState::Unreadable, Some(reason)),
    };
    wire::Library {
        path: info.root.display().to_string(),
        role: match info.role {
            LibraryRole::Own => wire::LibraryRole::Own,
            LibraryRole::Linked => wire::LibraryRole::Linked,
            LibraryRole::Found => wire::LibraryRole::Found,
        },
        state,
        reason,
        missed: info.missed,
        models: info.models as u64,
        skipped: info.skipped.into_iter().map(skipped).collect(),
    }
}

pub(super) fn skipped((path, reason): (PathBuf, String)) -> wire::SkippedFile {
    wire::SkippedFile { path: path.display().to_string(), reason }
}

fn row(row: LibraryUsage) -> wire::LibraryUsage {
    let LibraryUsage { library: info, usage, free_bytes } = row;
    let models = usage.models.iter().map(|model| wire::ModelUsage {
        model: model.name.to_string(),
        own_bytes: model.own_bytes,
        shared_bytes: model.shared_bytes,
        missing: model.missing as u64,
    });
    wire::LibraryUsage {
        library: library(info),
        models: models.collect(),
        model_bytes: usage.model_bytes,
        shared_bytes: usage.shared_bytes,
        unreferenced_bytes: DiskUsage::bytes_of(&usage.unreferenced),
        unreferenced_files: usage.unreferenced.len() as u64,
        partial_bytes: DiskUsage::bytes_of(&usage.partials),
        partial_files: usage.partials.len() as u64,
        free_bytes,
    }
}

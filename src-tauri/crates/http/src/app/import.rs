//! `POST /app/import`: imports a model file on this machine into the library.

use std::path::PathBuf;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use cairn_app::Error;
use cairn_app::library::{Import, ImportEvent, ImportMethod, ImportMode, Imported, Progress, Stage};
use cairn_wire::app::{ImportLine, ImportRequest, ImportWay, ImportedModel};

use crate::body::Body;
use crate::error::ApiError;
use crate::{Server, ndjson};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/import", post(import))
}

async fn import(State(server): State<Server>, Body(request): Body<ImportRequest>) -> Result<Response, ApiError> {
    let path = PathBuf::from(request.path);
    // The daemon and the client have different working directories.
    if !path.is_absolute() {
        return Err(ApiError::bad_request("path must be absolute"));
    }
    let taking = match (request.link, request.moving) {
        (true, true) => return Err(ApiError::bad_request("invalid import: a file can be linked or moved, not both")),
        (true, false) => ImportMode::Link,
        (false, true) => ImportMode::Move,
        (false, false) => ImportMode::Copy,
    };
    let import = Import { path, name: request.name, taking, force: request.force };
    let events = server.app().library().import(import);
    ndjson::stream_or_error(events, server.activity().begin(), line).await
}

fn line(event: ImportEvent) -> Result<ImportLine, Error> {
    match event {
        ImportEvent::Progress(Progress { stage, done_bytes: completed, total_bytes: total }) => Ok(match stage {
            Stage::Hashing => ImportLine::Hashing { completed, total },
            Stage::Copying => ImportLine::Copying { completed, total },
        }),
        ImportEvent::Done(imported) => Ok(ImportLine::Success(model(imported))),
        ImportEvent::Failed(error) => Err(error.into()),
    }
}

fn model(imported: Imported) -> ImportedModel {
    let (way, reason, made_read_only) = match imported.way {
        ImportMethod::Present => (ImportWay::Present, None, false),
        ImportMethod::Reflinked => (ImportWay::Reflinked, None, false),
        ImportMethod::Linked { made_read_only } => (ImportWay::Linked, None, made_read_only),
        ImportMethod::Moved => (ImportWay::Moved, None, false),
        ImportMethod::Copied { reason } => (ImportWay::Copied, Some(reason), false),
    };
    ImportedModel {
        model: imported.name,
        size: imported.size_bytes,
        way,
        reason,
        made_read_only,
        moved: imported.moved,
        kept_reason: imported.kept,
        chat_template: imported.has_chat_template,
        template_problem: imported.template_problem,
    }
}

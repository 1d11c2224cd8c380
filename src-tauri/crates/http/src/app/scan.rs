//! `POST /app/scan`: finds the models of other apps on this machine.

use std::path::PathBuf;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use cairn_app::Error;
use cairn_app::library::{Found, FoundStatus, Scan, ScanEvent, Scanned};
use cairn_wire::app::{FoundModel, FoundState, ScanLine, ScanRequest, ScannedFolder, ScannedModels};

use super::libraries::skipped;
use crate::body::Body;
use crate::error::ApiError;
use crate::{Server, ndjson};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/scan", post(scan))
}

async fn scan(State(server): State<Server>, Body(request): Body<ScanRequest>) -> Result<Response, ApiError> {
    let ScanRequest { folders, apps, digests } = request;
    let folders: Vec<PathBuf> = folders.into_iter().map(PathBuf::from).collect();
    // The daemon and the client have different working directories.
    if folders.iter().any(|folder| !folder.is_absolute()) {
        return Err(ApiError::bad_request("folders must be absolute"));
    }
    let events = server.app().library().scan(Scan { folders, apps, digests });
    ndjson::stream_or_error(events, server.activity().begin(), line).await
}

fn line(event: ScanEvent) -> Result<ScanLine, Error> {
    Ok(match event {
        ScanEvent::Progress { done_bytes: completed, total_bytes: total } => ScanLine::Hashing { completed, total },
        ScanEvent::Done(scanned) => ScanLine::Done(report(scanned)),
    })
}

fn report(scanned: Scanned) -> ScannedModels {
    let folder = |scanned: cairn_app::settings::AppFolder| ScannedFolder {
        app: scanned.source_app.name().to_owned(),
        path: scanned.folder.display().to_string(),
    };
    ScannedModels {
        models: scanned.found.into_iter().map(model).collect(),
        folders: scanned.looked.into_iter().map(folder).collect(),
        skipped: scanned.unread.into_iter().map(skipped).collect(),
        cut: scanned.cut.map(|folder| folder.display().to_string()),
    }
}

fn model(found: Found) -> FoundModel {
    let (state, model, reason) = match found.status {
        FoundStatus::New => (FoundState::New, None, None),
        FoundStatus::Here(model) => (FoundState::Here, Some(model), None),
        FoundStatus::MaybeHere(model) => (FoundState::MaybeHere, Some(model), None),
        FoundStatus::Projector => (FoundState::Projector, None, None),
        FoundStatus::Adapter => (FoundState::Adapter, None, None),
        FoundStatus::Broken(reason) => (FoundState::Broken, None, Some(reason)),
    };
    FoundModel {
        name: found.name,
        size: found.size_bytes,
        app: found.source_app.name().to_owned(),
        path: found.path.display().to_string(),
        parts: found.parts as u64,
        state,
        model,
        reason,
        digest: found.digest.map(|digest| digest.to_string()),
        family: found.details.family,
        parameter_size: found.details.parameter_size,
        quantization_level: found.details.quantization,
    }
}

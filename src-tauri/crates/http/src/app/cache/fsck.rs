//! `GET /app/cache/fsck`: verifies the chunks of the SSD tier.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_app::cache::{Checkup, check_folder};
use cairn_wire::app::{CacheFsck, DamagedChunk};

use crate::Server;
use crate::error::{ApiError, blocking, json};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/cache/fsck", get(fsck))
}

async fn fsck(State(server): State<Server>) -> Result<Response, ApiError> {
    let settings = server.app().settings().at_start().clone();
    let checkup = blocking(move || check_folder(&settings, false)).await??;
    Ok(json(StatusCode::OK, &response(checkup)))
}

/// Converts the result of a check to its wire type.
pub fn response(checkup: Checkup) -> CacheFsck {
    let files = |files: Vec<(std::path::PathBuf, String)>| {
        let file =
            |(path, reason): (std::path::PathBuf, String)| DamagedChunk { path: path.display().to_string(), reason };
        files.into_iter().map(file).collect()
    };
    CacheFsck {
        folder: checkup.folder.display().to_string(),
        whole: checkup.whole,
        whole_bytes: checkup.whole_bytes,
        damaged: files(checkup.damaged),
        unread: files(checkup.unread),
        orphans: checkup.orphans,
        orphan_bytes: checkup.orphan_bytes,
        aside: checkup.aside,
        foreign: checkup.foreign,
        fixed: checkup.fixed,
    }
}

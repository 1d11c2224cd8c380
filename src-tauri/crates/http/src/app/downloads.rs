//! `GET /app/downloads`: the list of downloads. Each command has its own module.

mod add;
mod cancel;
mod cap;
mod discard;
mod events;
mod pause;
mod reorder;
mod resume;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_app::App;
use cairn_app::transfers::{PullRow, PullState};
use cairn_wire::app::{Download, DownloadState, DownloadsResponse};

use crate::Server;
use crate::error::{json, pull_error};

pub(super) fn routes() -> Router<Server> {
    Router::new()
        .route("/app/downloads", get(list).post(add::add))
        .merge(cancel::routes())
        .merge(cap::routes())
        .merge(discard::routes())
        .merge(events::routes())
        .merge(pause::routes())
        .merge(reorder::routes())
        .merge(resume::routes())
}

async fn list(State(server): State<Server>) -> Response {
    listed(server.app())
}

/// Returns the list of all downloads, which is the response to every command.
fn listed(app: &App) -> Response {
    json(StatusCode::OK, &response(app))
}

fn response(app: &App) -> DownloadsResponse {
    DownloadsResponse {
        downloads: app.transfers().downloads().into_iter().map(download).collect(),
        limit_bytes_per_second: app.transfers().speed_limit(),
    }
}

fn download(row: PullRow) -> Download {
    Download {
        id: row.id,
        model: row.model,
        state: match row.state {
            PullState::Queued => DownloadState::Queued,
            PullState::Running => DownloadState::Running,
            PullState::Paused => DownloadState::Paused,
            PullState::Stopped => DownloadState::Stopped,
            PullState::Failed => DownloadState::Failed,
            PullState::Done => DownloadState::Done,
        },
        total: row.total_bytes,
        completed: row.done_bytes,
        bytes_per_second: row.bytes_per_s,
        eta_seconds: row.eta.map(|eta| eta.as_secs()),
        held_bytes: row.held_bytes,
        source: row.host,
        problem: row.problem,
        error: row.error.map(|error| pull_error(&error)),
        detached: row.detached,
    }
}

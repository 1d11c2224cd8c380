//! `GET /app/speeds`: speeds of the installed models on this machine. The first request starts the measurement of the kernels.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_app::speed::{Figure, Speed};
use cairn_wire::app;

use crate::Server;
use crate::error::{ApiError, blocking, json};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/speeds", get(speeds))
}

async fn speeds(State(server): State<Server>) -> Result<Response, ApiError> {
    let speeds = server.app().speeds().clone();
    let (installed, measuring) = blocking(move || {
        speeds.measure_if_needed();
        (speeds.installed(), speeds.is_measuring())
    })
    .await?;
    let models = installed?.into_iter().map(|one| app::InstalledSpeed { model: one.name, speed: speed(one.speed) });
    Ok(json(StatusCode::OK, &app::SpeedsResponse { models: models.collect(), measuring }))
}

pub(super) fn speed(speed: Speed) -> app::Speed {
    let figure = |Figure { tokens_per_second, is_measured }: Figure| app::SpeedFigure {
        tokens_per_second,
        measured: is_measured,
    };
    app::Speed { answer: figure(speed.answer), prompt: figure(speed.prompt) }
}

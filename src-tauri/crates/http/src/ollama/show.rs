//! `POST /api/show`: details of one model.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::library::Shown;
use cairn_wire::Timestamp;
use cairn_wire::ollama::{Message, ShowRequest, ShowResponse, ShowTensor};

use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, blocking, json};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/show", post(show))
}

async fn show(State(server): State<Server>, Body(request): Body<ShowRequest>) -> Result<Response, ApiError> {
    let name = if request.model.is_empty() { request.name } else { request.model };
    let verbose = request.verbose.unwrap_or(false);
    let (app, local) = (server.app().clone(), name.clone());
    let error = match blocking(move || app.library().show(&local, verbose)).await? {
        Ok(shown) => return Ok(json(StatusCode::OK, &response(shown))),
        Err(error) => error,
    };
    let shown = server.app().inference().show_at_remote(&name, error).await?;
    Ok(json(StatusCode::OK, &shown))
}

fn response(shown: Shown) -> ShowResponse {
    let tensor = |row: cairn_app::library::TensorRow| ShowTensor { name: row.name, kind: row.kind, shape: row.shape };
    ShowResponse {
        license: shown.license,
        modelfile: shown.modelfile,
        parameters: shown.parameters,
        template: shown.template,
        template_reason: shown.template_reason,
        system: shown.system,
        details: super::details(&shown.summary.details),
        messages: shown.messages.into_iter().map(message).collect(),
        model_info: shown.info,
        tensors: shown.tensors.into_iter().map(tensor).collect(),
        capabilities: shown.summary.capabilities,
        modified_at: Timestamp(shown.summary.modified_at),
        origin: shown.summary.origin.map(str::to_owned),
    }
}

fn message(message: cairn_app::inference::Message) -> Message {
    Message { role: message.role, content: message.content, thinking: message.thinking, ..Default::default() }
}

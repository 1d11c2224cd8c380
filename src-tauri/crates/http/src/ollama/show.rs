//! `POST /api/show`: details of one model.

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use axum::routing::post;
use cairn_app::library::Shown;
use cairn_wire::Timestamp;
use cairn_wire::ollama::{Message, ShowRequest, ShowResponse, ShowTensor};

use crate::Server;
use crate::body::Body;
use crate::daemon_request::IsFromDaemon;
use crate::error::{ApiError, json};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/show", post(show))
}

/// Start of the `User-Agent` of an editor that lists models by `general.basename`, as if it were the name of the model.
const EDITOR: &str = "GitHubCopilotChat/";

async fn show(
    State(server): State<Server>,
    is_from_daemon: IsFromDaemon,
    headers: HeaderMap,
    Body(request): Body<ShowRequest>,
) -> Result<Response, ApiError> {
    let name = if request.model.is_empty() { request.name } else { request.model };
    let verbose = request.verbose.unwrap_or(false);
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    let is_editor = agent.is_some_and(|agent| agent.starts_with(EDITOR));
    let (app, local) = (server.app().clone(), name.clone());
    let mut shown = match server.pace().read(move || app.library().show(&local, verbose)).await? {
        Ok(shown) => response(shown),
        Err(error) => is_from_daemon.inference(&server).show_at_remote(&name, error).await?,
    };
    if is_editor {
        shown.model_info.insert("general.basename".to_owned(), name.into());
    }
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
        template_problem: shown.template_problem,
        vision_problem: shown.vision_problem,
        continues_text: shown.continues_text,
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

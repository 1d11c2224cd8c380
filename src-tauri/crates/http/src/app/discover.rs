//! `GET /app/discover?q=...&limit=...&own=true`: models to pull, by words; with `own`, out of our own catalogue alone.

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_app::transfers::{Discover, Hit, ModelIndex, Variant};
use cairn_wire::app::{DiscoverResponse, DiscoveredFrom, DiscoveredModel, DiscoveredVariant};
use serde::Deserialize;

use crate::Server;
use crate::error::{ApiError, json};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/discover", get(discover))
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    q: String,
    limit: Option<usize>,
    #[serde(default)]
    own: bool,
}

async fn discover(
    State(server): State<Server>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(asked) = asked.map_err(|rejection| ApiError::bad_request(rejection.body_text()))?;
    let discovery =
        server.app().transfers().discover(Discover { query: asked.q, limit: asked.limit, own: asked.own }).await?;
    let models = discovery.found.into_iter().map(model).collect();
    Ok(json(StatusCode::OK, &DiscoverResponse { models, trouble: discovery.trouble }))
}

fn model(found: Hit) -> DiscoveredModel {
    let Hit { model, name, here } = found;
    let variant = |variant: Variant| DiscoveredVariant {
        here: here.contains(&variant.name),
        name: variant.name,
        parameters: variant.parameters,
        quantization: variant.quantization,
        size: variant.size_bytes,
        estimated: variant.is_approximate,
    };
    DiscoveredModel {
        name,
        variants: model.variants.into_iter().map(variant).collect(),
        title: model.title,
        from: match model.index {
            ModelIndex::Library => DiscoveredFrom::Library,
            ModelIndex::HuggingFace => DiscoveredFrom::HuggingFace,
        },
        about: model.about,
        tasks: model.tasks,
        licence: model.licence,
        downloads: model.downloads,
        here: !here.is_empty(),
    }
}

//! `GET /app/discover?q=...&limit=...&own=true`: searches for models to pull. `own` limits the search to Cairn's
//! catalogue.

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
struct DiscoverQuery {
    #[serde(default)]
    q: String,
    limit: Option<usize>,
    #[serde(default)]
    own: bool,
}

async fn discover(
    State(server): State<Server>,
    request: Result<Query<DiscoverQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(request) = request.map_err(|rejection| ApiError::bad_request(rejection.body_text()))?;
    let request = Discover { query: request.q, limit: request.limit, own: request.own };
    let discovery = server.app().transfers().discover(request).await?;
    let models = discovery.found.into_iter().map(model).collect();
    Ok(json(StatusCode::OK, &DiscoverResponse { models, problem: discovery.problem }))
}

fn model(hit: Hit) -> DiscoveredModel {
    let Hit { model, name, here } = hit;
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

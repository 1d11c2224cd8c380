//! `GET /app/discover?q=...&limit=...&own=true`: searches for models to pull. `own` limits the search to Cairn's
//! catalogue.

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_app::speed::Speed;
use cairn_app::transfers::{Discover, Hit, ModelIndex, Variant};
use cairn_wire::app::{DiscoverResponse, DiscoveredFrom, DiscoveredModel, DiscoveredVariant};
use serde::Deserialize;

use super::speeds::speed;
use crate::Server;
use crate::error::{ApiError, blocking, json};

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
    let speeds = server.app().speeds().clone();
    let variants: Vec<Variant> = discovery.found.iter().flat_map(|hit| hit.model.variants.clone()).collect();
    let (speeds, measuring) = blocking(move || (speeds.of_variants(&variants), speeds.is_measuring())).await?;
    let mut speeds = speeds.into_iter();
    let models = discovery.found.into_iter().map(|hit| model(hit, &mut speeds)).collect();
    Ok(json(StatusCode::OK, &DiscoverResponse { models, measuring, problem: discovery.problem }))
}

/// `speeds` are those of the variants of this and the next hits, in order.
fn model(hit: Hit, speeds: &mut impl Iterator<Item = Option<Speed>>) -> DiscoveredModel {
    let Hit { model, name, here } = hit;
    let mut variant = |variant: Variant| DiscoveredVariant {
        here: here.contains(&variant.name),
        name: variant.name,
        parameters: variant.parameters,
        quantization: variant.quantization,
        size: variant.size_bytes,
        estimated: variant.is_approximate,
        speed: speeds.next().flatten().map(speed),
    };
    DiscoveredModel {
        name,
        variants: model.variants.into_iter().map(&mut variant).collect(),
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

//! `GET /v2/{namespace}/{model}/manifests/{tag or digest}`. A mirror is asked for another registry's model with
//! `?ns=HOST`, as container runtimes ask theirs.

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use cairn_app::Reference;
use serde::Deserialize;

use super::Refusal;
use crate::Server;

/// Whose models are meant when a client does not say.
const DEFAULT_HOST: &str = "registry.ollama.ai";
/// The media type of all manifests of models.
const MEDIA_TYPE: &str = "application/vnd.docker.distribution.manifest.v2+json";

#[derive(Deserialize)]
struct Asked {
    ns: Option<String>,
}

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/v2/{namespace}/{model}/manifests/{reference}", get(manifest))
}

async fn manifest(
    State(server): State<Server>,
    Path((namespace, model, reference)): Path<(String, String, String)>,
    Query(asked): Query<Asked>,
) -> Result<Response, Refusal> {
    let app = server.app().clone();
    let found = tokio::task::spawn_blocking(move || {
        let host = asked.ns.as_deref().unwrap_or(DEFAULT_HOST);
        app.shared_manifest(host, &namespace, &model, &Reference::of(&reference))
    });
    let found = found.await.expect("reading a manifest does not panic")?;
    let unknown = || Refusal::new(StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN", "this machine does not have the model");
    let manifest = found.ok_or_else(unknown)?;
    let digest = manifest.digest.to_string();
    let headers = [
        (header::CONTENT_TYPE.as_str(), MEDIA_TYPE.to_owned()),
        (header::ETAG.as_str(), format!("\"{digest}\"")),
        ("docker-content-digest", digest),
    ];
    Ok((headers, manifest.bytes).into_response())
}

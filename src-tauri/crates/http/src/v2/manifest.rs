//! `GET /v2/{namespace}/{model}/manifests/{tag or digest}`. `?ns=HOST` requests a model of another registry from a
//! mirror, as container runtimes do.

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use cairn_app::transfers::{ManifestSignature, Offer, Reference};
use serde::Deserialize;

use super::sign_in::{challenge, pull_client};
use crate::Server;
use crate::client::ClientInfo;
use crate::error::RegistryError;

/// Media type of all model manifests.
const MEDIA_TYPE: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// Value of the `Warning` header of a manifest that could not be revalidated with its origin.
const STALE: &str = "111 cairn \"the origin is unreachable; this manifest is the mirror's copy\"";

#[derive(Deserialize)]
struct ManifestQuery {
    ns: Option<String>,
}

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/v2/{namespace}/{model}/manifests/{reference}", get(manifest))
}

async fn manifest(
    State(server): State<Server>,
    client: ClientInfo,
    Path((namespace, model, reference)): Path<(String, String, String)>,
    Query(query): Query<ManifestQuery>,
    headers: HeaderMap,
) -> Result<Response, RegistryError> {
    let app = server.app();
    let pull_client = pull_client(&server, &client, &headers);
    let reference = Reference::of(&reference);
    let origin = query.ns.as_deref();
    let offered = app.transfers().offered_manifest(origin, &namespace, &model, &reference, pull_client).await?;
    let unknown =
        || RegistryError::new(StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN", "this machine does not have the model");
    let offered = match offered {
        Offer::Here(offered) => offered,
        Offer::Nothing => return Err(unknown()),
        Offer::SignInRequired => return Ok(challenge(&server, &client, &format!("{namespace}/{model}"))),
    };
    let digest = offered.manifest.digest.to_string();
    let headers = [
        (header::CONTENT_TYPE.as_str(), MEDIA_TYPE.to_owned()),
        (header::ETAG.as_str(), format!("\"{digest}\"")),
        ("docker-content-digest", digest),
    ];
    let signature = app.transfers().sign_manifest(&offered.name, &offered.manifest.digest).await;
    let mut response = (headers, offered.manifest.bytes).into_response();
    match signature.map(|signature| HeaderValue::from_str(signature.as_str())) {
        Ok(Ok(value)) => drop(response.headers_mut().insert(ManifestSignature::HEADER, value)),
        // Only machines that joined this one verify the signature.
        Ok(Err(_)) => {}
        Err(error) => tracing::warn!(%error, "cannot sign a manifest; it is sent unsigned"),
    }
    if offered.stale.is_some() {
        // "Revalidation Failed" of RFC 7234, section 5.5.
        response.headers_mut().insert(header::WARNING, HeaderValue::from_static(STALE));
    }
    Ok(response)
}

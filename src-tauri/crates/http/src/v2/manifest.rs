//! `GET /v2/{namespace}/{model}/manifests/{tag or digest}`. A mirror is asked for another registry's model with
//! `?ns=HOST`, as container runtimes ask theirs.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::{ConnectInfo, Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use cairn_app::transfers::{ManifestSignature, Offer, Reference};
use serde::Deserialize;

use super::Refusal;
use super::sign_in::{challenge, client};
use crate::Server;
use crate::asker::Asker;

/// The media type of all manifests of models.
const MEDIA_TYPE: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// What is said with a manifest that its origin could not be asked about.
const STALE: &str = "111 cairn \"the origin cannot be asked; this is what the mirror has\"";

#[derive(Deserialize)]
struct Asked {
    ns: Option<String>,
}

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/v2/{namespace}/{model}/manifests/{reference}", get(manifest))
}

async fn manifest(
    State(server): State<Server>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Path((namespace, model, reference)): Path<(String, String, String)>,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let app = server.app();
    let asker = Asker::of(&server, peer, &headers);
    let client = client(&server, &asker, &headers);
    let reference = Reference::of(&reference);
    let offered = app.transfers().offered_manifest(asked.ns.as_deref(), &namespace, &model, &reference, client).await?;
    let unknown = || Refusal::new(StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN", "this machine does not have the model");
    let offered = match offered {
        Offer::Here(offered) => offered,
        Offer::Nothing => return Err(unknown()),
        Offer::NotForYou => return Ok(challenge(&server, &asker, &format!("{namespace}/{model}"))),
    };
    let digest = offered.manifest.digest.to_string();
    let named = [
        (header::CONTENT_TYPE.as_str(), MEDIA_TYPE.to_owned()),
        (header::ETAG.as_str(), format!("\"{digest}\"")),
        ("docker-content-digest", digest),
    ];
    let seal = app.transfers().seal(&offered.name, &offered.manifest.digest).await;
    let mut response = (named, offered.manifest.bytes).into_response();
    match seal.map(|seal| HeaderValue::from_str(seal.as_str())) {
        Ok(Ok(seal)) => drop(response.headers_mut().insert(ManifestSignature::HEADER, seal)),
        // Who did not join this machine does not need it.
        Ok(Err(_)) => {}
        Err(error) => tracing::warn!(%error, "a manifest goes out unsigned"),
    }
    if offered.stale.is_some() {
        // "Revalidation Failed" of RFC 7234, section 5.5.
        response.headers_mut().insert(header::WARNING, HeaderValue::from_static(STALE));
    }
    Ok(response)
}

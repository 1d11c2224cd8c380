//! Sign-in of registry clients. Programs on this machine and clients with a trusted key can make the mirror fetch
//! models. Other clients can read only models that are already on this machine.
//!
//! A client signs the URL of the token server. **Invariant:** only a URL with an address or name of this machine is
//! accepted. A client states the URL's host itself (`Host`), so a rogue mirror could otherwise forward the signature that
//! a client made for the rogue's own address.

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use cairn_app::transfers::{Client, JoinProof, JoinRequest, TokenIssuer};
use cairn_wire::excerpt;
use serde::Serialize;

use crate::Server;
use crate::access::own_names;
use crate::body::Body;
use crate::client::ClientInfo;
use crate::error::{RegistryError, json};

/// Service name in challenges.
const SERVICE: &str = "cairn";

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/v2/token", get(token)).route("/v2/_cairn/join", get(key).post(join))
}

/// Returns the permissions of a client.
pub(super) fn pull_client(server: &Server, client: &ClientInfo, headers: &HeaderMap) -> Client {
    let bearer = text(headers, &header::AUTHORIZATION).and_then(|text| text.strip_prefix("Bearer "));
    Client { fetches: client.is_local || bearer.is_some_and(|token| server.app().transfers().admits(token)) }
}

/// Returns a 401 response that asks the client to sign in for the repository `namespace/model`. Both parts are valid
/// name parts, so they need no escaping.
pub(super) fn challenge(server: &Server, client: &ClientInfo, repository: &str) -> Response {
    if let Err(error) = check_own(server, client) {
        return error.into_response();
    }
    let error =
        RegistryError::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", "models are fetched only for trusted keys");
    let mut response = error.into_response();
    let realm = url(server, client, "/v2/token");
    let scope = format!("repository:{repository}:pull");
    let challenge = format!("Bearer realm=\"{realm}\",service=\"{SERVICE}\",scope=\"{scope}\"");
    if let Ok(challenge) = HeaderValue::from_str(&challenge) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// `GET /v2/token`: issues a token to a client that signs the request with a trusted key.
async fn token(
    State(server): State<Server>,
    client: ClientInfo,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, RegistryError> {
    #[derive(Serialize)]
    struct Token {
        token: String,
        expires_in: u64,
    }
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let signed = text(&headers, &header::AUTHORIZATION).unwrap_or_default().to_owned();
    check_own(&server, &client)?;
    let entered = server.app().transfers().enter(url(&server, &client, path), signed).await;
    let token = entered.map_err(|error| RegistryError::new(StatusCode::FORBIDDEN, "DENIED", error.to_string()))?;
    Ok(json(StatusCode::OK, &Token { token, expires_in: TokenIssuer::TOKEN_LIFE.as_secs() }))
}

/// `GET /v2/_cairn/join`: this machine's key, for a machine that joins it.
async fn key(State(server): State<Server>) -> Result<Response, RegistryError> {
    let key = server.app().transfers().peer_key().await?;
    Ok(json(StatusCode::OK, &JoinProof { key, proof: None }))
}

/// `POST /v2/_cairn/join`: another machine proves that it has the join code.
async fn join(State(server): State<Server>, Body(request): Body<JoinRequest>) -> Result<Response, RegistryError> {
    let admitted = server.app().transfers().admit(request).await;
    Ok(json(StatusCode::OK, &admitted?))
}

/// Returns the URL of `path` on this server as the client reaches it.
pub(super) fn url(server: &Server, client: &ClientInfo, path: &str) -> String {
    let address = || server.addresses().first().map(ToString::to_string).unwrap_or_default();
    client.url(path).unwrap_or_else(|| format!("http://{}{path}", address()))
}

/// Returns an error unless the client reaches this server under an address or name that no other machine has.
fn check_own(server: &Server, client: &ClientInfo) -> Result<(), RegistryError> {
    let authority = client.authority();
    match own_names(server).identifies(authority, client.local) {
        true => Ok(()),
        false => Err(RegistryError::denied(&format!(
            "this mirror does not recognise {:?} as itself, so it accepts no sign-in there; use its own address or name, or \
             add the name to CAIRN_NAMES on the mirror",
            excerpt(authority)
        ))),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

//! Who a client of the registry is: one of this machine, or one who proved that its key is known here. Others read what is
//! here, and have nothing fetched.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use cairn_app::transfers::{Client, JoinProof, JoinRequest, TokenIssuer};
use serde::Serialize;

use super::Refusal;
use crate::Server;
use crate::asker::Asker;
use crate::body::Body;
use crate::error::json;

/// What a token is for, in challenges.
const SERVICE: &str = "cairn";

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/v2/token", get(token)).route("/v2/_cairn/join", get(key).post(join))
}

/// What a client may ask for.
pub(super) fn client(server: &Server, asker: &Asker, headers: &HeaderMap) -> Client {
    let bearer = text(headers, &header::AUTHORIZATION).and_then(|text| text.strip_prefix("Bearer "));
    Client { fetches: asker.is_here || bearer.is_some_and(|token| server.app().transfers().admits(token)) }
}

/// Asks a client to sign in, for one repository: `namespace/model`, both of which are parts of names.
pub(super) fn challenge(server: &Server, asker: &Asker, repository: &str) -> Response {
    let refusal = Refusal::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", "models are fetched only for known keys");
    let mut response = refusal.into_response();
    let realm = address(server, asker, "/v2/token");
    let scope = format!("repository:{repository}:pull");
    let wants = format!("Bearer realm=\"{realm}\",service=\"{SERVICE}\",scope=\"{scope}\"");
    if let Ok(wants) = HeaderValue::from_str(&wants) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, wants);
    }
    response
}

/// `GET /v2/token`: a token for who signs the question with a key that is known here.
async fn token(
    State(server): State<Server>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    #[derive(Serialize)]
    struct Token {
        token: String,
        expires_in: u64,
    }
    let path = uri.path_and_query().map_or("/", |asked| asked.as_str());
    let signed = text(&headers, &header::AUTHORIZATION).unwrap_or_default().to_owned();
    let asker = Asker::of(&server, peer, &headers);
    let entered = server.app().transfers().enter(address(&server, &asker, path), signed).await;
    let token = entered.map_err(|error| Refusal::new(StatusCode::FORBIDDEN, "DENIED", error.to_string()))?;
    Ok(json(StatusCode::OK, &Token { token, expires_in: TokenIssuer::TOKEN_LIFE.as_secs() }))
}

/// `GET /v2/_cairn/join`: this machine's key, for who is going to join it.
async fn key(State(server): State<Server>) -> Result<Response, Refusal> {
    let key = server.app().transfers().peer_key().await?;
    Ok(json(StatusCode::OK, &JoinProof { key, proof: None }))
}

/// `POST /v2/_cairn/join`: another machine shows that it knows the code.
async fn join(State(server): State<Server>, Body(asked): Body<JoinRequest>) -> Result<Response, Refusal> {
    let admitted = server.app().transfers().admit(asked).await;
    Ok(json(StatusCode::OK, &admitted?))
}

/// An address of this server, as the client knows it.
pub(super) fn address(server: &Server, asker: &Asker, path: &str) -> String {
    let own = || server.addresses().first().map(ToString::to_string).unwrap_or_default();
    asker.url(path).unwrap_or_else(|| format!("http://{}{path}", own()))
}

fn text<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

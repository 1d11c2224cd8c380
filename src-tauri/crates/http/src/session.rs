//! Sessions of browser pages. A page exchanges a ticket, which is valid once and for one minute, for a session token,
//! which is valid until the daemon stops.
//!
//! The ticket is in the fragment (`#t=...`) of the URL that `cairn ui` opens. Browsers never send a fragment to a
//! server. The page sends the ticket in the body of a POST.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use cairn_wire::ErrorCode;
use cairn_wire::app::{SessionRequest, SessionResponse, TicketResponse};

use crate::Server;
use crate::body::{Body, BodyLimit};
use crate::error::{ApiError, json};

/// Path that a page requests before it has a token. [`crate::access`] exempts it from the token check.
pub(crate) const PATH: &str = "/app/session";

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .route(PATH, post(begin).layer(BodyLimit::TINY.layer()))
        .route("/app/session/ticket", post(create_ticket))
}

async fn create_ticket(State(server): State<Server>) -> Result<Response, ApiError> {
    let ticket = server.sessions().create_ticket()?;
    let url = format!("{}/ui/#t={ticket}", server.local_url());
    Ok(no_store(json(StatusCode::OK, &TicketResponse { url })))
}

async fn begin(State(server): State<Server>, Body(request): Body<SessionRequest>) -> Result<Response, ApiError> {
    let token = server.sessions().begin(&request.ticket)?;
    let expired = || {
        ApiError::new(
            StatusCode::UNAUTHORIZED,
            ErrorCode::SessionExpired,
            "this sign-in link was already used or has expired; run `cairn ui`",
        )
    };
    let token = token.ok_or_else(expired)?;
    Ok(no_store(json(StatusCode::OK, &SessionResponse { token })))
}

/// Forbids caches to store the response: it contains a secret.
fn no_store(response: Response) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], response).into_response()
}

//! `/app/logins`: user names and passwords for registries.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use cairn_app::transfers::{LoggedIn, Login, LoginAttempt};
use cairn_wire::app::{KnownLogin, LoginRequest, LoginsResponse, LogoutRequest};
use cairn_wire::{ErrorCode, excerpt};

use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, json};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/logins", get(list).post(login)).route("/app/logins/forget", post(logout))
}

async fn list(State(server): State<Server>) -> Result<Response, ApiError> {
    let logins = server.app().transfers().logins()?.into_iter().map(login_row).collect();
    Ok(json(StatusCode::OK, &LoginsResponse { logins }))
}

async fn login(State(server): State<Server>, Body(request): Body<LoginRequest>) -> Result<Response, ApiError> {
    let LoginRequest { registry, user, password, token_servers, insecure } = request;
    let login = Login { user, password, token_servers, plain_http: insecure };
    let logged_in = server.app().transfers().login(LoginAttempt { registry, login }).await?;
    Ok(json(StatusCode::OK, &login_row(logged_in)))
}

async fn logout(State(server): State<Server>, Body(request): Body<LogoutRequest>) -> Result<Response, ApiError> {
    if !server.app().transfers().logout(&request.registry).await? {
        let text = format!("there is no login for {:?}; run `cairn login` for a list", excerpt(&request.registry));
        return Err(ApiError::new(StatusCode::NOT_FOUND, ErrorCode::NotFound, text));
    }
    list(State(server)).await
}

fn login_row(login: LoggedIn) -> KnownLogin {
    KnownLogin { registry: login.host, user: login.user }
}

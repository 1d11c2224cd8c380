//! Requests of other daemons. They get only local models: daemons may be remotes of each other, and would otherwise forward a
//! request for a model that both of them have deleted for ever.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use cairn_app::inference::Inference;
use cairn_wire::headers::DAEMON_REQUEST;

use crate::Server;

/// Extractor: whether another daemon sent the request.
#[derive(Clone, Copy)]
pub(crate) struct IsFromDaemon(pub(crate) bool);

impl<S: Sync> FromRequestParts<S> for IsFromDaemon {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(parts.headers.contains_key(DAEMON_REQUEST)))
    }
}

impl IsFromDaemon {
    /// The inference handle for the request.
    pub(crate) fn inference(self, server: &Server) -> Inference {
        let inference = server.app().inference().clone();
        if self.0 { inference.without_remotes() } else { inference }
    }
}

//! What an inference request is computed with, by its client: the handle that shares compute time with other clients and has the
//! remotes unless another daemon sent the request, and the cache scope.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use cairn_app::inference::{CacheScope, Inference};

use crate::Server;
use crate::cache_scope::cache_scope;
use crate::client::ClientInfo;
use crate::credential::Credential;
use crate::daemon_request::IsFromDaemon;
use crate::error::ApiError;
use crate::share;

/// Extractor of the inference handle and the cache scope of a request.
pub(crate) struct ClientInference {
    pub(crate) inference: Inference,
    pub(crate) scope: CacheScope,
}

impl FromRequestParts<Server> for ClientInference {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, ApiError> {
        let info = ClientInfo::from_request_parts(parts, server).await.ok();
        let Ok(is_from_daemon) = IsFromDaemon::from_request_parts(parts, server).await;
        let Ok(credential) = Credential::from_request_parts(parts, server).await;
        let is_local = info.as_ref().is_some_and(|info| info.is_local);
        let scope = cache_scope(server, is_local, &credential, &parts.headers)?;
        let client = share::client(info.as_ref(), &parts.headers)?;
        Ok(Self { inference: is_from_daemon.inference(server).for_client(client), scope })
    }
}

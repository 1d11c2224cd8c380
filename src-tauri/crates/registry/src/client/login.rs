//! Checks the credentials of a registry without accessing a model.
//!
//! Specification: the OCI distribution specification 1.1, "Determining support": `GET /v2/` returns 200 if the
//! client is authorized, and 401 if it must authenticate.

use reqwest::{Method, StatusCode};

use super::registry::Registry;
use super::request::Request;
use crate::SourceError;
use crate::auth::Scope;

impl Registry {
    /// Authenticates and makes no other request.
    ///
    /// # Errors
    /// [`SourceError::Refused`] if the registry rejects the credentials or they must not be sent to it,
    /// [`SourceError::Absent`] if there is no registry, and other errors of requests.
    pub async fn check_login(&self) -> Result<(), SourceError> {
        let mut url = self.base().clone();
        url.set_path("/v2/");
        let scope = Scope { repository: String::new(), push: false };
        let response = self.execute(&Request::new(Method::GET, url, scope)).await?;
        match response.status() {
            StatusCode::OK => Ok(()),
            _ => Err(response.into_error().await),
        }
    }
}

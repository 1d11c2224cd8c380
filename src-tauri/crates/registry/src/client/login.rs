//! Whether a registry takes a name and a password, before any model is asked for.
//!
//! Specification: the OCI distribution specification 1.1, "Determining support": `GET /v2/` is answered by 200 where the
//! client may go on, and by 401 where it must sign in first.

use reqwest::{Method, StatusCode};

use super::exchange::Question;
use super::registry::Registry;
use crate::SourceError;
use crate::auth::Scope;

impl Registry {
    /// Signs in, and does nothing else there.
    ///
    /// # Errors
    /// [`SourceError::Refused`] where it does not take who we are, or where that may not be told it; the others as asking any
    /// registry, [`SourceError::Absent`] where there is none.
    pub async fn enter(&self) -> Result<(), SourceError> {
        let mut url = self.base().clone();
        url.set_path("/v2/");
        let scope = Scope { repository: String::new(), push: false };
        let answer = self.ask(&Question::new(Method::GET, url, scope)).await?;
        match answer.status() {
            StatusCode::OK => Ok(()),
            _ => Err(answer.into_error().await),
        }
    }
}

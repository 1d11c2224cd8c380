//! Restrictions on requests of other machines. Machines that may connect to `OLLAMA_HOST` may pull and push, but must
//! not reach networks through this machine that they cannot reach themselves.
//!
//! So only registries of the public internet are used for them, over https, and those that the settings name. The
//! addresses of a host are checked before the request. If its name resolves differently afterwards, the host must still
//! present a certificate for the name. Redirects are restricted by [`RedirectPolicy`](cairn_registry::RedirectPolicy).

use cairn_registry::has_private_address;
use cairn_store::ModelRef;

use crate::transfers::Transfers;
use crate::transfers::error::Error;
use crate::transfers::pull::Pull;
use crate::transfers::share::DEFAULT_HOST;

impl Transfers {
    /// Checks whether a client on another machine may request this pull or push.
    ///
    /// # Errors
    /// [`Error::RemoteClientRefused`] if it may not.
    pub async fn allow_remote_client(&self, pull: &Pull) -> Result<(), Error> {
        // An invalid name is rejected later, with a more precise error.
        let Ok(name) = pull.name.parse::<ModelRef>() else { return Ok(()) };
        let refused = |what: &str, why: &'static str| Err(Error::RemoteClientRefused { what: what.to_owned(), why });
        if let Some(source) = pull.sources.first() {
            return refused(source, "only sources in this machine's settings are allowed");
        }
        let origin = self.settings.sharing.origin_of(&name);
        if (pull.insecure || name.insecure()) && !origin.is_some_and(|origin| origin.insecure) {
            return refused(
                name.host(),
                "registries are used over https only, so insecure and http:// are not allowed",
            );
        }
        let mirrored = self.settings.downloads.mirrors.iter().any(|(host, _)| host.eq_ignore_ascii_case(name.host()));
        let configured = origin.is_some() || mirrored || name.host().eq_ignore_ascii_case(DEFAULT_HOST);
        if !configured && has_private_address(name.host()).await {
            return refused(name.host(), "its address is inside of a network, not on the public internet");
        }
        Ok(())
    }
}

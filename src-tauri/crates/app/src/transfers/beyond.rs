//! What is fetched for other machines: those that `OLLAMA_HOST` lets in may have this one pull and push as its own users
//! do, and must not reach by it what they cannot reach themselves.
//!
//! So for them, only registries of the public internet are asked, over https, and those that this machine's settings name,
//! as the settings say. The addresses of a name are looked at before it is asked; one that has others a moment later would
//! have to show a certificate for the name there. Redirects are held to public addresses by
//! [`DownloadSettings::for_others`](crate::settings::DownloadSettings::for_others).

use cairn_registry::has_private_address;
use cairn_store::ModelRef;

use crate::transfers::error::Error;
use crate::transfers::handle::Transfers;
use crate::transfers::pull::Pull;
use crate::transfers::share::DEFAULT_HOST;

impl Transfers {
    /// Whether a program of another machine may have this pulled, or pushed.
    ///
    /// # Errors
    /// [`Error::Beyond`] when it may not.
    pub async fn allow_beyond(&self, pull: &Pull) -> Result<(), Error> {
        // What is no name is refused by who wants to use it, in better words.
        let Ok(name) = pull.name.parse::<ModelRef>() else { return Ok(()) };
        let refused = |what: &str, why: &'static str| Err(Error::Beyond { what: what.to_owned(), why });
        if let Some(source) = pull.sources.first() {
            return refused(source, "only the sources that this machine's settings name are used");
        }
        let origin = self.settings.sharing.origin_of(&name);
        if (pull.insecure || name.insecure()) && !origin.is_some_and(|origin| origin.insecure) {
            return refused(name.host(), "registries are asked over https, so neither insecure nor http:// will do");
        }
        let mirrored = self.settings.downloads.mirrors.iter().any(|(host, _)| host.eq_ignore_ascii_case(name.host()));
        let configured = origin.is_some() || mirrored || name.host().eq_ignore_ascii_case(DEFAULT_HOST);
        if !configured && has_private_address(name.host()).await {
            return refused(name.host(), "it is an address inside of a network, and not one of the public internet");
        }
        Ok(())
    }
}

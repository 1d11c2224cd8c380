//! The registry protocol as a client: the OCI distribution specification 1.1 as far as Ollama's registry speaks it, and
//! what that one does beside it.
//!
//! [`Registry`] asks; a [`Transport`] carries the questions. [`exchange`] holds the rules of redirects and credentials,
//! [`answer`] what a refusal means.

mod answer;
mod blob;
mod exchange;
mod json;
mod login;
mod manifest;
mod proxies;
mod reach;
mod registry;
mod tls;
mod transport;
mod trouble;

pub(crate) use answer::Answer;
pub(crate) use exchange::{Question, may_lead, place};
pub(crate) use manifest::MEDIA_TYPE as MANIFEST_MEDIA_TYPE;
pub use manifest::ManifestBytes;
pub use proxies::Proxies;
pub use reach::{Reach, is_inside_network};
pub use registry::{AddressError, Registry};
pub(crate) use registry::{is_loopback, scope};
pub use transport::{Clock, Transport, TransportConfig, TransportError};

#[cfg(test)]
mod tests;

//! Registry client: the parts of the OCI distribution specification 1.1 that Ollama's registry supports, and Ollama's
//! extensions.
//!
//! [`Registry`] makes requests over a [`Transport`]. [`request`] implements redirects,
//! [`authenticate`] obtains tokens, and [`response`] maps HTTP status codes to errors.

mod address;
mod authenticate;
mod blob;
mod failure;
mod json;
mod login;
mod manifest;
mod proxies;
mod redirect_policy;
mod registry;
mod request;
mod response;
mod tls;
mod transport;
mod transport_error;

pub(crate) use address::{check_redirect, host_and_port};
pub(crate) use authenticate::EMPTY_BODY;
pub use manifest::FetchedManifest;
pub(crate) use manifest::MEDIA_TYPE as MANIFEST_MEDIA_TYPE;
pub use proxies::Proxies;
pub use redirect_policy::{RedirectPolicy, has_private_address, is_public};
pub(crate) use registry::scope;
pub use registry::{AddressError, Registry};
pub(crate) use request::Request;
pub(crate) use response::RegistryResponse;
pub use tls::client_config as tls_config;
pub use transport::{Clock, Transport, TransportConfig};
pub use transport_error::TransportError;

#[cfg(test)]
mod tests;

//! TLS settings: the trusted root certificates are the system's, and those of an optional file.
//!
//! The `ring` provider is passed explicitly, not installed for the whole process, so that initialization order does not
//! matter.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

use super::transport_error::TransportError;

/// Returns TLS settings that trust the system's certificates and those of a PEM file.
///
/// # Errors
/// If the file has no certificate that can be used.
pub fn client_config(extra_ca: Option<&Path>) -> Result<ClientConfig, TransportError> {
    let extra = extra_ca.map(certificates).transpose()?.unwrap_or_default();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("ring supports all TLS versions");
    let has_no_extra = extra.is_empty();
    let builder = match (Verifier::new_with_extra_roots(extra, provider), extra_ca) {
        (Ok(verifier), _) => builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)),
        (Err(error), Some(path)) if !has_no_extra => {
            return Err(TransportError::ExtraCa { path: path.to_owned(), reason: error.to_string() });
        }
        // Without system certificates, plain HTTP still works, and every TLS connection fails as untrusted.
        (Err(_), _) => builder.with_root_certificates(RootCertStore::empty()),
    };
    Ok(builder.with_no_client_auth())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TransportError> {
    let invalid = |reason: String| TransportError::ExtraCa { path: path.to_owned(), reason };
    let bytes = std::fs::read(path).map_err(|error| invalid(error.to_string()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => Err(invalid("it contains no PEM certificate".to_owned())),
        Ok(found) => Ok(found),
        Err(error) => Err(invalid(error.to_string())),
    }
}

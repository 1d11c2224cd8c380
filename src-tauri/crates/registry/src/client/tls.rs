//! Whom to trust over TLS: the system's own certificates, and those of a file that a company gives to its machines.
//!
//! The cryptography is `ring`, named here and not installed for the whole process, so that nothing depends on which part
//! of a program runs first.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

use super::transport::TransportError;

/// The TLS settings of a transport.
pub(super) fn client_config(extra_ca: Option<&Path>) -> Result<ClientConfig, TransportError> {
    let extra = extra_ca.map(certificates).transpose()?.unwrap_or_default();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("ring has ciphers for every version of TLS");
    let none_extra = extra.is_empty();
    let builder = match (Verifier::new_with_extra_roots(extra, provider), extra_ca) {
        (Ok(verifier), _) => builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)),
        (Err(error), Some(path)) if !none_extra => {
            return Err(TransportError::ExtraCa { path: path.to_owned(), reason: error.to_string() });
        }
        // A system without any certificates can still speak plain HTTP; every TLS connection fails as untrusted.
        (Err(_), _) => builder.with_root_certificates(RootCertStore::empty()),
    };
    Ok(builder.with_no_client_auth())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TransportError> {
    let wrong = |reason: String| TransportError::ExtraCa { path: path.to_owned(), reason };
    let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => Err(wrong("there is no PEM certificate in it".to_owned())),
        Ok(found) => Ok(found),
        Err(error) => Err(wrong(error.to_string())),
    }
}

//! Causes of failed requests: a name that cannot be resolved, a refused connection, a timeout, an untrusted certificate.

use std::error::Error;
use std::io;

use rustls::{CertificateError, InvalidMessage};

use super::redirect_policy::ResolveError;
use super::transport_error::root_cause;
use crate::TlsError;

/// The TLS error, if the server's certificate was not accepted.
pub(super) fn tls_error(error: &reqwest::Error) -> Option<TlsError> {
    let why = match find::<rustls::Error>(error)? {
        rustls::Error::InvalidCertificate(why) => why,
        // The response does not start with a TLS record: the server speaks plain HTTP.
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => return Some(TlsError::PlainHttp),
        _ => return None,
    };
    Some(match why {
        CertificateError::UnknownIssuer => TlsError::UnknownIssuer,
        CertificateError::NotValidForName => {
            TlsError::WrongHost { requested: requested_host(error), names: Vec::new() }
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            // Each name has the form `DnsName("a.test")`.
            let bare = |name: &String| name.split('"').nth(1).unwrap_or(name).to_owned();
            TlsError::WrongHost {
                requested: expected.to_str().into_owned(),
                names: presented.iter().map(bare).collect(),
            }
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsError::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => TlsError::NotYetValid,
        CertificateError::Revoked => TlsError::Revoked,
        other => TlsError::Other(other.to_string()),
    })
}

fn requested_host(error: &reqwest::Error) -> String {
    error.url().and_then(|url| url.host_str()).unwrap_or("the requested host").to_owned()
}

/// Describes the failure without the URL, whose query may contain a signature that must not be logged.
pub(super) fn failure_reason(error: &reqwest::Error) -> String {
    if let Some(error) = find::<ResolveError>(error) {
        return format!("no connection: {error}; check the spelling of the name and this machine's network");
    }
    let reason = root_cause(error);
    if !error.is_connect() {
        return if error.is_timeout() { "no response in time".to_owned() } else { reason };
    }
    if error.is_timeout() {
        return "no connection: timeout; a firewall may block it, or the host is switched off".to_owned();
    }
    match find::<io::Error>(error).map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => {
            format!("no connection: connection refused, no server is listening ({reason})")
        }
        Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable) => {
            format!("no connection: no route to the host ({reason})")
        }
        _ => format!("no connection: {reason}"),
    }
}

/// Finds the first cause of a type in the error chain, including errors wrapped in an `io::Error`.
fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(found) = cause.downcast_ref::<T>() {
            return Some(found);
        }
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => cause.source(),
        };
    }
    None
}

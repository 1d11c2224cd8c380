//! What a request that got no answer died of, in words that tell one cause from another: a name without an address, a
//! port where nobody listens, silence, a certificate that proves nothing.

use std::error::Error;
use std::io;

use rustls::{CertificateError, InvalidMessage};

use super::reach::UnknownName;
use super::transport::root;
use crate::Distrust;

/// Why the server was not believed, if that is what it was.
pub(super) fn distrust(error: &reqwest::Error) -> Option<Distrust> {
    let why = match find::<rustls::Error>(error)? {
        rustls::Error::InvalidCertificate(why) => why,
        // The first byte of its answer begins no message of TLS: a web server complains so in plain text.
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => return Some(Distrust::PlainHttp),
        _ => return None,
    };
    Some(match why {
        CertificateError::UnknownIssuer => Distrust::UnknownAuthority,
        CertificateError::NotValidForName => Distrust::OtherHost { wanted: wanted(error), names: Vec::new() },
        CertificateError::NotValidForNameContext { expected, presented } => {
            // `DnsName("a.test")` is how each is written.
            let bare = |name: &String| name.split('"').nth(1).unwrap_or(name).to_owned();
            Distrust::OtherHost { wanted: expected.to_str().into_owned(), names: presented.iter().map(bare).collect() }
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => Distrust::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Distrust::NotYetValid,
        CertificateError::Revoked => Distrust::Revoked,
        other => Distrust::Other(other.to_string()),
    })
}

fn wanted(error: &reqwest::Error) -> String {
    error.url().and_then(|url| url.host_str()).unwrap_or("the host that was asked").to_owned()
}

/// What happened, in a sentence without the URL, whose query may be a signed address that does not belong into logs.
pub(super) fn trouble(error: &reqwest::Error) -> String {
    if let Some(unknown) = find::<UnknownName>(error) {
        return format!("no connection: {unknown}; the name may be misspelt, or this machine is not on a network");
    }
    let reason = root(error);
    if !error.is_connect() {
        return if error.is_timeout() { "no answer in time".to_owned() } else { reason };
    }
    if error.is_timeout() {
        return "no connection: nothing answered in time; a firewall may be in between, or it is switched off"
            .to_owned();
    }
    match find::<io::Error>(error).map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => format!("no connection: nobody listens there ({reason})"),
        Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable) => {
            format!("no connection: no way leads there from this machine ({reason})")
        }
        _ => format!("no connection: {reason}"),
    }
}

/// The first cause of a kind, however deep: an I/O error holds what it was made of beside its chain.
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

//! Redirect policy: to any host, or to public addresses only.
//!
//! A registry must not use this machine to reach its private network (SSRF), so a public registry cannot redirect there. A
//! registry with a private address is part of a private network, and the user configured it.
//!
//! IP addresses in a redirect are checked directly. Names are checked when they are resolved, and only the checked addresses
//! are connected to, so that a second resolution cannot change them. Behind a proxy, the proxy resolves names and decides.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Allowed targets of redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectPolicy {
    /// Any host: a company's registry in a private network may redirect to other private hosts.
    AnyHost,
    /// Public addresses only, and the registry itself.
    PublicOnly,
    /// Any host if the registry has a private address, because the user configured it. Otherwise public addresses only.
    SameAsRegistry,
}

impl RedirectPolicy {
    /// The policy for a registry: resolves `SameAsRegistry`.
    pub(super) async fn for_registry(self, registry: &Url) -> Self {
        match self {
            Self::SameAsRegistry if is_private(registry).await => Self::AnyHost,
            Self::SameAsRegistry => Self::PublicOnly,
            other => other,
        }
    }

    /// Whether a redirect to this URL is allowed, unless its host is a name: names are checked at resolution.
    pub(super) fn allows(self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        self == Self::AnyHost || bare.parse().map_or(true, is_public)
    }
}

/// Whether all addresses of the host are private. False if the name cannot be resolved: a proxy resolves it then.
async fn is_private(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse() {
        return !is_public(ip);
    }
    let port = url.port_or_known_default().unwrap_or(443);
    match tokio::net::lookup_host((bare, port)).await {
        Ok(found) => {
            let found: Vec<SocketAddr> = found.collect();
            !found.is_empty() && !found.iter().any(|address| is_public(address.ip()))
        }
        Err(_) => false,
    }
}

/// Whether a registry's `host[:port]` has any private address. False if the name cannot be resolved: a proxy resolves it
/// then.
pub async fn has_private_address(host: &str) -> bool {
    // Parse the host like a request does: a number in any notation is an IP address.
    let Ok(url) = Url::parse(&format!("https://{host}")) else { return true };
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse() {
        return !is_public(ip);
    }
    let port = url.port_or_known_default().unwrap_or(443);
    let found = tokio::net::lookup_host((bare, port)).await;
    found.is_ok_and(|mut found| found.any(|address| !is_public(address.ip())))
}

/// A name that cannot be resolved.
#[derive(Debug, thiserror::Error)]
#[error("cannot resolve {name} ({reason})")]
pub(super) struct ResolveError {
    /// The name.
    pub(super) name: String,
    /// The error of the system.
    pub(super) reason: String,
}

async fn resolve(name: &Name) -> Result<Vec<SocketAddr>, ResolveError> {
    let unknown = |reason: String| ResolveError { name: name.as_str().to_owned(), reason };
    let found = tokio::net::lookup_host((name.as_str(), 0)).await.map_err(|error| unknown(error.to_string()))?;
    Ok(found.collect())
}

/// Resolves names with the system's resolver; failures become [`ResolveError`].
pub(super) struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move { Ok(Box::new(resolve(&name).await?.into_iter()) as Addrs) })
    }
}

/// Resolves names and removes addresses that are not public.
pub(super) struct PublicResolver {
    /// Names that may have any address.
    exempt: Arc<[String]>,
}

impl PublicResolver {
    pub(super) fn with_exempt(names: Vec<String>) -> Self {
        Self { exempt: names.into() }
    }
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let exempt = Arc::clone(&self.exempt);
        Box::pin(async move {
            let is_exempt = exempt.iter().any(|host| host.eq_ignore_ascii_case(name.as_str()));
            let found = resolve(&name).await?;
            let allowed: Vec<SocketAddr> =
                found.into_iter().filter(|address| is_exempt || is_public(address.ip())).collect();
            if allowed.is_empty() {
                return Err(format!("{} has no public address", name.as_str()).into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// Whether this is an address of the public internet (IANA's registries of special-purpose addresses).
#[must_use]
pub fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    !matches!(
        ip.octets(),
        [0 | 10 | 127 | 224..=255, ..]
            | [100, 64..=127, ..]
            | [169, 254, ..]
            | [172, 16..=31, ..]
            | [192, 0, 0 | 2, _]
            | [192, 88, 99, _]
            | [192, 168, ..]
            | [198, 18 | 19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _]
    )
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match ip.segments() {
        // IPv4-mapped addresses and NAT64.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x2002, high, low, ..] => embedded(high, low),
        // Teredo and other protocol assignments, benchmarking, documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, ..] => false,
        // Global unicast addresses (2000::/3).
        [first, ..] => (0x2000..0x4000).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, expected: bool) {
        assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
    }

    #[test]
    fn public_addresses_are_public() {
        for address in ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "192.169.0.1", "223.255.255.255"] {
            check(address, true);
            check(&format!("::ffff:{address}"), true);
            check(&format!("64:ff9b::{address}"), true);
        }
        for address in ["2606:4700::1111", "2a00:1450::1", "2002:808:808::1"] {
            check(address, true);
        }
    }

    #[test]
    fn special_purpose_addresses_are_not_public() {
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "127.0.0.1",
            "127.9.9.9",
            "100.64.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "192.0.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
        ] {
            check(address, false);
            check(&format!("::ffff:{address}"), false);
            check(&format!("64:ff9b::{address}"), false);
        }
        for address in [
            "::",
            "::1",
            "::7f00:1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "2002:7f00:1::",
        ] {
            check(address, false);
        }
    }
}

//! How far a redirect may lead: anywhere, or to public addresses only.
//!
//! A server that fetches for others must not be sent around in its own network by what a registry answers. Addresses in
//! a redirect are looked at themselves; the addresses of a name are looked at when it is resolved, and only those that
//! passed are connected to, so that a name cannot change its mind in between. Behind a proxy, the proxy resolves names and
//! decides.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Where redirects may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// To any host: a registry of a company sends its clients to other hosts of the company.
    Anywhere,
    /// To public addresses only, away from the registry itself.
    Public,
    /// To public addresses only, away from a registry that has one itself; a registry inside of a network may lead inside,
    /// because the user chose it.
    AsRegistry,
}

impl Reach {
    /// What it means for a registry.
    pub(super) async fn of(self, registry: &Url) -> Self {
        match self {
            Self::AsRegistry if is_inside(registry).await => Self::Anywhere,
            Self::AsRegistry => Self::Public,
            known => known,
        }
    }

    /// May a redirect lead there, as far as the address itself says?
    pub(super) fn allows(self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        self == Self::Anywhere || bare.parse().map_or(true, is_public)
    }
}

/// Has the host addresses, none of which is public? One that cannot be looked up is behind a proxy, which knows.
async fn is_inside(url: &Url) -> bool {
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

/// Has the host of a registry, with its port or without, any address inside of a network? One that cannot be looked up is
/// behind a proxy, which knows.
pub async fn is_inside_network(host: &str) -> bool {
    // As the address will be read when it is asked: numbers in any spelling are addresses.
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

/// A name that has no address, as far as this machine can find out.
#[derive(Debug, thiserror::Error)]
#[error("no address is known of {name} ({reason})")]
pub(super) struct UnknownName {
    /// Which.
    pub(super) name: String,
    /// What the system says.
    pub(super) reason: String,
}

async fn look_up(name: &Name) -> Result<Vec<SocketAddr>, UnknownName> {
    let unknown = |reason: String| UnknownName { name: name.as_str().to_owned(), reason };
    let found = tokio::net::lookup_host((name.as_str(), 0)).await.map_err(|error| unknown(error.to_string()))?;
    Ok(found.collect())
}

/// Resolves names as the system does, and says of one that has no address that it was that.
pub(super) struct Names;

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move { Ok(Box::new(look_up(&name).await?.into_iter()) as Addrs) })
    }
}

/// Resolves names, and leaves out addresses that are not public.
pub(super) struct PublicOnly {
    /// Names whose addresses may be any.
    besides: Arc<[String]>,
}

impl PublicOnly {
    pub(super) fn besides(names: Vec<String>) -> Self {
        Self { besides: names.into() }
    }
}

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        let besides = Arc::clone(&self.besides);
        Box::pin(async move {
            let any = besides.iter().any(|host| host.eq_ignore_ascii_case(name.as_str()));
            let found = look_up(&name).await?;
            let allowed: Vec<SocketAddr> = found.into_iter().filter(|address| any || is_public(address.ip())).collect();
            if allowed.is_empty() {
                return Err(format!("{} has no public address", name.as_str()).into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// Is it an address of the public internet (IANA's registries of special-purpose addresses)?
fn is_public(ip: IpAddr) -> bool {
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
        // Addresses of four that are written as ones of six, and those that gateways translate.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x2002, high, low, ..] => embedded(high, low),
        // Tunnels with addresses inside, benchmarks, documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, ..] => false,
        // All that is given out so far begins so.
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
    fn public_addresses() {
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
    fn addresses_that_are_not() {
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

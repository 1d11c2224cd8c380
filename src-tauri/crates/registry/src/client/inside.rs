//! Addresses inside of a network, where a registry outside must not send us: whoever makes this machine fetch could else
//! make it ask its router, or a cloud's metadata service, for anything.
//!
//! A registry that is itself inside may send where it likes, because the user chose it. A name is looked up here and once
//! more when it is connected to, so that a name whose address changes in between is not caught.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

use super::answer::Answer;
use super::registry::Registry;
use crate::SourceError;

impl Registry {
    /// Refuses a redirect from outside to inside.
    pub(super) async fn stay_outside(&self, to: &Url, answer: &Answer) -> Result<(), SourceError> {
        if self.is_own(to) || !leads_inside(to).await || leads_inside(&self.base).await {
            return Ok(());
        }
        Err(answer.refused(format!("a redirect to {}, which is inside of a private network", super::place(to))))
    }
}

/// Is any address of the host inside? One that cannot be looked up is not: nothing can be fetched from it here, and a proxy
/// that can look it up sees its own networks.
async fn leads_inside(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    if let Ok(ip) = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return is_inside(ip);
    }
    let port = url.port_or_known_default().unwrap_or(443);
    match tokio::net::lookup_host((host, port)).await {
        Ok(mut found) => found.any(|address| is_inside(address.ip())),
        Err(_) => false,
    }
}

fn is_inside(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => is_inside_v4(ip),
        IpAddr::V6(ip) => is_inside_v6(ip),
    }
}

/// The special ranges of RFC 6890 that are no part of the Internet.
fn is_inside_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a, b, c) == (192, 0, 0)
        || (a == 198 && (18..20).contains(&b))
}

fn is_inside_v6(ip: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, high, low] = ip.segments();
    // Translated addresses hold one of version 4 (RFC 6052), and so do those of 6to4 (RFC 3056).
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_inside_v4(Ipv4Addr::new(a, b, c, d))
    };
    ip.is_loopback()
        || ip.is_unspecified()
        || ip.is_unique_local()
        || ip.is_unicast_link_local()
        || ip.is_multicast()
        || ([a, b, c, d, e, f] == [0x64, 0xff9b, 0, 0, 0, 0] && v4(high, low))
        || (a == 0x2002 && v4(b, c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn where_addresses_are() {
        let check = async |host: &str, expected: bool| {
            let url = Url::parse(&format!("http://{host}/x")).unwrap();
            assert_eq!(leads_inside(&url).await, expected, "{host}");
        };
        for inside in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "2130706433",
            "0x7f.1",
            "[::1]",
            "[::]",
            "[fc00::1]",
            "[fd12::1]",
            "[fe80::1]",
            "[ff02::1]",
            "[::ffff:10.0.0.1]",
            "[64:ff9b::a00:1]",
            "[2002:a00:1::]",
            "localhost",
        ] {
            check(inside, true).await;
        }
        for outside in
            ["1.1.1.1", "172.32.0.1", "100.128.0.1", "192.169.0.1", "[2606:4700::1111]", "[64:ff9b::101:101]"]
        {
            check(outside, false).await;
        }
    }
}

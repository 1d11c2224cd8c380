//! Announces this machine on the local network and discovers peers: DNS service discovery (RFC 6763) over multicast DNS
//! (RFC 6762). Only this module uses the crate `mdns-sd`.
//!
//! ```text
//! <name>-<first of the key>._cairn._tcp.local.   PTR, SRV (port), A and AAAA
//!   TXT  v=<version>  fp=<fingerprint of the key>  name=<name>
//! ```
//!
//! **Invariants:** no socket is opened before [`PeerDiscovery::open`], and none is left after it is dropped. Loopback
//! interfaces are not used. Only addresses in a network of this machine are accepted from an announcement: the sender of
//! the announcement could reach those itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use if_addrs::{IfAddr, Interface};
use mdns_sd::{IfKind, ResolvedService, ServiceDaemon, ServiceEvent, ServiceInfo};

use super::{Announcement, PeerDiscoveryError, PeerEvent, PeerInfo};

/// The service type.
const SERVICE: &str = "_cairn._tcp.local.";
/// Maximum length of an announced name: a DNS label has at most 63 bytes, and a part of the key follows the name.
const MAX_LABEL_BYTES: usize = 48;
/// Hex digits of the key that distinguish machines with the same name.
const KEY_DIGITS: usize = 8;
/// Maximum length of a text from a peer's announcement.
const MAX_TEXT_CHARS: usize = 80;

/// Announcement and discovery on the local network. Dropping it withdraws the announcement and ends the discovery.
pub struct PeerDiscovery {
    daemon: ServiceDaemon,
    announced: Option<String>,
}

impl PeerDiscovery {
    /// Opens the sockets, announces this machine, and calls `on_event` for each change, from a background thread.
    ///
    /// # Errors
    /// If the sockets cannot be opened, or the announcement fails.
    pub fn open(me: &Announcement, on_event: impl Fn(PeerEvent) + Send + 'static) -> Result<Self, PeerDiscoveryError> {
        let failed = |error: mdns_sd::Error| PeerDiscoveryError(error.to_string());
        let daemon = ServiceDaemon::new().map_err(failed)?;
        let mut discovery = Self { daemon, announced: None };
        discovery.daemon.disable_interface(vec![IfKind::LoopbackV4, IfKind::LoopbackV6]).map_err(failed)?;
        let own = instance(me);
        if let Some(listens) = me.listens {
            let service = service(me, &own, listens).map_err(failed)?;
            let full_name = service.get_fullname().to_owned();
            discovery.daemon.register(service).map_err(failed)?;
            discovery.announced = Some(full_name);
        }
        let events = discovery.daemon.browse(SERVICE).map_err(failed)?;
        let watch = move || {
            // It ends when the daemon does, with the discovery.
            while let Ok(event) = events.recv() {
                if let Some(event) = peer_event(event, &own) {
                    on_event(event);
                }
            }
        };
        let spawned = std::thread::Builder::new().name("peer-discovery".to_owned()).spawn(watch);
        spawned.map_err(|error| PeerDiscoveryError(error.to_string()))?;
        Ok(discovery)
    }
}

impl Drop for PeerDiscovery {
    fn drop(&mut self) {
        // If the daemon has ended, nothing is announced any more. Wait for its reply: a process that exits at once would
        // end before the goodbye packet is sent.
        if let Some(name) = &self.announced
            && let Ok(done) = self.daemon.unregister(name)
        {
            let _ = done.recv_timeout(std::time::Duration::from_millis(500));
        }
        let _ = self.daemon.shutdown();
    }
}

impl std::fmt::Debug for PeerDiscovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeerDiscovery").field("announced", &self.announced).finish_non_exhaustive()
    }
}

/// The instance name of a machine's announcement.
fn instance(me: &Announcement) -> String {
    let mut digits = hex::encode(me.key.as_bytes());
    digits.truncate(KEY_DIGITS);
    format!("{}-{digits}", truncate_label(&me.label))
}

/// Removes control characters from a label and truncates it to the maximum length.
fn truncate_label(label: &str) -> String {
    let mut cut = String::new();
    for c in label.chars().filter(|c| !c.is_control()) {
        if cut.len() + c.len_utf8() > MAX_LABEL_BYTES {
            break;
        }
        cut.push(c);
    }
    if cut.is_empty() { "cairn".to_owned() } else { cut }
}

fn service(me: &Announcement, instance: &str, listens: SocketAddr) -> mdns_sd::Result<ServiceInfo> {
    // Two daemons on one machine listen on different ports, so each announces its own host name.
    let host: String = instance.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let label = truncate_label(&me.label);
    let properties = [("v", me.version.as_str()), ("fp", &me.key.fingerprint()), ("name", &label)];
    let (host, port) = (format!("{host}.local."), listens.port());
    match listens.ip() {
        ip if ip.is_unspecified() => {
            let service = ServiceInfo::new(SERVICE, instance, &host, "", port, &properties[..])?;
            let mut service = service.enable_addr_auto();
            if ip.is_ipv4() {
                service.set_interfaces(vec![IfKind::IPv4]);
            }
            Ok(service)
        }
        ip => {
            let mut service = ServiceInfo::new(SERVICE, instance, &host, ip, port, &properties[..])?;
            service.set_interfaces(vec![IfKind::Addr(ip)]);
            Ok(service)
        }
    }
}

/// Converts an event of `mdns-sd`, unless it is about this machine.
fn peer_event(event: ServiceEvent, own: &str) -> Option<PeerEvent> {
    match event {
        ServiceEvent::ServiceResolved(service) => {
            let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
            let found = found(&service, &interfaces)?;
            (!found.instance.eq_ignore_ascii_case(own)).then_some(PeerEvent::Found(found))
        }
        ServiceEvent::ServiceRemoved(_, full_name) => Some(PeerEvent::Lost(instance_of(&full_name))),
        _ => None,
    }
}

/// The peer that an announcement describes. `None` if none of its addresses can be reached.
fn found(service: &ResolvedService, interfaces: &[Interface]) -> Option<PeerInfo> {
    let text = |key: &str| -> String {
        let text = service.get_property_val_str(key).unwrap_or_default();
        text.chars().filter(|c| !c.is_control()).take(MAX_TEXT_CHARS).collect()
    };
    let mut ips: Vec<IpAddr> = service.get_addresses().iter().map(mdns_sd::ScopedIp::to_ip_addr).collect();
    ips.retain(|ip| is_local(*ip, interfaces));
    // IPv4 first: local networks more often support it everywhere.
    ips.sort_unstable();
    let addresses: Vec<SocketAddr> = ips.into_iter().map(|ip| SocketAddr::new(ip, service.get_port())).collect();
    if addresses.is_empty() || service.get_port() == 0 {
        return None;
    }
    let instance = instance_of(service.get_fullname());
    let label = Some(text("name")).filter(|name| !name.is_empty()).unwrap_or_else(|| instance.clone());
    Some(PeerInfo { instance, label, version: text("v"), fingerprint: text("fp"), addresses })
}

/// The instance part of a full service name.
fn instance_of(full_name: &str) -> String {
    let end = full_name.len().saturating_sub(SERVICE.len() + 1);
    let instance = full_name.get(..end).unwrap_or(full_name);
    instance.chars().filter(|c| !c.is_control()).take(MAX_TEXT_CHARS).collect()
}

/// Whether an address is in one of this machine's networks.
fn is_local(ip: IpAddr, interfaces: &[Interface]) -> bool {
    let matches = |interface: &Interface| match (&interface.addr, ip) {
        (IfAddr::V4(own), IpAddr::V4(ip)) => same_v4(own.ip, ip, own.netmask),
        (IfAddr::V6(own), IpAddr::V6(ip)) => same_v6(own.ip, ip, own.netmask),
        _ => false,
    };
    let unusable = match ip {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast(),
        // A link-local address is ambiguous without its interface.
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() || ip.is_unicast_link_local(),
    };
    !unusable && interfaces.iter().any(|interface| !interface.is_loopback() && matches(interface))
}

fn same_v4(own: Ipv4Addr, ip: Ipv4Addr, mask: Ipv4Addr) -> bool {
    u32::from(own) & u32::from(mask) == u32::from(ip) & u32::from(mask) && mask != Ipv4Addr::UNSPECIFIED
}

fn same_v6(own: Ipv6Addr, ip: Ipv6Addr, mask: Ipv6Addr) -> bool {
    u128::from(own) & u128::from(mask) == u128::from(ip) & u128::from(mask) && mask != Ipv6Addr::UNSPECIFIED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me(label: &str) -> Announcement {
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGK1g4dC3yoVTUjnRvTEyLtXOlFkkXmoaMLcPsxLP0RF";
        Announcement { label: label.to_owned(), version: "1.2.3".to_owned(), key: key.parse().unwrap(), listens: None }
    }

    #[test]
    fn instance_name_fits_dns_label() {
        let check = |label: &str, expected: &str| assert_eq!(instance(&me(label)), expected, "{label:?}");
        check("nas", "nas-62b58387");
        check("", "cairn-62b58387");
        check("a\u{7}b.c", "ab.c-62b58387");
        check(&"ä".repeat(40), &format!("{}-62b58387", "ä".repeat(24)));
    }

    #[test]
    fn announcement_contains_key_and_address() {
        let (me, listens) = (me("nas.home"), SocketAddr::from(([10, 1, 2, 3], 11434)));
        let service = service(&me, &instance(&me), listens).unwrap();
        assert_eq!(service.get_type(), SERVICE, "the service type");
        assert_eq!(service.get_hostname(), "nas-home-62b58387.local.", "the host name is unique");
        assert_eq!(service.get_property_val_str("fp"), Some(&*me.key.fingerprint()), "the key's fingerprint");
        let seen = service.as_resolved_service();
        let interface = |ip: [u8; 4], mask: [u8; 4]| Interface {
            name: "eth0".to_owned(),
            addr: IfAddr::V4(if_addrs::Ifv4Addr {
                ip: ip.into(),
                netmask: mask.into(),
                prefixlen: 24,
                broadcast: None,
            }),
            index: None,
            oper_status: if_addrs::IfOperStatus::Up,
            is_p2p: false,
        };
        let near = interface([10, 1, 2, 9], [255, 255, 255, 0]);
        let found = found(&seen, std::slice::from_ref(&near)).expect("the peer is reachable");
        assert_eq!((&*found.label, &*found.version), ("nas.home", "1.2.3"), "the announced name and version");
        assert_eq!(found.addresses, [listens], "the announced address");
        let far = interface([10, 1, 3, 9], [255, 255, 255, 0]);
        assert_eq!(super::found(&seen, &[far]), None, "an address outside this machine's networks");
        for (ip, expected) in [("10.1.2.200", true), ("127.0.0.1", false), ("10.2.2.1", false), ("224.0.0.251", false)]
        {
            assert_eq!(is_local(ip.parse().unwrap(), std::slice::from_ref(&near)), expected, "{ip}");
        }
        let loopback = interface([127, 0, 0, 1], [255, 0, 0, 0]);
        assert!(!is_local("127.0.0.1".parse().unwrap(), &[loopback]), "loopback is never used");
    }
}

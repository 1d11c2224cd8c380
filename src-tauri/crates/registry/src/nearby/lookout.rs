//! Announcing this machine on the local network and hearing of others: DNS service discovery (RFC 6763) over multicast DNS
//! (RFC 6762), by the crate `mdns-sd`, which nothing else here knows of.
//!
//! ```text
//! <name>-<first of the key>._cairn._tcp.local.   PTR, SRV (port), A and AAAA
//!   TXT  v=<version>  fp=<fingerprint of the key>  name=<name>
//! ```
//!
//! **Invariants:** no socket is opened before [`Lookout::open`], and none is left after it is dropped; loopback takes no
//! part. An announcement leads only to addresses of a network that this machine is on itself: whoever announces one could
//! ask there without us.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use if_addrs::{IfAddr, Interface};
use mdns_sd::{IfKind, ResolvedService, ServiceDaemon, ServiceEvent, ServiceInfo};

use super::{Found, Sighting};
use crate::PeerKey;

/// The kind of service.
const SERVICE: &str = "_cairn._tcp.local.";
/// Longest name of a machine that is announced or shown: a label of DNS has 63 bytes, and a part of the key follows.
const MAX_LABEL_BYTES: usize = 48;
/// Digits of the key that tell machines of one name apart.
const KEY_DIGITS: usize = 8;
/// Longest text of another machine's announcement that is kept.
const MAX_TEXT_CHARS: usize = 80;

/// What this machine says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// Its name for people.
    pub label: String,
    /// The version of this program.
    pub version: String,
    /// Its key.
    pub key: PeerKey,
    /// Where it listens for other machines: an address of its own, or the unspecified one for all. `None` where it listens
    /// for programs of its own only: then it looks for others and says nothing.
    pub listens: Option<SocketAddr>,
}

/// Why nobody is announced or looked for.
#[derive(Debug, Clone, thiserror::Error)]
#[error("multicast DNS does not work here: {0}")]
pub struct LookoutError(String);

/// The network being watched; it ends, and what was announced is withdrawn, when this is dropped.
pub struct Lookout {
    daemon: ServiceDaemon,
    announced: Option<String>,
}

impl Lookout {
    /// Opens the sockets, announces this machine, and tells of others, from a thread of its own.
    ///
    /// # Errors
    /// When the system gives no sockets, or the announcement cannot be made.
    pub fn open(me: &Announcement, tell: impl Fn(Sighting) + Send + 'static) -> Result<Self, LookoutError> {
        let failed = |error: mdns_sd::Error| LookoutError(error.to_string());
        let daemon = ServiceDaemon::new().map_err(failed)?;
        let mut lookout = Self { daemon, announced: None };
        lookout.daemon.disable_interface(vec![IfKind::LoopbackV4, IfKind::LoopbackV6]).map_err(failed)?;
        let own = instance(me);
        if let Some(listens) = me.listens {
            let service = service(me, &own, listens).map_err(failed)?;
            let full_name = service.get_fullname().to_owned();
            lookout.daemon.register(service).map_err(failed)?;
            lookout.announced = Some(full_name);
        }
        let events = lookout.daemon.browse(SERVICE).map_err(failed)?;
        let watch = move || {
            // It ends when the daemon does, with the lookout.
            while let Ok(event) = events.recv() {
                if let Some(sighting) = sighting(event, &own) {
                    tell(sighting);
                }
            }
        };
        let spawned = std::thread::Builder::new().name("lan-lookout".to_owned()).spawn(watch);
        spawned.map_err(|error| LookoutError(error.to_string()))?;
        Ok(lookout)
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        // Where the daemon is gone already, nothing is announced any more. Its answer is waited for, because a program that
        // ends takes the daemon with it before the farewell is sent.
        if let Some(name) = &self.announced
            && let Ok(done) = self.daemon.unregister(name)
        {
            let _ = done.recv_timeout(std::time::Duration::from_millis(500));
        }
        let _ = self.daemon.shutdown();
    }
}

impl std::fmt::Debug for Lookout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lookout").field("announced", &self.announced).finish_non_exhaustive()
    }
}

/// What the announcement of a machine is called.
fn instance(me: &Announcement) -> String {
    let digits: String = me.key.as_bytes().iter().take(KEY_DIGITS / 2).map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{digits}", cut(&me.label))
}

/// A label without what a name of DNS cannot hold, no longer than one may be.
fn cut(label: &str) -> String {
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
    // Two daemons of one machine listen on different ports, so each has a host of its own.
    let host: String = instance.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let label = cut(&me.label);
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

/// What an event tells, if it is of another machine.
fn sighting(event: ServiceEvent, own: &str) -> Option<Sighting> {
    match event {
        ServiceEvent::ServiceResolved(service) => {
            let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
            let found = found(&service, &interfaces)?;
            (!found.instance.eq_ignore_ascii_case(own)).then_some(Sighting::Here(found))
        }
        ServiceEvent::ServiceRemoved(_, full_name) => Some(Sighting::Gone(instance_of(&full_name))),
        _ => None,
    }
}

/// The machine that an announcement describes, where it is one that can be asked.
fn found(service: &ResolvedService, interfaces: &[Interface]) -> Option<Found> {
    let text = |key: &str| -> String {
        let text = service.get_property_val_str(key).unwrap_or_default();
        text.chars().filter(|c| !c.is_control()).take(MAX_TEXT_CHARS).collect()
    };
    let mut ips: Vec<IpAddr> = service.get_addresses().iter().map(mdns_sd::ScopedIp::to_ip_addr).collect();
    ips.retain(|ip| is_near(*ip, interfaces));
    // The older kind first: it needs no router to be on everywhere in an office.
    ips.sort_unstable();
    let addresses: Vec<SocketAddr> = ips.into_iter().map(|ip| SocketAddr::new(ip, service.get_port())).collect();
    if addresses.is_empty() || service.get_port() == 0 {
        return None;
    }
    let instance = instance_of(service.get_fullname());
    let label = Some(text("name")).filter(|name| !name.is_empty()).unwrap_or_else(|| instance.clone());
    Some(Found { instance, label, version: text("v"), fingerprint: text("fp"), addresses })
}

/// The first part of a full name.
fn instance_of(full_name: &str) -> String {
    let end = full_name.len().saturating_sub(SERVICE.len() + 1);
    let instance = full_name.get(..end).unwrap_or(full_name);
    instance.chars().filter(|c| !c.is_control()).take(MAX_TEXT_CHARS).collect()
}

/// Is an address in one of the networks that this machine is on?
fn is_near(ip: IpAddr, interfaces: &[Interface]) -> bool {
    let near = |interface: &Interface| match (&interface.addr, ip) {
        (IfAddr::V4(own), IpAddr::V4(ip)) => same_v4(own.ip, ip, own.netmask),
        (IfAddr::V6(own), IpAddr::V6(ip)) => same_v6(own.ip, ip, own.netmask),
        _ => false,
    };
    let unusable = match ip {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast(),
        // An address of one link says nothing without the link.
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() || ip.is_unicast_link_local(),
    };
    !unusable && interfaces.iter().any(|interface| !interface.is_loopback() && near(interface))
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
    fn what_a_machine_is_called_fits_into_a_name() {
        let check = |label: &str, expected: &str| assert_eq!(instance(&me(label)), expected, "{label:?}");
        check("nas", "nas-62b58387");
        check("", "cairn-62b58387");
        check("a\u{7}b.c", "ab.c-62b58387");
        check(&"ä".repeat(40), &format!("{}-62b58387", "ä".repeat(24)));
    }

    #[test]
    fn what_is_announced_says_who_and_where() {
        let (me, listens) = (me("nas.home"), SocketAddr::from(([10, 1, 2, 3], 11434)));
        let service = service(&me, &instance(&me), listens).unwrap();
        assert_eq!(service.get_type(), SERVICE, "the kind");
        assert_eq!(service.get_hostname(), "nas-home-62b58387.local.", "a host of its own");
        assert_eq!(service.get_property_val_str("fp"), Some(&*me.key.fingerprint()), "whose key");
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
        let found = found(&seen, std::slice::from_ref(&near)).expect("it can be asked");
        assert_eq!((&*found.label, &*found.version), ("nas.home", "1.2.3"), "as it was said");
        assert_eq!(found.addresses, [listens], "where it listens");
        let far = interface([10, 1, 3, 9], [255, 255, 255, 0]);
        assert_eq!(super::found(&seen, &[far]), None, "an address of a network that this machine is not on");
        for (ip, expected) in [("10.1.2.200", true), ("127.0.0.1", false), ("10.2.2.1", false), ("224.0.0.251", false)]
        {
            assert_eq!(is_near(ip.parse().unwrap(), std::slice::from_ref(&near)), expected, "{ip}");
        }
        let loopback = interface([127, 0, 0, 1], [255, 0, 0, 0]);
        assert!(!is_near("127.0.0.1".parse().unwrap(), &[loopback]), "never this machine's own programs");
    }
}

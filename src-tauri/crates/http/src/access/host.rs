//! The server name of a request: protection from DNS rebinding.
//!
//! A web page under a public name can point that name at this machine. Its requests then have the page's name in
//! `Host`, and the browser treats them as same-origin. An IP address and a name that only this machine has are safe.

use std::net::{IpAddr, SocketAddr};

/// Names under which containers reach their host.
const CONTAINER_HOSTS: [&str; 2] = ["host.docker.internal", "host.containers.internal"];

/// What the `Host` header names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Host {
    /// A loopback name with a port that the daemon listens on.
    Loopback,
    /// Another name or address of this machine.
    Own,
    /// A name that another machine may have, or none.
    Foreign,
}

/// The names of this machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnNames<'a> {
    /// Addresses that the daemon listens on.
    pub(super) addresses: &'a [SocketAddr],
    /// The machine's name in the local network.
    pub(super) machine: Option<&'a str>,
    /// Names of the setting `server.names`.
    pub(super) configured: &'a [String],
}

impl OwnNames<'_> {
    /// Classifies the text of a `Host` header. Port 80 is left out by clients.
    pub(super) fn classify(&self, host: &str) -> Host {
        let Some((name, port)) = name_and_port(host) else { return Host::Foreign };
        let name = name.to_ascii_lowercase();
        let ip = name.parse::<IpAddr>().ok();
        let is_loopback = name == "localhost" || ip.is_some_and(|ip| ip.is_loopback());
        let is_listening = self.addresses.iter().any(|address| address.port() == port.unwrap_or(80));
        match () {
            () if is_loopback && is_listening => Host::Loopback,
            () if ip.is_some() || self.is_own(&name) => Host::Own,
            () => Host::Foreign,
        }
    }

    /// Whether a URL with this `host:port` leads to this daemon and to no other machine. `local` is the address at which
    /// the connection arrived. Unlike [`OwnNames::classify`], no IP address of another machine and no name that means
    /// another machine elsewhere (`localhost`) is accepted. Names of the setting are accepted with any port, because a
    /// proxy or a port forwarding may be before this daemon.
    pub(crate) fn identifies(&self, authority: &str, local: Option<SocketAddr>) -> bool {
        let Some((name, port)) = name_and_port(authority) else { return false };
        if self.configured.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            return true;
        }
        let Some(local) = local.filter(|local| local.port() == port.unwrap_or(80)) else { return false };
        match name.parse::<IpAddr>() {
            Ok(ip) => ip.to_canonical() == local.ip().to_canonical(),
            Err(_) => self.is_machine(&name.to_ascii_lowercase()),
        }
    }

    /// Whether a name in lower case is the machine's name in the local network.
    fn is_machine(&self, name: &str) -> bool {
        self.machine.is_some_and(|machine| {
            let machine = machine.to_ascii_lowercase();
            name == machine || name.strip_suffix(".local") == Some(&machine)
        })
    }

    /// Checks a name in lower case.
    fn is_own(&self, name: &str) -> bool {
        // Browsers resolve names below `localhost` to loopback only.
        self.is_machine(name)
            || name == "localhost"
            || name.ends_with(".localhost")
            || CONTAINER_HOSTS.contains(&name)
            || self.configured.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// Splits `name`, `name:port`, `address`, `[address]` or `[address]:port`; `None` if the text has another form.
fn name_and_port(host: &str) -> Option<(&str, Option<u16>)> {
    let (name, rest) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some(bracketed) => bracketed,
        None if host.matches(':').count() == 1 => host.split_at(host.find(':')?),
        None => (host, ""),
    };
    let port = match rest.strip_prefix(':') {
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(port.parse().ok()?),
        None if rest.is_empty() => None,
        _ => return None,
    };
    (!name.is_empty()).then_some((name, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_addresses_and_names_identify_this_machine() {
        let configured = ["models.example".to_owned(), "192.0.2.7".to_owned()];
        let names =
            OwnNames { addresses: &[([0, 0, 0, 0], 11434).into()], machine: Some("nas"), configured: &configured };
        let check = |local: &str, hosts: &[&str], expected: bool| {
            for host in hosts {
                assert_eq!(names.identifies(host, local.parse().ok()), expected, "{host} at {local:?}");
            }
        };
        let own = ["192.168.1.2:11434", "nas:11434", "NAS.local:11434", "Models.example", "models.example:443"];
        check("192.168.1.2:11434", &own, true);
        check("[::ffff:192.168.1.2]:11434", &own, true);
        check("[fd00::2]:80", &["[fd00::2]", "[fd00::2]:80", "192.0.2.7:8080", "nas"], true);
        let others =
            ["192.168.1.3:11434", "192.168.1.2:5000", "nas:5000", "nas2:11434", "nas.example:11434", "", ":11434"];
        check("192.168.1.2:11434", &others, false);
        let ambiguous = ["localhost:11434", "127.0.0.1:11434", "0.0.0.0:11434", "host.docker.internal:11434"];
        check("192.168.1.2:11434", &ambiguous, false);
        check("", &["192.168.1.2:11434", "nas:11434"], false);
    }

    #[test]
    fn loopback_name_without_port_means_port_80() {
        let check = |port: u16, expected: Host| {
            let names = OwnNames { addresses: &[([127, 0, 0, 1], port).into()], machine: None, configured: &[] };
            assert_eq!(names.classify("127.0.0.1"), expected, "a daemon on port {port}");
        };
        check(80, Host::Loopback);
        check(11434, Host::Own);
    }

    #[test]
    fn host_is_classified_by_names_of_this_machine() {
        let names = OwnNames {
            addresses: &[([127, 0, 0, 1], 11434).into()],
            machine: Some("Workstation"),
            configured: &["models.example".to_owned()],
        };
        let check = |hosts: &[&str], expected: Host| {
            for host in hosts {
                assert_eq!(names.classify(host), expected, "{host:?}");
            }
        };
        check(
            &["127.0.0.1:11434", "localhost:11434", "[::1]:11434", "LOCALHOST:11434", "127.0.0.2:11434"],
            Host::Loopback,
        );
        check(&["localhost", "127.0.0.1:1", "::1", "0.0.0.0", "192.168.1.2", "[::ffff:127.0.0.1]:1"], Host::Own);
        check(&["8.8.8.8", "[2001:db8::1]:1", "LOCALHOST", "a.localhost", "host.docker.internal:1"], Host::Own);
        check(&["workstation:11434", "workstation.local", "Models.Example:443"], Host::Own);
        check(
            &["[::1]evil.com", "127.0.0.1:11434@evil.com", "localhost:x", "localhost:99999", "localhost."],
            Host::Foreign,
        );
        check(&["", ":11434", "?", "local", "box.local", "evil.internal", "example.org:11434"], Host::Foreign);
        check(&["evil-localhost.com", "workstation.evil.org", "a.models.example", "2130706433"], Host::Foreign);
    }
}

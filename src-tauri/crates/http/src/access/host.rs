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
pub(super) struct OwnNames<'a> {
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

    /// Checks a name in lower case.
    fn is_own(&self, name: &str) -> bool {
        let is_machine = self.machine.is_some_and(|machine| {
            let machine = machine.to_ascii_lowercase();
            name == machine || name.strip_suffix(".local") == Some(&machine)
        });
        // Browsers resolve names below `localhost` to loopback only.
        is_machine
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

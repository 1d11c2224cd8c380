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
    /// Classifies the text of a `Host` header.
    pub(super) fn classify(&self, host: &str) -> Host {
        let is_loopback = self.addresses.iter().any(|address| {
            let port = address.port();
            ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| host == format!("{name}:{port}"))
        });
        match name_of(host) {
            _ if is_loopback => Host::Loopback,
            Some(name) if name.parse::<IpAddr>().is_ok() || self.is_own(&name.to_ascii_lowercase()) => Host::Own,
            _ => Host::Foreign,
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

/// Returns the name or address of `name`, `name:port`, `[address]` or `[address]:port`; `None` if it is empty.
fn name_of(host: &str) -> Option<&str> {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None if host.matches(':').count() == 1 => host.split_once(':').map_or(host, |(name, _)| name),
        None => host,
    };
    Some(name).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        check(&["127.0.0.1:11434", "localhost:11434", "[::1]:11434"], Host::Loopback);
        check(&["localhost", "127.0.0.1:1", "::1", "0.0.0.0", "192.168.1.2", "[::ffff:127.0.0.1]:1"], Host::Own);
        check(&["8.8.8.8", "[2001:db8::1]:1", "LOCALHOST", "a.localhost", "host.docker.internal:1"], Host::Own);
        check(&["workstation:11434", "workstation.local", "Models.Example:443"], Host::Own);
        check(&["", ":11434", "?", "local", "box.local", "evil.internal", "example.org:11434"], Host::Foreign);
        check(&["evil-localhost.com", "workstation.evil.org", "a.models.example", "2130706433"], Host::Foreign);
    }
}

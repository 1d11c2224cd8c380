//! The client of an inference request, for fair sharing of a model's compute time.
//!
//! Another machine is one client. On this machine each program is a client, with the product in its `User-Agent` as name, so
//! that an agent with many requests does not slow down an editor. A header cannot give another machine
//! more than one share.
//!
//! `X-Cairn-Priority: batch` marks a request that may be slow, so that it delays no interactive one.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use cairn_app::inference::{Client, Priority};

use crate::client::ClientInfo;
use crate::error::ApiError;
use crate::requests;

const PRIORITY: HeaderName = HeaderName::from_static("x-cairn-priority");

/// Returns the client of a request. Without information about its address, all such requests are of one client.
pub(crate) fn client(info: Option<&ClientInfo>, headers: &HeaderMap) -> Result<Client, ApiError> {
    let name = match info {
        Some(info) if !info.is_local => network(info.ip),
        Some(_) => format!("local {}", requests::client_name(headers)),
        None => "unknown".to_owned(),
    };
    Ok(Client { name: name.into(), priority: priority(headers)? })
}

/// The address of a machine. A machine may choose any address of its IPv6 network of 64 bits.
pub(crate) fn network(ip: IpAddr) -> String {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
    }
}

fn priority(headers: &HeaderMap) -> Result<Priority, ApiError> {
    let mut values = headers.get_all(PRIORITY).iter();
    match (values.next().map(HeaderValue::as_bytes), values.next()) {
        (None | Some(b"interactive"), None) => Ok(Priority::Interactive),
        (Some(b"batch"), None) => Ok(Priority::Batch),
        _ => Err(ApiError::bad_request("invalid X-Cairn-Priority: it must be one value, interactive or batch")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_has_one_share_for_its_addresses() {
        let name = |ip: &str| network(ip.parse().expect("an address"));
        assert_eq!(name("::ffff:10.0.0.5"), "10.0.0.5", "one form for an IPv4 address");
        assert_eq!(name("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64", "the network of an IPv6 address");
    }

    #[test]
    fn priority_rejects_other_and_repeated_values() {
        let of = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(PRIORITY, value.parse().expect("a header's value"));
            }
            priority(&headers).ok()
        };
        assert_eq!(of(&["batch"]), Some(Priority::Batch), "batch");
        assert_eq!(of(&["interactive"]), Some(Priority::Interactive), "interactive");
        assert_eq!(of(&[]), Some(Priority::Interactive), "the default");
        for invalid in [&["high"][..], &[""], &["batch", "interactive"], &["batch", "batch"]] {
            assert_eq!(of(invalid), None, "{invalid:?}");
        }
    }
}

//! Requests that are lost because the server closes a kept-alive connection.
//!
//! A server, or a firewall that resets connections, may close an idle connection at the moment at which the next request is sent on
//! it. The server works, so the request is sent once more, on a new connection. A request that is lost later is not repeated,
//! because it may be the cause. `hyper` itself repeats only requests of which it sent nothing.

use std::collections::VecDeque;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use hyper::http::Extensions;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpInfo;
use parking_lot::Mutex;
use reqwest::Response;

/// Most connections that are remembered. Requests that are lost on others are not repeated.
const MAX_CONNECTIONS: usize = 256;

/// Longest time from sending a request until it is lost because its connection was idle. Later, the request may be the cause: a
/// backend that crashes, or the time limit of a gateway.
const MAX_LOSS_TIME: Duration = Duration::from_secs(5);

/// Local addresses of connections that had a response. A later request on such a connection reuses it. Entries of closed
/// connections stay until newer ones replace them; a new connection on the same port then counts as reused.
#[derive(Debug, Default)]
pub(crate) struct UsedConnections(Mutex<VecDeque<SocketAddr>>);

impl UsedConnections {
    /// Adds the connection of a response.
    pub(crate) fn add(&self, response: &Response) {
        let Some(info) = response.extensions().get::<HttpInfo>() else { return };
        let (address, mut used) = (info.local_addr(), self.0.lock());
        if !used.contains(&address) {
            used.push_back(address);
            let surplus = used.len().saturating_sub(MAX_CONNECTIONS);
            used.drain(..surplus);
        }
    }

    /// Whether a request was lost because a reused connection was closed before its response. `after` is the time since it was
    /// sent.
    pub(crate) fn has_lost_request(&self, error: &reqwest::Error, after: Duration) -> bool {
        after < MAX_LOSS_TIME
            && is_closed(error)
            && local_address(error).is_some_and(|address| self.0.lock().contains(&address))
    }
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    // A reference to an error is an error too, so that its own `source` would be called without the dereferences.
    std::iter::successors(error.source(), |cause| (**cause).source())
}

/// Whether the connection ended before the head of the response.
fn is_closed(error: &reqwest::Error) -> bool {
    let is_end = |kind| {
        use ErrorKind as E;
        matches!(kind, E::ConnectionReset | E::ConnectionAborted | E::BrokenPipe | E::UnexpectedEof)
    };
    causes(error).any(|cause| {
        cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message)
            || cause.downcast_ref::<io::Error>().is_some_and(|error| is_end(error.kind()))
    })
}

/// The local address of the connection on which a request failed.
fn local_address(error: &reqwest::Error) -> Option<SocketAddr> {
    let error = causes(error).find_map(|cause| cause.downcast_ref::<legacy::Error>())?;
    let mut extras = Extensions::new();
    error.connect_info()?.get_extras(&mut extras);
    extras.get::<HttpInfo>().map(HttpInfo::local_addr)
}

#[cfg(test)]
mod tests;

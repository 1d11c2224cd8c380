//! Opens the daemon's listener at the configured address, or at a following port if the default port is in use.

use std::io;

use anyhow::Context;
use cairn_app::settings::Address;
use tokio::net::TcpListener;

/// Number of ports after the default port that are tried.
const MORE_PORTS: u16 = 100;

/// Returns a listener, and whether its port differs from the address. With `is_configured` the port never differs.
pub(super) async fn bind(address: &Address, is_configured: bool) -> anyhow::Result<(TcpListener, bool)> {
    let mut offset = 0;
    loop {
        let port = address.port.saturating_add(offset);
        match TcpListener::bind((address.host.as_str(), port)).await {
            Ok(listener) => return Ok((listener, offset > 0)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && !is_configured && offset < MORE_PORTS => {
                offset += 1
            }
            Err(error) => return Err(error).with_context(|| format!("cannot listen on {}:{port}", address.host)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn listener_skips_used_port_unless_configured() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = taken.local_addr().unwrap().port();
        let address = Address { port, ..Address::default() };
        let (listener, moved) = bind(&address, false).await.unwrap();
        assert!(moved && listener.local_addr().unwrap().port() > port, "another port");
        let error = bind(&address, true).await.expect_err("the port is in use").to_string();
        assert_eq!(error, format!("cannot listen on 127.0.0.1:{port}"), "the error has the address");
    }
}

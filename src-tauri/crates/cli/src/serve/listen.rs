//! Where the daemon listens: the address of the settings, or a port near it when another program has that.

use std::io;

use anyhow::Context;
use cairn_app::settings::Address;
use tokio::net::TcpListener;

/// Ports after the default one that are tried.
const MORE_PORTS: u16 = 100;

/// A listener, and whether it is on another port than the settings say. An address that somebody `chose` is not changed.
pub(super) async fn bind(address: &Address, chosen: bool) -> anyhow::Result<(TcpListener, bool)> {
    let mut offset = 0;
    loop {
        let port = address.port.saturating_add(offset);
        match TcpListener::bind((address.host.as_str(), port)).await {
            Ok(listener) => return Ok((listener, offset > 0)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && !chosen && offset < MORE_PORTS => offset += 1,
            Err(error) => return Err(error).with_context(|| format!("could not listen on {}:{port}", address.host)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_is_passed_over_unless_it_was_chosen() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = taken.local_addr().unwrap().port();
        let address = Address { port, ..Address::default() };
        let (listener, moved) = bind(&address, false).await.unwrap();
        assert!(moved && listener.local_addr().unwrap().port() > port, "another port");
        let error = bind(&address, true).await.expect_err("it is taken").to_string();
        assert_eq!(error, format!("could not listen on 127.0.0.1:{port}"), "the address is named");
    }
}

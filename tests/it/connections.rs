//! Incomplete requests do not block other clients.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::cairn::Home;

#[test]
fn half_open_connections_do_not_block_new_clients() {
    let words = ["sh", "-c", "ulimit -n 256; exec \"$@\"", "sh"].map(str::to_owned);
    let home = Home::new().through(words.into());
    let daemon = home.serve();
    let connect = |_| {
        let mut stream = TcpStream::connect(("127.0.0.1", home.port)).ok()?;
        // The daemon may already have closed the connection.
        let _ = stream.write_all(b"GET /api/version HTTP/1.1\r\nHost: local");
        Some(stream)
    };
    let half: Vec<TcpStream> = (0..400).filter_map(connect).collect();
    assert!(half.len() >= 256, "more connections than file descriptors: {}", half.len());
    let started = Instant::now();
    let mut client = TcpStream::connect(("127.0.0.1", home.port)).expect("the port is open");
    client.set_read_timeout(Some(Duration::from_secs(8))).expect("the timeout is not zero");
    client
        .write_all(b"GET /api/version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("the daemon reads the request");
    let mut response = String::new();
    let read = client.read_to_string(&mut response);
    assert!(read.is_ok() && response.contains("\"version\""), "{read:?} {response:?} after {:?}", started.elapsed());
    assert!(daemon.get("/").is_some(), "another client is served too");
    for mut stream in half {
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("the timeout is not zero");
        let mut rest = Vec::new();
        let read = stream.read_to_end(&mut rest);
        assert!(
            !matches!(&read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock),
            "the daemon closes every incomplete connection: {read:?}"
        );
    }
}

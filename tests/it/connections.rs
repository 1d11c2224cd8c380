//! Connections of clients that say little: they keep nobody else out.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::cairn::Home;

#[test]
fn half_open_connections_keep_nobody_out() {
    let words = ["sh", "-c", "ulimit -n 256; exec \"$@\"", "sh"].map(str::to_owned);
    let home = Home::new().through(words.into());
    let daemon = home.serve();
    let connect = |_| {
        let mut stream = TcpStream::connect(("127.0.0.1", home.port)).ok()?;
        // Of those that are closed at once, some say so already here.
        let _ = stream.write_all(b"GET /api/version HTTP/1.1\r\nHost: local");
        Some(stream)
    };
    let half: Vec<TcpStream> = (0..400).filter_map(connect).collect();
    assert!(half.len() >= 256, "more than the daemon may have files: {}", half.len());
    let begun = Instant::now();
    let mut asking = TcpStream::connect(("127.0.0.1", home.port)).expect("the port is open");
    asking.set_read_timeout(Some(Duration::from_secs(8))).expect("it is no zero");
    asking
        .write_all(b"GET /api/version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("it is taken");
    let mut heard = String::new();
    let read = asking.read_to_string(&mut heard);
    assert!(read.is_ok() && heard.contains("\"version\""), "{read:?} {heard:?} after {:?}", begun.elapsed());
    assert!(daemon.get("/").is_some(), "and the next one");
    for mut stream in half {
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it is no zero");
        let mut rest = Vec::new();
        let read = stream.read_to_end(&mut rest);
        assert!(!matches!(&read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock), "none stays: {read:?}");
    }
}

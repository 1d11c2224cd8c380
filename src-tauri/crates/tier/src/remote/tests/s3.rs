//! Tests with a real S3 server: moto (PyPI) in its own process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::*;

/// A server that is killed on drop.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        // A failure to kill it cannot be handled.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts moto, or returns `None` if Python does not have it.
    fn start() -> Option<Self> {
        #[expect(clippy::disallowed_methods, reason = "the path of Python depends on the test machine")]
        let python = std::env::var("CAIRN_MOTO_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let has = Command::new(&python).args(["-c", "import moto.server"]).stderr(Stdio::null()).status();
        if !has.is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: {python} has no moto (set CAIRN_MOTO_PYTHON to a Python with `moto[server]`)");
            return None;
        }
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a port is free").port();
        let args = ["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()];
        let mut command = Command::new(&python);
        command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self { child: command.spawn().expect("the process starts"), port };
        let began = Instant::now();
        while server.request("PUT /cairn HTTP/1.1").is_none_or(|status| !status.contains("200")) {
            assert!(began.elapsed() < Duration::from_secs(60), "the server did not start");
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(server)
    }

    /// Sends a request without a body and returns the status line.
    fn request(&self, line: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        let head = format!("{line}\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).ok()?;
        let mut status = String::new();
        let mut reader = BufReader::new(stream);
        reader.read_line(&mut status).ok()?;
        reader.read_to_end(&mut Vec::new()).ok()?;
        Some(status)
    }

    fn bucket(&self) -> Arc<dyn FileStore> {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        bucket("s3://cairn/a/folder", &endpoint)
    }

    /// Sends a signal to the server process.
    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "{signal} is sent");
    }
}

#[test]
fn s3_server_serves_and_recovers_after_stop() {
    let Some(server) = Server::start() else { return };
    let dir = TestFolder::new();
    // A real server may be slow on a busy machine.
    let open = || dir.open_with_timeout(server.bucket(), shared(), Duration::from_secs(3));
    let (one, other) = (open(), open());
    check_shared(&one, &other, "S3");

    let chunk = &chunks(7)[0];
    server.signal("-STOP");
    let mut took = Vec::new();
    for _ in 0..6 {
        let began = Instant::now();
        let missed = other.load(&wanted(chunk)).err();
        assert!(
            matches!(missed, Some(Miss::Tier(TierError::Unavailable(_)))),
            "the server does not respond: {missed:?}"
        );
        took.push((began.elapsed(), super::hang::is_left_alone(missed.as_ref())));
    }
    assert!(took.iter().all(|(took, _)| *took < Duration::from_secs(12)), "calls are abandoned: {took:?}");
    let left_alone: Vec<bool> = took.iter().map(|(_, left_alone)| *left_alone).collect();
    assert_eq!(left_alone, [false, false, false, true, true, true], "later calls are rejected: {took:?}");
    server.signal("-CONT");
    dir.clock.pass(circuit_breaker::FIRST);
    let mut tries = 0;
    while other.scan(&mut |_| {}).is_err() {
        tries += 1;
        assert!(tries < 5, "the server does not recover");
        dir.clock.pass(circuit_breaker::LONGEST);
    }
    assert_loads(&other, chunk, "the tier works again");
}

#[test]
fn invalid_bucket_addresses_and_settings_are_rejected() {
    let check =
        |address: &str, settings: &[(&str, &str)], says: &str| match Bucket::open(address, settings.iter().copied()) {
            Ok(_) => panic!("{address}: must be rejected"),
            Err(error) => assert!(error.to_string().contains(says), "{address}: {error}"),
        };
    check("nowhere", &[], "invalid");
    check("ftp://host/x", &[], "invalid");
    check("memory:///x", &[], "unknown kind");
    check("s3://bucket/x", &[("no_such_thing", "1")], "no_such_thing");
    for address in ["s3://bucket/x", "gs://bucket/x", "https://files.example/x"] {
        assert!(Bucket::open(address, []).is_ok(), "{address} is valid");
    }
    let azure = [("account_name", "me"), ("access_key", "c2VjcmV0")];
    assert!(Bucket::open("az://container/x", azure).is_ok(), "valid settings are accepted");
}

/// A bucket at this endpoint.
fn bucket(place: &str, endpoint: &str) -> Arc<dyn FileStore> {
    let settings = [
        ("endpoint", endpoint),
        ("allow_http", "true"),
        ("region", "us-east-1"),
        ("access_key_id", "key"),
        ("secret_access_key", "secret"),
    ];
    Arc::new(Bucket::open(place, settings).expect("the address is valid"))
}

/// A server that answers every request with this status until the test ends.
fn refusing(status: &'static str) -> Arc<dyn FileStore> {
    begin_generation(move |stream| {
        write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    })
}

/// A server that answers every request with `answer` until the test ends.
fn begin_generation(answer: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + 'static) -> Arc<dyn FileStore> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let endpoint = format!("http://{}", listener.local_addr().expect("the socket is bound"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = BufReader::new(&stream).lines();
            while head.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            drop(head);
            // The client may have disconnected.
            let _ = answer(&mut stream);
        }
    });
    bucket("s3://cairn", &endpoint)
}

#[test]
fn http_errors_map_to_tier_errors() {
    let within = Duration::from_secs(8);
    let check = |status, is_it: fn(&TierError) -> bool| {
        // The name contains other statuses.
        let error = refusing(status).read("v1/507500503404/x", 0..10, within, &|| ()).expect_err("the call fails");
        assert!(is_it(&error), "{status}: {error:?}");
    };
    check("500 Internal Server Error", |error| matches!(error, TierError::Unavailable(_)));
    check("503 Slow Down", |error| matches!(error, TierError::Unavailable(_)));
    check("507 Insufficient Storage", |error| matches!(error, TierError::Full(_)));
    check("403 Forbidden", |error| matches!(error, TierError::Failed(_)));
    check("400 Bad Request", |error| matches!(error, TierError::Failed(_)));
    let absent = refusing("404 Not Found").read("v1/507500503404/x", 0..10, within, &|| ());
    assert_eq!(absent, Ok(None), "a missing file is not an error");
}

#[test]
fn bucket_read_is_limited_to_the_requested_range() {
    let within = Duration::from_secs(8);
    let read = |length: u64, part: &'static str, body: &'static [u8]| {
        let server = begin_generation(move |stream| {
            write!(
                stream,
                "HTTP/1.1 206 Partial Content\r\nContent-Length: {length}\r\nContent-Range: bytes {part}\r\n"
            )?;
            write!(stream, "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nConnection: close\r\n\r\n")?;
            let mut left = length;
            while left > 0 {
                let piece = &body[..body.len().min(left as usize)];
                stream.write_all(piece)?;
                left -= piece.len() as u64;
            }
            Ok(())
        });
        let began = Instant::now();
        let read = server.read("v1/x", 0..10, within, &|| ());
        (read, began.elapsed())
    };
    static MANY: [u8; 64 << 10] = [7; 64 << 10];
    assert_eq!(read(10, "0-9/10", b"0123456789").0, Ok(Some(b"0123456789".to_vec())), "the requested bytes");
    assert_eq!(read(4, "0-3/4", b"0123").0, Ok(Some(b"0123".to_vec())), "a shorter file");
    let (endless, took) = read(1 << 40, "0-9/10", &MANY);
    assert!(
        endless.is_err(),
        "excess bytes are an error: {} bytes",
        endless.unwrap_or_default().unwrap_or_default().len()
    );
    assert!(took < within / 2, "the rest is not read: {took:?}");
    for (length, part, why) in
        [(10, "5-14/20", "another range"), (10, "0-9", "a range without length"), (10, "x", "nonsense")]
    {
        assert!(read(length, part, b"0123456789").0.is_err(), "{why}");
    }
}

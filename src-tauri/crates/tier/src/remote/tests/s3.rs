//! A bucket of a real server: moto's, from PyPI, in a process of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::*;

/// A server that ends with the test.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing more can be done about one that does not end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts moto with the Python that has it; none where there is none.
    fn start() -> Option<Self> {
        #[expect(clippy::disallowed_methods, reason = "the way to a server is a matter of the machine that tests")]
        let python = std::env::var("CAIRN_MOTO_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let has = Command::new(&python).args(["-c", "import moto.server"]).stderr(Stdio::null()).status();
        if !has.is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: {python} has no moto (set CAIRN_MOTO_PYTHON to a Python with `moto[server]`)");
            return None;
        }
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a free port").port();
        let args = ["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()];
        let mut command = Command::new(&python);
        command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self { child: command.spawn().expect("it starts"), port };
        let began = Instant::now();
        while server.request("PUT /cairn HTTP/1.1").is_none_or(|status| !status.contains("200")) {
            assert!(began.elapsed() < Duration::from_secs(60), "the server does not come up");
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(server)
    }

    /// Makes a request without a body and returns the status line.
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

    fn bucket(&self) -> Arc<dyn Files> {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        bucket("s3://cairn/a/folder", &endpoint)
    }

    /// Stops the server in its tracks, or lets it go on.
    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "{signal} is sent");
    }
}

#[test]
fn an_s3_server_serves_and_may_stop_and_come_back() {
    let Some(server) = Server::start() else { return };
    let home = Home::new();
    // A real server takes its time on a machine that is busy.
    let open = || home.open_waiting(server.bucket(), shared(), Duration::from_secs(3));
    let (one, other) = (open(), open());
    serves(&one, &other, "S3");

    let chunk = &chunks(7)[0];
    server.signal("-STOP");
    let mut took = Vec::new();
    for _ in 0..6 {
        let began = Instant::now();
        let missed = other.load(&wanted(chunk)).err();
        assert!(matches!(missed, Some(Miss::Tier(TierError::Away(_)))), "it does not answer: {missed:?}");
        took.push((began.elapsed(), super::hang::is_left_alone(missed.as_ref())));
    }
    assert!(took.iter().all(|(took, _)| *took < Duration::from_secs(12)), "calls are given up: {took:?}");
    let left_alone: Vec<bool> = took.iter().map(|(_, left_alone)| *left_alone).collect();
    assert_eq!(left_alone, [false, false, false, true, true, true], "then none is made: {took:?}");
    server.signal("-CONT");
    home.clock.pass(breaker::FIRST);
    let mut tries = 0;
    while other.scan(&mut |_| {}).is_err() {
        tries += 1;
        assert!(tries < 5, "it comes back");
        home.clock.pass(breaker::LONGEST);
    }
    comes_back(&other, chunk, "it is back");
}

#[test]
fn addresses_and_settings_that_are_wrong_are_told() {
    let check =
        |address: &str, settings: &[(&str, &str)], says: &str| match Bucket::open(address, settings.iter().copied()) {
            Ok(_) => panic!("{address}: it is wrong"),
            Err(error) => assert!(error.to_string().contains(says), "{address}: {error}"),
        };
    check("nowhere", &[], "wrong");
    check("ftp://host/x", &[], "wrong");
    check("memory:///x", &[], "no bucket");
    check("s3://bucket/x", &[("no_such_thing", "1")], "no_such_thing");
    for address in ["s3://bucket/x", "gs://bucket/x", "https://files.example/x"] {
        assert!(Bucket::open(address, []).is_ok(), "{address} is one");
    }
    let azure = [("account_name", "me"), ("access_key", "c2VjcmV0")];
    assert!(Bucket::open("az://container/x", azure).is_ok(), "with settings");
}

/// A bucket of the server at this address.
fn bucket(place: &str, endpoint: &str) -> Arc<dyn Files> {
    let settings = [
        ("endpoint", endpoint),
        ("allow_http", "true"),
        ("region", "us-east-1"),
        ("access_key_id", "key"),
        ("secret_access_key", "secret"),
    ];
    Arc::new(Bucket::open(place, settings).expect("a good address"))
}

/// A server that answers every request with one status, until the test ends.
fn refusing(status: &'static str) -> Arc<dyn Files> {
    answering(move |stream| write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
}

/// A server that answers every request in one way, until the test ends.
fn answering(answer: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + 'static) -> Arc<dyn Files> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let endpoint = format!("http://{}", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = BufReader::new(&stream).lines();
            while head.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            drop(head);
            // The client may be gone.
            let _ = answer(&mut stream);
        }
    });
    bucket("s3://cairn", &endpoint)
}

#[test]
fn refusals_of_a_server_are_told_apart() {
    let within = Duration::from_secs(8);
    let check = |status, is_it: fn(&TierError) -> bool| {
        // A name with the other statuses in it.
        let error = refusing(status).read("v1/507500503404/x", 0..10, within, &|| ()).expect_err("it is refused");
        assert!(is_it(&error), "{status}: {error:?}");
    };
    check("500 Internal Server Error", |error| matches!(error, TierError::Away(_)));
    check("503 Slow Down", |error| matches!(error, TierError::Away(_)));
    check("507 Insufficient Storage", |error| matches!(error, TierError::Full(_)));
    check("403 Forbidden", |error| matches!(error, TierError::Failed(_)));
    check("400 Bad Request", |error| matches!(error, TierError::Failed(_)));
    let absent = refusing("404 Not Found").read("v1/507500503404/x", 0..10, within, &|| ());
    assert_eq!(absent, Ok(None), "what is not there is not a refusal");
}

#[test]
fn a_server_gives_as_much_as_it_was_asked_for_and_no_more() {
    let within = Duration::from_secs(8);
    let read = |length: u64, part: &'static str, body: &'static [u8]| {
        let server = answering(move |stream| {
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
    assert_eq!(read(10, "0-9/10", b"0123456789").0, Ok(Some(b"0123456789".to_vec())), "what was asked for");
    assert_eq!(read(4, "0-3/4", b"0123").0, Ok(Some(b"0123".to_vec())), "less, where there is less");
    let (endless, took) = read(1 << 40, "0-9/10", &MANY);
    assert!(endless.is_err(), "more is a lie: {} bytes", endless.unwrap_or_default().unwrap_or_default().len());
    assert!(took < within / 2, "and nobody waits for its end: {took:?}");
    for (length, part, why) in
        [(10, "5-14/20", "another part"), (10, "0-9", "a part of nothing"), (10, "x", "nonsense")]
    {
        assert!(read(length, part, b"0123456789").0.is_err(), "{why}");
    }
}

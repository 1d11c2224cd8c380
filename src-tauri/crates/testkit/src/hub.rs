//! Fake of the Hugging Face model index on localhost, with responses defined by the test.
//!
//! HTTP/1.1 over plain sockets, one thread and one response per connection.

use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use parking_lot::Mutex;

use crate::registry::Request;

/// Returns status and body for a path with query.
type Responder = dyn Fn(&str) -> (u16, Vec<u8>) + Send + Sync;

/// Running index. Dropping it stops it.
pub struct FakeHub {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    respond: Box<Responder>,
    requests: Mutex<Vec<String>>,
    stopped: AtomicBool,
}

impl FakeHub {
    /// Starts an index with the responses of `respond`.
    ///
    /// # Errors
    /// When no port is free.
    pub fn start(respond: impl Fn(&str) -> (u16, Vec<u8>) + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            respond: Box::new(respond),
            requests: Mutex::default(),
            stopped: AtomicBool::new(false),
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for connection in listener.incoming() {
                if serving.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(connection) = connection else { continue };
                let shared = Arc::clone(&serving);
                // A client may disconnect at any time; that is not an error.
                thread::spawn(move || drop(shared.serve(&connection)));
            }
        });
        Ok(Self { address, shared })
    }

    /// Starts an index with one repository of two quantisations, `me/Tiny-GGUF`, found by searches for `tiny`.
    ///
    /// # Errors
    /// As [`FakeHub::start`].
    pub fn with_one_model() -> io::Result<Self> {
        Self::start(|target| {
            let body = if target.contains("/tree/") {
                r#"[{"type":"file","path":"Tiny-Q8_0.gguf","size":2000000},
                    {"type":"file","path":"Tiny-Q4_K_M.gguf","size":1000000},{"type":"file","path":"README.md"}]"#
            } else if target.to_ascii_lowercase().contains("search=tiny") {
                r#"[{"id":"me/Tiny-GGUF","downloads":7,"tags":["gguf","license:mit"],"pipeline_tag":"text-generation"}]"#
            } else {
                "[]"
            };
            (200, body.as_bytes().to_vec())
        })
    }

    /// Returns its address, `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requested paths with queries.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().clone()
    }
}

impl Shared {
    fn serve(&self, mut connection: &TcpStream) -> io::Result<()> {
        let Some(request) = Request::read(&mut BufReader::new(connection))? else { return Ok(()) };
        self.requests.lock().push(request.target.clone());
        let (status, body) = (self.respond)(&request.target);
        let length = body.len();
        write!(connection, "HTTP/1.1 {status} -\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")?;
        connection.write_all(&body)
    }
}

impl Drop for FakeHub {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for connections.
        drop(TcpStream::connect(self.address));
    }
}

//! An index of models on this machine that answers as a test wants, as Hugging Face's does or otherwise.
//!
//! HTTP/1.1 over plain sockets, a thread for each connection, one answer on each.

use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::registry::Request;

/// What is answered to a path with its query: a status and a body.
type Answer = dyn Fn(&str) -> (u16, Vec<u8>) + Send + Sync;

/// A running index; dropping it stops it.
pub struct FakeHub {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    answer: Box<Answer>,
    asked: Mutex<Vec<String>>,
    stopped: AtomicBool,
}

impl FakeHub {
    /// Starts one that answers by `answer`.
    ///
    /// # Errors
    /// When no port can be had.
    pub fn start(answer: impl Fn(&str) -> (u16, Vec<u8>) + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared =
            Arc::new(Shared { answer: Box::new(answer), asked: Mutex::default(), stopped: AtomicBool::new(false) });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for connection in listener.incoming() {
                if serving.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(connection) = connection else { continue };
                let shared = Arc::clone(&serving);
                // A client that goes away ends its thread, and nobody minds.
                thread::spawn(move || drop(shared.converse(&connection)));
            }
        });
        Ok(Self { address, shared })
    }

    /// One with a repository of two quantisations, `me/Tiny-GGUF`, for every search that means it.
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

    /// Its address, `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The paths that were asked for so far, with their queries.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Shared {
    fn converse(&self, mut connection: &TcpStream) -> io::Result<()> {
        let Some(request) = Request::read(&mut BufReader::new(connection))? else { return Ok(()) };
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(request.target.clone());
        let (status, body) = (self.answer)(&request.target);
        let length = body.len();
        write!(connection, "HTTP/1.1 {status} Said\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")?;
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

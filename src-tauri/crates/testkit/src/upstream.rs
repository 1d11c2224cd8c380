//! Fake of another server of models on localhost, with the API of Ollama or OpenAI. Its answers follow a script of the test.
//!
//! HTTP/1.1 over plain sockets, one thread and one response per connection. Answers are chunked, as those of real servers.

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::registry::Request;

/// The API of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// Ollama's API.
    Ollama,
    /// OpenAI's API.
    OpenAi,
}

/// A step of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Respond with this status and body instead of an answer.
    Status(u16, String),
    /// Respond with this status and the beginning of a body, and send nothing more.
    EndlessStatus(u16, String),
    /// Respond with a redirect to this URL.
    Redirect(String),
    /// Send these bytes as one chunk.
    Send(String),
    /// Send nothing for a while.
    Pause(Duration),
    /// Send nothing until the client closes the connection.
    Hold,
    /// Close the connection without the end of the response.
    Break,
}

/// A request for an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedRequest {
    /// Request line and headers.
    pub head: Request,
    /// The body; null if it is not JSON.
    pub body: Value,
}

/// Running server. Dropping it stops it.
pub struct FakeUpstream {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    api: Api,
    models: Mutex<Vec<String>>,
    steps: Mutex<Vec<Step>>,
    /// Status of lists of models; 200 if they succeed.
    list_status: AtomicUsize,
    seen: Mutex<Vec<ReceivedRequest>>,
    lists: AtomicUsize,
    /// Answers with a connection that the client closed.
    closed: AtomicUsize,
    stopped: AtomicBool,
}

impl FakeUpstream {
    /// Starts a server with these models, which answers with `steps`.
    ///
    /// # Errors
    /// When no port is free.
    pub fn start(api: Api, models: &[&str], steps: Vec<Step>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            api,
            models: Mutex::new(models.iter().map(|name| (*name).to_owned()).collect()),
            steps: Mutex::new(steps),
            list_status: AtomicUsize::new(200),
            seen: Mutex::default(),
            lists: AtomicUsize::new(0),
            closed: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        });
        let server = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if server.stopped.load(Ordering::Acquire) {
                    return;
                }
                let server = Arc::clone(&server);
                thread::spawn(move || server.serve(stream));
            }
        });
        Ok(Self { address, shared })
    }

    /// Address of the server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Replaces the steps of later answers.
    pub fn set_steps(&self, steps: Vec<Step>) {
        *self.shared.steps.lock() = steps;
    }

    /// Sets the status of later lists of models.
    pub fn set_list_status(&self, status: u16) {
        self.shared.list_status.store(status.into(), Ordering::Release);
    }

    /// The requests for answers so far.
    #[must_use]
    pub fn seen(&self) -> Vec<ReceivedRequest> {
        self.shared.seen.lock().clone()
    }

    /// The number of requests for lists of models so far.
    #[must_use]
    pub fn lists(&self) -> usize {
        self.shared.lists.load(Ordering::Acquire)
    }

    /// Waits until clients have closed the connections of `count` answers. Returns whether they did within 10 s.
    #[must_use]
    pub fn wait_for_closed(&self, count: usize) -> bool {
        let end = Instant::now() + Duration::from_secs(10);
        while self.shared.closed.load(Ordering::Acquire) < count {
            if Instant::now() > end {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
        true
    }
}

impl Drop for FakeUpstream {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Release);
        // Ends the wait for a connection.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) {
        let Ok(copy) = stream.try_clone() else { return };
        let mut reader = BufReader::new(copy);
        let Ok(Some(head)) = Request::read(&mut reader) else { return };
        let length = head.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        // A closed connection is not an error of the server.
        let _ = match (self.api, head.target.as_str()) {
            (Api::Ollama, "/api/version") => respond(&mut stream, 200, &json!({"version": "0.12.0"}).to_string()),
            (Api::Ollama, "/api/tags") | (_, "/v1/models") => self.list(&mut stream),
            (Api::Ollama, "/api/show") => {
                let shown = json!({"details": {"family": "llama"}, "model_info": {"general.architecture": "llama"},
                    "capabilities": ["completion", "tools"], "modified_at": "2026-01-02T03:04:05Z"});
                respond(&mut stream, 200, &shown.to_string())
            }
            (_, path) if is_answer(self.api, path) => {
                let body = serde_json::from_slice(&body).unwrap_or_default();
                self.seen.lock().push(ReceivedRequest { head, body });
                self.answer(&mut stream, &mut reader)
            }
            _ => respond(&mut stream, 404, "404 page not found"),
        };
    }

    fn list(&self, stream: &mut TcpStream) -> io::Result<()> {
        self.lists.fetch_add(1, Ordering::AcqRel);
        let status = u16::try_from(self.list_status.load(Ordering::Acquire)).unwrap_or(500);
        if status != 200 {
            return respond(stream, status, r#"{"error":"not now"}"#);
        }
        let models = self.models.lock().clone();
        let list = match self.api {
            Api::Ollama => {
                let row = |name: &String| {
                    json!({"name": name, "model": name, "size": 4_661_211_424_u64, "digest": "ab".repeat(32),
                        "modified_at": "2026-01-02T03:04:05Z",
                        "details": {"format": "gguf", "family": "llama", "parameter_size": "8B", "quantization_level": "Q4_K_M"}})
                };
                json!({"models": models.iter().map(row).collect::<Vec<_>>()})
            }
            Api::OpenAi => {
                let row = |name: &String| json!({"id": name, "object": "model", "created": 1_767_323_045, "max_model_len": 8192});
                json!({"object": "list", "data": models.iter().map(row).collect::<Vec<_>>()})
            }
        };
        respond(stream, 200, &list.to_string())
    }

    fn answer(&self, stream: &mut TcpStream, reader: &mut BufReader<TcpStream>) -> io::Result<()> {
        let steps = self.steps.lock().clone();
        let mut has_head = false;
        for step in steps {
            if !has_head
                && !matches!(step, Step::Status(..) | Step::EndlessStatus(..) | Step::Redirect(_) | Step::Pause(_))
            {
                has_head = true;
                // One response for each connection.
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\nconnection: close\r\n\
                            transfer-encoding: chunked\r\n\r\n";
                stream.write_all(head.as_bytes())?;
            }
            let sent = match step {
                Step::Status(status, body) => return respond(stream, status, &body),
                Step::EndlessStatus(status, body) => {
                    let length = body.len() + 1;
                    write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{body}")?;
                    // Ends when the client closes the connection.
                    let _ = reader.read(&mut [0]);
                    return Ok(());
                }
                Step::Redirect(url) => {
                    let head =
                        format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {url}\r\ncontent-length: 0\r\n\r\n");
                    return stream.write_all(head.as_bytes());
                }
                Step::Send(text) => stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()),
                Step::Pause(time) => {
                    thread::sleep(time);
                    Ok(())
                }
                Step::Hold => {
                    // Ends when the client closes the connection.
                    let _ = reader.read(&mut [0]);
                    Err(io::ErrorKind::ConnectionAborted.into())
                }
                Step::Break => return Ok(()),
            };
            if let Err(error) = sent {
                self.closed.fetch_add(1, Ordering::AcqRel);
                return Err(error);
            }
        }
        stream.write_all(b"0\r\n\r\n")
    }
}

fn is_answer(api: Api, path: &str) -> bool {
    let is_openai = ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"].contains(&path);
    is_openai
        || match api {
            Api::Ollama => ["/api/chat", "/api/generate", "/api/embed", "/api/embeddings"].contains(&path),
            Api::OpenAi => path == "/v1/rerank",
        }
}

fn respond(stream: &mut TcpStream, status: u16, body: &str) -> io::Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// The lines of an answer of Ollama's API with these texts.
#[must_use]
pub fn ollama_answer(texts: &[&str]) -> Vec<Step> {
    let line = |text: &&str| json!({"model": "m", "created_at": "2026-01-02T03:04:05Z", "message": {"role": "assistant", "content": text}, "done": false});
    let last = json!({"model": "m", "created_at": "2026-01-02T03:04:05Z", "message": {"role": "assistant", "content": ""},
        "done": true, "done_reason": "stop", "total_duration": 9_000_000, "prompt_eval_count": 20, "prompt_eval_duration": 4_000_000,
        "eval_count": texts.len(), "eval_duration": 3_000_000, "cached_tokens": 12});
    let lines = texts.iter().map(line).chain([last]);
    lines.map(|line| Step::Send(format!("{line}\n"))).collect()
}

/// The events of an answer of OpenAI's API with these texts, with the usage.
#[must_use]
pub fn openai_answer(texts: &[&str]) -> Vec<Step> {
    let chunk = |choices: Value, usage: Value| {
        let chunk = json!({"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, "usage": usage});
        Step::Send(format!("data: {chunk}\n\n"))
    };
    let delta = |delta: Value, reason: Value| json!([{"index": 0, "delta": delta, "finish_reason": reason}]);
    let mut steps = vec![chunk(delta(json!({"role": "assistant", "content": ""}), Value::Null), Value::Null)];
    steps.extend(texts.iter().map(|text| chunk(delta(json!({"content": text}), Value::Null), Value::Null)));
    steps.push(chunk(delta(json!({}), json!("stop")), Value::Null));
    let usage = json!({"prompt_tokens": 20, "completion_tokens": texts.len(), "total_tokens": 20 + texts.len(),
        "prompt_tokens_details": {"cached_tokens": 12}});
    steps.push(chunk(json!([]), usage));
    steps.push(Step::Send("data: [DONE]\n\n".to_owned()));
    steps
}

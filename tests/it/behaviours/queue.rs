//! The exact limit of accepted requests over HTTP: clients of all three APIs send their requests at once.
//!
//! Eight long answers are computed while the other clients send, so that no place becomes free before the last of them has its
//! status. The times in the long answers prove that. If an answer was too short for this machine, the round is repeated with
//! longer ones. On a busy machine, a client may be too slow to read its answer; such an answer gives its place back, and a further
//! request is accepted for it.

use std::io::Read;
use std::sync::{Barrier, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{home, post_json, store};
use crate::cairn::{Home, send, status_and_body, text};

const CLIENTS: usize = 200;
const PARALLEL: usize = 8;
const QUEUE: usize = 64;
/// Least number of tokens of an answer that waits in the queue.
const SHORT_TOKENS: usize = 5;
/// Tokens of the long answers in the first and the last round. The context has 4096.
const LONG_TOKENS: [usize; 2] = [128, 2048];
/// Lines of an answer that the daemon may have computed before their time. The engine queues 32 events for a client.
const QUEUED_LINES: usize = 64;

#[derive(Clone, Copy, Debug)]
enum Api {
    Ollama,
    OpenAi,
    Anthropic,
}

impl Api {
    fn path(self) -> &'static str {
        match self {
            Self::Ollama => "/api/chat",
            Self::OpenAi => "/v1/chat/completions",
            Self::Anthropic => "/v1/messages",
        }
    }

    /// Returns the sentence of an error response in this API's format.
    fn error(self, body: &Value) -> &Value {
        match self {
            Self::Ollama => &body["error"],
            Self::OpenAi | Self::Anthropic => &body["error"]["message"],
        }
    }

    /// Part of a stream from its first text on.
    fn text_key(self) -> &'static str {
        match self {
            Self::Ollama | Self::OpenAi => "\"content\":",
            Self::Anthropic => "\"text_delta\"",
        }
    }

    /// Returns the text of a streamed answer; `None` if it is not complete.
    fn text(self, body: &str) -> Option<String> {
        let (mut answer, mut is_complete) = (String::new(), false);
        for object in objects(body) {
            let (delta, is_last) = match self {
                Self::Ollama => (&object["message"]["content"], object["done"] == true),
                Self::OpenAi => {
                    let choice = &object["choices"][0];
                    (&choice["delta"]["content"], choice["finish_reason"].is_string())
                }
                Self::Anthropic => (&object["delta"]["text"], object["type"] == "message_stop"),
            };
            answer += delta.as_str().unwrap_or_default();
            is_complete |= is_last;
        }
        is_complete.then_some(answer)
    }
}

/// Returns the JSON objects of a stream: lines, or data of events.
fn objects(body: &str) -> impl Iterator<Item = Value> {
    body.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ").unwrap_or(line)).ok())
}

/// A request and its API.
struct Request {
    api: Api,
    body: Value,
}

impl Request {
    /// The same for all clients that use the computing places.
    fn long(tokens: usize) -> Self {
        let options = json!({"num_predict": tokens, "temperature": 1, "seed": 1});
        let body = json!({"model": "slow", "messages": [{"role": "user", "content": "Count."}], "options": options});
        Self { api: Api::Ollama, body }
    }

    /// A different one for each client.
    fn short(client: usize) -> Self {
        let api = [Api::Ollama, Api::OpenAi, Api::Anthropic][client % 3];
        let messages = json!([{"role": "user", "content": format!("{client} times {client}")}]);
        let tokens = SHORT_TOKENS + client % 4;
        let body = match api {
            Api::Ollama => {
                let options = json!({"num_predict": tokens, "temperature": 1, "seed": client});
                json!({"model": "slow", "messages": messages, "options": options})
            }
            Api::OpenAi => json!({"model": "slow", "messages": messages, "stream": true,
                "max_tokens": tokens, "temperature": 1, "seed": client}),
            // This API has no seed.
            Api::Anthropic => json!({"model": "slow", "messages": messages, "stream": true,
                "max_tokens": tokens, "temperature": 0}),
        };
        Self { api, body }
    }
}

/// A complete response.
struct Response {
    status: u16,
    body: String,
    /// Time from the request to the first text of the answer; `None` for a refusal.
    first_text: Option<Duration>,
}

/// What a client has received so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Status,
    Text,
}

/// Sends a request and reads the whole response. Reports its status and its first text at once.
fn exchange(home: &Home, request: &Request, report: impl Fn(Progress)) -> Response {
    let sent = Instant::now();
    let mut stream =
        send(home.port, "POST", request.api.path(), &[], &request.body.to_string()).expect("the daemon accepts");
    let (mut received, mut status, mut first_text) = (Vec::new(), None, None);
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).expect("the daemon answers");
        if read == 0 {
            break;
        }
        received.extend_from_slice(&buffer[..read]);
        if first_text.is_some() {
            continue;
        }
        let so_far = String::from_utf8_lossy(&received);
        if status.is_none()
            && let Some((head, _)) = so_far.split_once("\r\n\r\n")
        {
            status = head.split(' ').nth(1).map(str::to_owned);
            report(Progress::Status);
        }
        if status.as_deref() == Some("200") && so_far.contains(request.api.text_key()) {
            first_text = Some(sent.elapsed());
            report(Progress::Text);
        }
    }
    let received = text(&received);
    let (status, body) = status_and_body(&received).unwrap_or_else(|| panic!("not a response: {received}"));
    Response { status, body, first_text }
}

/// All responses of one round.
struct Round {
    long: Vec<Response>,
    /// With the requests.
    short: Vec<(Request, Response)>,
    /// Time of the daemon when all clients had their status.
    decided_at: String,
    /// Number of answers that had given their place back by then.
    pauses: usize,
}

impl Round {
    /// Starts a daemon, has it compute long answers, and sends all other requests at once.
    fn run(home: &Home, long_tokens: usize) -> Self {
        let _daemon = home.serve();
        for model in ["slow", "m"] {
            load(home, model);
        }
        let long = Request::long(long_tokens);
        let barrier = Barrier::new(CLIENTS - PARALLEL);
        std::thread::scope(|scope| {
            let (long, barrier) = (&long, &barrier);
            let (sender, begun) = mpsc::channel();
            let clients = (0..PARALLEL).map(|_| {
                let sender = sender.clone();
                scope.spawn(move || exchange(home, long, sending(sender, Progress::Text)))
            });
            let long: Vec<_> = clients.collect();
            drop(sender);
            assert_eq!(begun.iter().take(PARALLEL).count(), PARALLEL, "all long answers have begun");
            let (sender, decided) = mpsc::channel();
            let clients = (PARALLEL..CLIENTS).map(|client| {
                let sender = sender.clone();
                scope.spawn(move || {
                    let request = Request::short(client);
                    barrier.wait();
                    let response = exchange(home, &request, sending(sender, Progress::Status));
                    (request, response)
                })
            });
            let short: Vec<_> = clients.collect();
            drop(sender);
            let clients = CLIENTS - PARALLEL;
            assert_eq!(decided.iter().take(clients).count(), clients, "each client has a status");
            let pauses = pauses(home);
            let decided_at = load(home, "m");
            let long = long.into_iter().map(|client| client.join().expect("a client does not panic")).collect();
            let short = short.into_iter().map(|client| client.join().expect("a client does not panic")).collect();
            Self { long, short, decided_at, pauses }
        })
    }

    /// Whether all long answers were computed beyond the last status, so that no place became free before.
    fn is_exact(&self) -> bool {
        self.long.iter().all(|response| {
            let times = objects(&response.body).filter_map(|line| time(&line["created_at"]));
            times.filter(|time| *time > self.decided_at).count() > QUEUED_LINES
        })
    }
}

/// Returns a function that sends a message when a client has received this.
fn sending(sender: mpsc::Sender<()>, wanted: Progress) -> impl Fn(Progress) {
    move |progress| {
        if progress == wanted {
            // The test may have failed.
            let _ = sender.send(());
        }
    }
}

/// Loads a model, and returns the time of the daemon.
fn load(home: &Home, model: &str) -> String {
    let reply = post_json(home, "/api/generate", json!({"model": model, "keep_alive": -1}));
    time(&reply["created_at"]).unwrap_or_else(|| panic!("no time: {reply}"))
}

/// Returns the number of answers of the slow model that made room for others because their client did not read.
fn pauses(home: &Home) -> usize {
    let bearer = home.bearer().expect("the daemon has a token");
    let metrics = super::exchange(home.port, "GET", "/metrics", &[("Authorization", &bearer)], "");
    let (_, metrics) = metrics.expect("the daemon answers");
    let line = metrics.lines().find(|line| line.starts_with("cairn_unread_pauses_total{model=\"slow"));
    line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok()).unwrap_or_else(|| panic!("no metric: {metrics}"))
}

/// Returns a time as a text that sorts by time.
fn time(created_at: &Value) -> Option<String> {
    created_at.as_str().map(|text| text.trim_end_matches('Z').to_owned())
}

#[test]
fn concurrent_clients_beyond_the_queue_are_refused_exactly() {
    let home = home().with("OLLAMA_NUM_PARALLEL", PARALLEL.to_string()).with("OLLAMA_MAX_QUEUE", QUEUE.to_string());
    // Steps take so long that the daemon can send their tokens beside the requests of 192 clients.
    let spec = cairn_testkit::ModelSpec { width: 1024, ffn: 4096, layers: 6, ..cairn_testkit::slow_llama() };
    store(&home, "slow", &[("model", &cairn_testkit::write(&spec))]);
    let [mut long_tokens, most_tokens] = LONG_TOKENS;
    let round = loop {
        let round = Round::run(&home, long_tokens);
        if round.is_exact() {
            break round;
        }
        assert!(long_tokens < most_tokens, "the daemon needs longer for a status than for {long_tokens} tokens");
        long_tokens *= 2;
    };
    let (accepted, refused): (Vec<_>, Vec<_>) = round.short.iter().partition(|(_, response)| response.status == 200);
    let places = PARALLEL + QUEUE;
    assert!(
        (places..=places + round.pauses).contains(&(round.long.len() + accepted.len())),
        "eight are computed, 64 wait, the others are refused: {} accepted, {} refused, {} paused",
        round.long.len() + accepted.len(),
        refused.len(),
        round.pauses
    );
    for (Request { api, .. }, Response { status, body, .. }) in refused {
        let error: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{api:?}: {body}"));
        let expected = "server busy, please try again.  maximum pending requests exceeded";
        assert_eq!((*status, api.error(&error)), (503, &json!(expected)), "{api:?}: {error}");
        assert_eq!(error["type"] == "error", matches!(api, Api::Anthropic), "{api:?}: {error}");
    }
    // Another daemon has no cached rows of the first one.
    let _daemon = home.serve();
    let idle = |request: &Request| {
        let response = exchange(&home, request, |_| ());
        request.api.text(&response.body).unwrap_or_else(|| panic!("{}: {}", response.status, response.body))
    };
    let long = Request::long(long_tokens);
    let expected = idle(&long);
    for response in &round.long {
        assert_eq!((response.status, long.api.text(&response.body)), (200, Some(expected.clone())), "a long answer");
    }
    for (request, response) in &accepted {
        assert_eq!(request.api.text(&response.body), Some(idle(request)), "{:?}: {}", request.api, request.body);
    }
    let mut waits: Vec<Duration> = accepted.iter().filter_map(|(_, response)| response.first_text).collect();
    waits.sort_unstable();
    assert_eq!(waits.len(), accepted.len(), "each accepted answer has text");
    let at = |percent: usize| waits[(waits.len() * percent).div_ceil(100) - 1];
    println!(
        "{CLIENTS} clients: {} accepted, {} refused; long answers of {long_tokens} tokens; \
         time to the first text of a queued answer: median {:?}, p99 {:?}",
        round.long.len() + accepted.len(),
        CLIENTS - round.long.len() - accepted.len(),
        at(50),
        at(99),
    );
}

//! The app, started and driven by WebKitWebDriver (<https://www.w3.org/TR/webdriver2/>).

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::cairn::{Home, kill, send};
use crate::screen::{Screen, app_program, until};

/// How long a script of a journey may take, in milliseconds.
const SCRIPT_TIMEOUT_MS: u64 = 60_000;

/// An app whose window is driven; both end with this.
pub(crate) struct Session<'a> {
    driver: Child,
    port: u16,
    id: String,
    screen: &'a Screen,
    home: &'a Home,
}

impl<'a> Session<'a> {
    /// Starts the app, and waits for its window.
    pub(crate) fn start(screen: &'a Screen, home: &'a Home) -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|free| free.local_addr())
            .expect("loopback has free ports")
            .port();
        let mut driver = screen.at_home("WebKitWebDriver", home);
        driver.arg(format!("--port={port}")).env("TAURI_WEBVIEW_AUTOMATION", "true");
        let log = std::fs::File::create(home.folder.path().join("desktop.log")).expect("the home is writable");
        let driver = driver.stdout(Stdio::null()).stderr(log).spawn().expect("it is installed");
        let mut session = Self { driver, port, id: String::new(), screen, home };
        until("the driver answers", || exchange(port, "GET", "/status", &[], "").is_some());
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "webkitgtk:browserOptions": {"binary": app_program(), "args": []},
            "timeouts": {"script": SCRIPT_TIMEOUT_MS},
        }}});
        let answer = session.ask("POST", "/session", &wanted).unwrap_or_else(|error| panic!("no session: {error}"));
        session.id = answer["sessionId"].as_str().expect("a session has an id").to_owned();
        session
    }

    /// What a script returns.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.must("execute/sync", &json!({"script": script, "args": []}))
    }

    /// What a script calls its last argument with.
    pub(crate) fn run_async(&self, script: &str, args: &Value) -> Value {
        self.must("execute/async", &json!({"script": script, "args": args}))
    }

    /// What a command of the window answers the page.
    pub(crate) fn invoke(&self, command: &str, args: &Value) -> Result<Value, String> {
        let answer = self.run_async(
            "const [command, args, done] = arguments;
             window.__TAURI_INTERNALS__.invoke(command, args)
                 .then((answer) => done({ answer }), (error) => done({ error: String(error) }));",
            &json!([command, args]),
        );
        match answer["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer["answer"].clone()),
        }
    }

    /// Presses keys one after the other, and lets go of them in reverse. Keys without a letter have codes of WebDriver's.
    pub(crate) fn press(&self, keys: &[&str]) {
        let key = |kind: &'static str| move |key: &&str| json!({"type": kind, "value": key});
        let down = keys.iter().map(key("keyDown"));
        let actions: Vec<Value> = down.chain(keys.iter().rev().map(key("keyUp"))).collect();
        self.must("actions", &json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}));
    }

    fn must(&self, path: &str, body: &Value) -> Value {
        let path = format!("/session/{}/{path}", self.id);
        self.ask("POST", &path, body).unwrap_or_else(|error| panic!("{path} {body}: {error}"))
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let headers = [("Content-Type", "application/json; charset=utf-8")];
        let (status, said) = exchange(self.port, method, path, &headers, &body.to_string())
            .ok_or_else(|| format!("the driver does not answer: {}", self.log()))?;
        let answer: Value = serde_json::from_str(&said).map_err(|error| format!("{error}: {said:?}"))?;
        if status == 200 { Ok(answer["value"].clone()) } else { Err(format!("{status} {said}: {}", self.log())) }
    }

    /// What the app and the driver have said.
    fn log(&self) -> String {
        std::fs::read_to_string(self.home.folder.path().join("desktop.log")).unwrap_or_default()
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("what the app said: {}", self.log());
        }
        for app in self.screen.apps(self.home) {
            kill(app, "-KILL");
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// A request's status and body. Its length is counted, because the app holds the connection over which it was asked for open.
fn exchange(port: u16, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Option<(u16, String)> {
    let mut answer = BufReader::new(send(port, method, path, headers, body)?);
    let (mut status, mut length, mut line) = (None, 0, String::new());
    while answer.read_line(&mut line).ok()? > 2 {
        status = status.or_else(|| line.split(' ').nth(1)?.parse().ok());
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
        line.clear();
    }
    let mut body = vec![0; length];
    answer.read_exact(&mut body).ok()?;
    Some((status?, String::from_utf8(body).ok()?))
}

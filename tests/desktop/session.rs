//! The app, started and driven by WebKitWebDriver (<https://www.w3.org/TR/webdriver2/>). Clicks require a visible
//! element.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use serde_json::{Value, json};

use crate::cairn::{Home, kill, send};
use crate::deadline::{until, until_some};
use crate::screen::{Screen, app_program};

/// Timeout of a script, in milliseconds.
const SCRIPT_TIMEOUT_MS: u64 = 30_000;
/// Timeout of a driver request; starting the app takes the longest.
const DRIVER_TIMEOUT: Duration = Duration::from_secs(60);
/// JSON key of an element reference.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// Size of the printed end of the log, in bytes.
const LOG_TAIL_BYTES: usize = 4000;

/// Selector of the message field.
pub(crate) const COMPOSER: &str = ".composer textarea";
/// The Enter key.
pub(crate) const ENTER: &str = "\u{e007}";

/// A driven app; the app and the driver are killed when dropped.
pub(crate) struct Session<'a> {
    driver: Child,
    port: u16,
    id: String,
    screen: &'a Screen,
    home: &'a Home,
}

impl<'a> Session<'a> {
    /// Starts the app and waits for its window.
    pub(crate) fn start(screen: &'a Screen, home: &'a Home) -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|free| free.local_addr())
            .expect("loopback has free ports")
            .port();
        let mut driver = screen.at_home("WebKitWebDriver", home);
        driver.arg(format!("--port={port}")).env("TAURI_WEBVIEW_AUTOMATION", "true");
        let log = std::fs::File::create(home.folder.path().join("desktop.log")).expect("the home is writable");
        let driver = driver.stdout(Stdio::null()).stderr(log).spawn().expect("the driver is installed");
        let mut session = Self { driver, port, id: String::new(), screen, home };
        until("the driver answers", || exchange(port, "GET", "/status", "").is_some());
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "webkitgtk:browserOptions": {"binary": app_program(), "args": []},
            "timeouts": {"script": SCRIPT_TIMEOUT_MS},
        }}});
        let answer = session.ask("POST", "/session", &wanted).unwrap_or_else(|error| panic!("no session: {error}"));
        session.id = answer["sessionId"].as_str().expect("a session has an id").to_owned();
        session
    }

    /// Starts the app in a home after its first run and waits for the message field.
    pub(crate) fn open(screen: &'a Screen, home: &'a Home) -> Self {
        let session = Self::start(screen, home);
        session.see(COMPOSER);
        session
    }

    /// Runs a script and returns its value.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.must("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Runs a script and returns the value that it passes to its callback, the last argument.
    pub(crate) fn run_async(&self, script: &str, args: &Value) -> Value {
        self.must("execute/async", &json!({"script": script, "args": args}))
    }

    /// Invokes a command of the window.
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

    /// Waits until a selector matches.
    pub(crate) fn see(&self, css: &str) {
        until(css, || !self.texts(css).is_empty());
    }

    /// Returns the texts of all matching elements, in document order.
    pub(crate) fn texts(&self, css: &str) -> Vec<String> {
        let css = Value::from(css);
        let found = self.run(&format!(
            "return [...document.querySelectorAll({css})].map((node) => node.value || node.textContent.trim())"
        ));
        found.as_array().into_iter().flatten().filter_map(|text| Some(text.as_str()?.to_owned())).collect()
    }

    /// Waits until the text of a matching element contains `part`, and returns the text.
    pub(crate) fn read(&self, css: &str, part: &str) -> String {
        until_some(&format!("{part:?} in {css}"), || self.texts(css).into_iter().find(|text| text.contains(part)))
    }

    /// Clicks the matching element as soon as it is clickable.
    pub(crate) fn click(&self, css: &str) {
        self.click_on("css selector", css);
    }

    /// Clicks the button or link that contains these words.
    pub(crate) fn choose(&self, words: &str) {
        self.click_on("xpath", &format!("//*[self::button or self::a][contains(normalize-space(.), '{words}')]"));
    }

    fn click_on(&self, using: &str, selector: &str) {
        let mut last_error = String::new();
        let began = Instant::now();
        while began.elapsed() < DRIVER_TIMEOUT {
            let clicked =
                self.element(using, selector).and_then(|id| self.post(&format!("element/{id}/click"), &json!({})));
            match clicked {
                Ok(_) => return,
                // The element may still move, or be covered.
                Err(error) => last_error = error,
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("cannot click {selector}: {last_error}");
    }

    /// Replaces the text of the matching field by typing.
    pub(crate) fn write(&self, css: &str, text: &str) {
        self.see(css);
        let id = self.element("css selector", css).unwrap_or_else(|error| panic!("{css}: {error}"));
        // WebDriver's clear command fires a change event, which would save an empty value.
        self.run(&format!("document.querySelector({}).value = ''", Value::from(css)));
        self.must(&format!("element/{id}/value"), &json!({ "text": text }));
    }

    fn element(&self, using: &str, selector: &str) -> Result<String, String> {
        let found = self.post("element", &json!({"using": using, "value": selector}))?;
        Ok(found[ELEMENT].as_str().expect("an element has an id").to_owned())
    }

    /// Presses keys in order and releases them in reverse. Special keys have WebDriver codes.
    pub(crate) fn press(&self, keys: &[&str]) {
        let key = |kind: &'static str| move |key: &&str| json!({"type": kind, "value": key});
        let down = keys.iter().map(key("keyDown"));
        let actions: Vec<Value> = down.chain(keys.iter().rev().map(key("keyUp"))).collect();
        self.must("actions", &json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}));
    }

    /// Saves a screenshot of the page in cargo's temporary folder for tests.
    pub(crate) fn picture(&self, name: &str) {
        let path = format!("/session/{}/screenshot", self.id);
        let picture = self.ask("GET", &path, &Value::Null).unwrap_or_else(|error| panic!("no picture: {error}"));
        let picture = picture.as_str().and_then(|text| base64::prelude::BASE64_STANDARD.decode(text).ok());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("window");
        std::fs::create_dir_all(&folder).expect("the folder is writable");
        std::fs::write(folder.join(format!("{name}.png")), picture.expect("a picture is in base64"))
            .expect("the folder is writable");
    }

    fn must(&self, path: &str, body: &Value) -> Value {
        self.post(path, body).unwrap_or_else(|error| panic!("{path} {body}: {error}"))
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value, String> {
        self.ask("POST", &format!("/session/{}/{path}", self.id), body)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let began = Instant::now();
        let (status, response) = exchange(self.port, method, path, &body).ok_or_else(|| {
            let seconds = began.elapsed().as_secs();
            format!(
                "no response of the driver for {seconds} s. Processes:\n{}\nLog:\n{}",
                self.screen.processes(),
                self.log()
            )
        })?;
        let answer: Value = serde_json::from_str(&response).map_err(|error| format!("{error}: {response:?}"))?;
        if status == 200 { Ok(answer["value"].clone()) } else { Err(format!("{status} {response}")) }
    }

    /// Returns the end of the log of the app and the driver.
    fn log(&self) -> String {
        let log = std::fs::read(self.home.folder.path().join("desktop.log")).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL_BYTES)..]).into_owned()
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of the app: {}", self.log());
        }
        for app in self.screen.apps(self.home) {
            kill(app, "-KILL");
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Sends a request and returns the status and body. Reads by content length, because the app keeps the connection open.
fn exchange(port: u16, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let headers = [("Content-Type", "application/json; charset=utf-8")];
    let stream = send(port, method, path, &headers, body)?;
    stream.set_read_timeout(Some(DRIVER_TIMEOUT)).ok()?;
    let mut answer = BufReader::new(stream);
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

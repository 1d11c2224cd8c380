//! Journeys in the real window of the desktop app, on a screen that nobody sees (Xvfb), driven as a person would by WebKitWebDriver.
//!
//! `cargo xtask test` installs what that takes. Where it is missing, each journey says that it was skipped. One runs at a time: web
//! views are large, and a journey that waits for another's processor time proves nothing.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

#[path = "../it/cairn.rs"]
#[expect(dead_code, reason = "the journeys without a window use the rest")]
mod cairn;
#[path = "../it/pulls/published.rs"]
#[expect(dead_code, reason = "the journeys without a window use the rest")]
mod published;
mod screen;
mod session;
mod tray;

use std::process::Output;
use std::time::{Duration, Instant};

use cairn_testkit::registry::{FakeRegistry, Faults};
use serde_json::{Value, json};

use cairn::{Home, exchange, kill, text};
use published::Published;
use screen::{Screen, until};
use session::Session;

/// A home whose window stays in the tray when it is closed, as if its user had said so.
fn home() -> Home {
    let home = Home::new();
    std::fs::write(home.folder.path().join("desktop.json"), r#"{"close":"keep"}"#).expect("the home is writable");
    home
}

/// The daemon's answer to what our own programs ask.
fn app(home: &Home, method: &str, path: &str, body: &Value) -> Value {
    let bearer = home.bearer().expect("the daemon runs");
    let headers = [("Authorization", &*bearer), ("Content-Type", "application/json")];
    let (status, said) = exchange(home.port, method, path, &headers, &body.to_string()).expect("the daemon answers");
    assert!(status < 300, "{method} {path}: {status} {said}");
    serde_json::from_str(&said).unwrap_or(Value::Null)
}

/// Starts the app a second time and waits for that start's end.
fn second_start(screen: &Screen, home: &Home, words: &[&str]) -> Output {
    let began = Instant::now();
    let output = screen.app(home).args(words).output().expect("it starts");
    assert!(began.elapsed() < Duration::from_secs(30), "a second start ends soon: {}", text(&output.stderr));
    output
}

#[test]
fn the_window_reaches_the_daemon_and_nothing_else() {
    let Some(screen) = Screen::new() else { return };
    let home = home();
    let session = Session::start(&screen, &home);
    until("the page is there", || session.run("return document.querySelector('#app') !== null") == true);
    assert_eq!(session.run("return location.origin"), "tauri://localhost", "the page is the program's own");
    let server = session.invoke("server", &json!({})).expect("the daemon is started");
    assert_eq!(server["address"], format!("http://127.0.0.1:{}", home.port), "where it was told to listen");
    let status = session.run_async(
        "const [server, done] = arguments;
         fetch(server.address + '/app/status', { headers: { Authorization: 'Bearer ' + server.token } })
             .then((answer) => answer.json()).then((status) => done(status.version), (error) => done(String(error)));",
        &json!([server]),
    );
    assert_eq!(status, env!("CARGO_PKG_VERSION"), "the page speaks to the daemon by itself");

    let beyond = session.run_async(
        "const [done] = arguments;
         addEventListener('securitypolicyviolation', (event) => done(event.effectiveDirective), { once: true });
         fetch('http://192.0.2.1/').then(() => done('it was asked'), () => {});",
        &json!([]),
    );
    assert_eq!(beyond, "connect-src", "no other machine is asked");
    let ran = session.run(
        "const script = document.createElement('script'); script.textContent = 'window.ran = true';
         document.body.append(script); return window.ran === true",
    );
    assert_eq!(ran, false, "what gets into the page as text is not run");

    let check = |command: &str, args: &Value, expected: &str| match session.invoke(command, args) {
        Ok(answer) => panic!("{command} answered {answer}"),
        Err(error) => assert!(error.contains(expected), "{command}: {expected:?} is not in {error:?}"),
    };
    check("open_external", &json!({"url": "file:///etc/passwd"}), "not opened from here");
    check("update", &json!({}), "not signed");
    check("plugin:window|close", &json!({"label": "main"}), "not allowed");
    check("plugin:opener|open_path", &json!({"path": "/"}), "not allowed");
}

#[test]
fn the_page_is_not_loaded_anew_by_a_key() {
    let Some(screen) = Screen::new() else { return };
    let home = home();
    let session = Session::start(&screen, &home);
    until("the page is there", || session.run("return document.readyState") == "complete");
    session.run("window.typed = 'a draft'");
    for keys in [&["\u{e035}"][..], &["\u{e009}", "r"]] {
        session.press(keys);
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(session.run("return window.typed"), "a draft", "{keys:?} must not load it anew");
    }
    assert_eq!(session.run("location.href = 'https://example.org/'; return true"), true, "the script runs");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(
        session.run("return [location.origin, window.typed]"),
        json!(["tauri://localhost", "a draft"]),
        "it stays"
    );
}

#[test]
fn a_second_start_joins_the_first() {
    let Some(screen) = Screen::new() else { return };
    let home = home();
    let session = Session::start(&screen, &home);
    until("the page is there", || session.run("return document.readyState") == "complete");
    let daemon = home.daemon_pid();
    let output = second_start(&screen, &home, &["cairn://models/downloads"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    until("the link opens its screen", || session.run("return location.hash") == "#/models/downloads");
    assert_eq!(screen.windows().len(), 1, "there is one window: {:?}", screen.windows());
    assert_eq!(home.daemon_pid(), daemon, "and one daemon");
}

#[test]
fn a_pull_goes_on_when_the_window_is_closed() {
    let Some(screen) = Screen::new() else { return };
    let home = home();
    let registry = FakeRegistry::start(1, Faults { bytes_per_second: Some(400_000), ..Faults::default() })
        .expect("loopback has free ports");
    let model = Published::of_noise(&registry, "slow", 7, 6_000_000);
    let session = Session::start(&screen, &home);
    session.invoke("server", &json!({})).expect("the daemon is started");
    app(&home, "POST", "/app/downloads", &json!({"model": model.name, "insecure": true}));
    let download = || app(&home, "GET", "/app/downloads", &Value::Null)["downloads"][0].clone();
    until("bytes come", || download()["completed"].as_u64() > Some(0));

    until("there is a window", || screen.windows().len() == 1);
    screen.close_window();
    until("the window is closed", || screen.windows().is_empty());
    let then = download();
    assert_eq!(then["state"], "running", "{then}");
    until("more bytes come", || download()["completed"].as_u64() > then["completed"].as_u64());
    until("the tray says so", || {
        let menu = tray::labels(&screen);
        menu.iter().any(|label| label.starts_with("Downloads: 1 · ") && label.contains(" %"))
            && menu.iter().any(|label| label.starts_with("Pause ") && label.contains("slow"))
    });
    until("the model is here", || download()["state"] == "done");
    model.assert_is_in(&home);

    assert!(second_start(&screen, &home, &[]).status.success(), "it ends well");
    until("a second start shows the window again", || screen.windows().len() == 1);
}

#[test]
fn the_tray_quits_the_app_and_the_daemon() {
    let Some(screen) = Screen::new() else { return };
    let home = home();
    let session = Session::start(&screen, &home);
    session.invoke("server", &json!({})).expect("the daemon is started");
    let daemon = home.daemon_pid().expect("it wrote its file");
    until("the tray is ready", || tray::labels(&screen).contains(&"Quit (stops the server)".to_owned()));
    tray::click(&screen, "Quit (stops the server)");
    until("the app is gone", || screen.apps(&home).is_empty());
    until("the daemon is gone", || !kill(daemon, "-0"));
}

#[test]
fn a_daemon_outlives_an_app_that_is_killed() {
    let Some(screen) = Screen::new() else { return };
    let home = home();
    let session = Session::start(&screen, &home);
    session.invoke("server", &json!({})).expect("the daemon is started");
    let (daemon, apps) = (home.daemon_pid().expect("it wrote its file"), screen.apps(&home));
    assert_eq!(apps.len(), 1, "the app runs once: {apps:?}");
    assert!(kill(apps[0], "-KILL"), "it was there");
    until("the app is gone", || screen.apps(&home).is_empty());
    assert_eq!(app(&home, "GET", "/app/status", &Value::Null)["pid"], daemon, "the same daemon answers");
}

#[test]
fn without_a_screen_the_daemon_runs_and_the_app_says_why_it_does_not() {
    let Some(screen) = Screen::new() else { return };
    let check = |display: Option<&str>, expected: &str| {
        let home = home();
        let mut command = screen.app(&home);
        match display {
            Some(display) => command.env("DISPLAY", display),
            None => command.env_remove("DISPLAY"),
        };
        let output = command.output().expect("it starts");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "there is no window: {said}");
        assert!(said.contains(expected) && said.contains("cairn ui"), "{expected:?} is not in {said:?}");
        until("the daemon answers", || home.daemon_pid().is_some());
        app(&home, "GET", "/app/status", &Value::Null);
    };
    check(None, "there is no display");
    check(Some(":4711"), "the system's windows could not be used");
}

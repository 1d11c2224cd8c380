//! Downloads while the window is open, while it is closed, and after everything was killed.

use std::time::Duration;

use cairn_testkit::registry::{FakeRegistry, Faults};
use serde_json::{Value, json};

use crate::cairn::{Home, kill};
use crate::deadline::until;
use crate::homes::home;
use crate::published::Published;
use crate::session::{COMPOSER, ENTER, Session};
use crate::{app, import_chat, import_model, last_answer, open_chat, second_start, tray, with_app};

/// Size of a model that downloads slowly, in bytes.
const MODEL_BYTES: usize = 8_000_000;

/// Starts a registry with a model that downloads in about twenty seconds over several connections; returns both, and
/// the model's name with `http://`.
fn registry() -> (FakeRegistry, Published, String) {
    let faults = Faults { bytes_per_second: Some(100_000), ..Faults::default() };
    let registry = FakeRegistry::start(1, faults).expect("loopback has free ports");
    let model = Published::of_noise(&registry, "tale", 7, MODEL_BYTES);
    let name = format!("http://{}", model.name);
    (registry, model, name)
}

fn downloads(home: &Home) -> Vec<Value> {
    app(home, "GET", "/app/downloads", &Value::Null)["downloads"].as_array().cloned().unwrap_or_default()
}

fn completed(home: &Home) -> u64 {
    downloads(home).first().and_then(|download| download["completed"].as_u64()).unwrap_or_default()
}

#[test]
fn pull_continues_when_the_window_is_closed() {
    with_app(home(), |screen, home, session| {
        let (_registry, model, name) = registry();

        let link = format!("cairn://pull/{}", name.replace(':', "%3A").replace('/', "%2F"));
        assert!(second_start(screen, home, &[&link]).status.success(), "the link is handed over");
        assert_eq!(session.read(".pasted .name", "tale"), name, "the link's model is named");
        session.picture("pull-asked");
        assert!(downloads(home).is_empty(), "no download before the user confirms");
        session.click(".pasted button");
        session.read(".pasted .progress", "%");
        session.run("location.hash = '#/models/downloads'");
        session.read(".drow", "/s");
        let percent =
            || session.run("return Number(document.querySelector('.drow [role=progressbar]')?.ariaValueNow ?? 0)");
        let before = percent().as_f64();
        until("the progress bar grows", || percent().as_f64() > before);
        session.picture("downloads");

        screen.close_window("Cairn");
        until("the window is closed", || screen.windows().is_empty());
        let before = completed(home);
        assert!(before < MODEL_BYTES as u64, "the window was closed during the download");
        until("the download has more progress", || completed(home) > before);
        until("the tray shows the download", || {
            let menu = tray::labels(screen);
            menu.iter().any(|label| label.starts_with("Downloads: 1 · ") && label.contains(" %"))
                && menu.iter().any(|label| label.starts_with("Pause ") && label.contains("tale"))
        });
        until("the download is done", || downloads(home)[0]["state"] == "done");
        model.assert_is_in(home);

        assert!(second_start(screen, home, &["cairn://models/installed"]).status.success(), "the exit code is 0");
        until("a second start shows the window again", || screen.windows().len() == 1);
        session.read(".table tbody tr", "tale");
        session.picture("installed");
    });
}

/// The message bus of a test has no notification service, but the app's calls are visible on it.
#[test]
fn completed_download_notifies_unless_notifications_are_off() {
    with_app(home(), |screen, home, _session| {
        let bus_log = screen.user().join("bus-log");
        let mut listener = screen.command("dbus-monitor");
        listener.arg("--session").stdout(std::fs::File::create(&bus_log).expect("the folder is writable"));
        let mut listener = listener.spawn().expect("dbus-monitor is installed with dbus-send");
        let notifications = || std::fs::read_to_string(&bus_log).unwrap_or_default().matches("member=Notify\n").count();
        until("the listener runs", || std::fs::metadata(&bus_log).is_ok_and(|file| file.len() > 0));
        screen.close_window("Cairn");
        until("the window is closed", || screen.windows().is_empty());
        let registry = FakeRegistry::start(1, Faults::default()).expect("loopback has free ports");
        let pull = |name: &str, seed: u64| {
            let model = Published::of_noise(&registry, name, seed, 100_000);
            app(home, "POST", "/app/downloads", &json!({ "model": format!("http://{}", model.name) }));
            until("the download is done", || downloads(home).iter().all(|download| download["state"] == "done"));
        };
        pull("first", 1);
        until("the notification is sent", || notifications() == 1);
        app(home, "PATCH", "/app/settings", &json!({"ui.notify": false}));
        pull("second", 2);
        std::thread::sleep(Duration::from_secs(3));
        assert_eq!(notifications(), 1, "no second notification");
        let _ = listener.kill();
        let _ = listener.wait();
    });
}

#[test]
fn kill_keeps_the_partial_answer_and_the_download() {
    with_app(home(), |screen, home, session| {
        let (registry, model, name) = registry();
        import_model(home, "slow", &cairn_testkit::slow_llama());
        let chat = import_chat(home, "slow", &["Hello.", "Hello."]);
        open_chat(&session, &chat);
        session.write(COMPOSER, &format!("Tell me everything.{ENTER}"));
        until("the answer starts", || !last_answer(&session).is_empty());
        app(home, "POST", "/app/downloads", &json!({ "model": name }));
        until("the download has progress", || completed(home) > 0);

        let stored = || {
            let page = app(home, "GET", &format!("/app/chats/{chat}/messages"), &Value::Null);
            page["messages"]
                .as_array()
                .and_then(|all| all.last()?["content"].as_str().map(str::to_owned))
                .unwrap_or_default()
        };
        // Kill only the app: the daemon continues both. Markdown may show the begin of a text differently when it grows, so
        // the stored texts are compared.
        until("the answer is stored", || !stored().is_empty());
        let (answer, shown) = (stored(), last_answer(&session));
        let (daemon, apps) = (home.daemon_pid().expect("the daemon wrote its file"), screen.apps(home));
        kill(apps[0], "-KILL");
        until("the app exited", || screen.apps(home).is_empty());
        let before = completed(home);
        drop(session);
        until("the download has more progress", || completed(home) > before);
        let session = Session::open(screen, home);
        open_chat(&session, &chat);
        session.see("article.assistant[aria-busy='true'] .prose");
        until("the answer grows", || last_answer(&session).len() > shown.len() && stored().len() > answer.len());
        assert!(stored().starts_with(&answer), "the answer continues");
        assert_eq!(home.daemon_pid(), Some(daemon), "the daemon is the same");

        // Kill both.
        let answer = stored();
        assert!(!answer.is_empty(), "the partial answer is stored");
        let before = completed(home);
        kill(screen.apps(home)[0], "-KILL");
        kill(daemon, "-KILL");
        until("both exited", || screen.apps(home).is_empty() && !kill(daemon, "-0"));
        drop(session);
        let session = Session::open(screen, home);
        open_chat(&session, &chat);
        session.read(".broken", "Interrupted");
        assert!(stored().starts_with(&answer), "the partial answer is kept");
        assert!(!last_answer(&session).is_empty(), "the stored answer is shown");
        session.picture("cut");
        until("the download is done", || downloads(home).first().is_some_and(|download| download["state"] == "done"));
        model.assert_is_in(home);
        let sent = registry.sent_bytes(&model.large().digest.to_string());
        let again = sent.saturating_sub(MODEL_BYTES as u64);
        assert!(again < before, "the download resumes: {before} bytes were complete, {again} bytes were sent twice");
    });
}

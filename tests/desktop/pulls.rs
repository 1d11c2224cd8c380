//! Models that come while the window is open, while it is closed, and when everything was killed.

use std::time::Duration;

use cairn_testkit::registry::{FakeRegistry, Faults};
use serde_json::{Value, json};

use crate::cairn::{Home, kill};
use crate::deadline::until;
use crate::homes::home;
use crate::published::Published;
use crate::session::{COMPOSER, ENTER, Session};
use crate::{app, bring_chat, bring_model, journey, last_answer, open_chat, second_start, tray};

/// Bytes of a model that takes a while.
const MODEL_BYTES: usize = 8_000_000;

/// A registry of this machine with a model that takes some twenty seconds over several connections, and the name under which its own machine may ask for it.
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
fn a_pull_goes_on_when_the_window_is_closed() {
    journey(home(), |screen, home, session| {
        let (_registry, model, name) = registry();

        let link = format!("cairn://pull/{}", name.replace(':', "%3A").replace('/', "%2F"));
        assert!(second_start(screen, home, &[&link]).status.success(), "it hands the link over");
        assert_eq!(session.read(".pasted .name", "tale"), name, "the link's model is named");
        session.picture("pull-asked");
        assert!(downloads(home).is_empty(), "and nothing is fetched before its user says so");
        session.click(".pasted button");
        session.read(".pasted .progress", "%");
        session.run("location.hash = '#/models/downloads'");
        session.read(".drow", "/s");
        let far =
            || session.run("return Number(document.querySelector('.drow [role=progressbar]')?.ariaValueNow ?? 0)");
        let then = far().as_f64();
        until("its bar grows", || far().as_f64() > then);
        session.picture("downloads");

        screen.close_window("Cairn");
        until("the window is closed", || screen.windows().is_empty());
        let then = completed(home);
        assert!(then < MODEL_BYTES as u64, "it was closed in the middle");
        until("more bytes come", || completed(home) > then);
        until("the tray says so", || {
            let menu = tray::labels(screen);
            menu.iter().any(|label| label.starts_with("Downloads: 1 · ") && label.contains(" %"))
                && menu.iter().any(|label| label.starts_with("Pause ") && label.contains("tale"))
        });
        until("the model is here", || downloads(home)[0]["state"] == "done");
        model.assert_is_in(home);

        assert!(second_start(screen, home, &["cairn://models/installed"]).status.success(), "it ends well");
        until("a second start shows the window again", || screen.windows().len() == 1);
        session.read(".table tbody tr", "tale");
        session.picture("installed");
    });
}

/// No place for notifications is on the bus of a journey; what the app asks of one is heard there all the same.
#[test]
fn a_model_that_came_is_told_unless_nobody_wants_to_hear_of_it() {
    journey(home(), |screen, home, _session| {
        let heard = screen.user().join("heard");
        let mut listener = screen.command("dbus-monitor");
        listener.arg("--session").stdout(std::fs::File::create(&heard).expect("it is ours"));
        let mut listener = listener.spawn().expect("it comes with dbus-send");
        let told = || std::fs::read_to_string(&heard).unwrap_or_default().matches("member=Notify\n").count();
        until("it listens", || std::fs::metadata(&heard).is_ok_and(|file| file.len() > 0));
        screen.close_window("Cairn");
        until("the window is closed", || screen.windows().is_empty());
        let registry = FakeRegistry::start(1, Faults::default()).expect("loopback has free ports");
        let pull = |name: &str, seed: u64| {
            let model = Published::of_noise(&registry, name, seed, 100_000);
            app(home, "POST", "/app/downloads", &json!({ "model": format!("http://{}", model.name) }));
            until("it is here", || downloads(home).iter().all(|download| download["state"] == "done"));
        };
        pull("first", 1);
        until("it is told", || told() == 1);
        app(home, "PATCH", "/app/settings", &json!({"ui.notify": false}));
        pull("second", 2);
        std::thread::sleep(Duration::from_secs(3));
        assert_eq!(told(), 1, "nobody hears of the second");
        let _ = listener.kill();
        let _ = listener.wait();
    });
}

#[test]
fn a_kill_in_the_middle_loses_neither_an_answer_nor_a_pull() {
    journey(home(), |screen, home, session| {
        let (registry, model, name) = registry();
        bring_model(home, "slow", &cairn_testkit::slow_llama());
        let chat = bring_chat(home, "slow", &["Hello.", "Hello."]);
        open_chat(&session, &chat);
        session.write(COMPOSER, &format!("Tell me everything.{ENTER}"));
        until("it speaks", || !last_answer(&session).is_empty());
        app(home, "POST", "/app/downloads", &json!({ "model": name }));
        until("bytes come", || completed(home) > 0);

        // The app alone: the daemon goes on with both.
        let said = last_answer(&session);
        let (daemon, apps) = (home.daemon_pid().expect("it wrote its file"), screen.apps(home));
        kill(apps[0], "-KILL");
        until("the app is gone", || screen.apps(home).is_empty());
        let then = completed(home);
        drop(session);
        until("more bytes come", || completed(home) > then);
        let session = Session::open(screen, home);
        open_chat(&session, &chat);
        session.see("article.assistant[aria-busy='true'] .prose");
        until("it says more", || last_answer(&session).len() > said.len());
        assert!(last_answer(&session).starts_with(&said), "it goes on from what was said");
        assert_eq!(home.daemon_pid(), Some(daemon), "in the same daemon");

        // Both at once.
        let stored = || {
            let page = app(home, "GET", &format!("/app/chats/{chat}/messages"), &Value::Null);
            page["messages"]
                .as_array()
                .and_then(|all| all.last()?["content"].as_str().map(str::to_owned))
                .unwrap_or_default()
        };
        let said = stored();
        assert!(!said.is_empty(), "it is written down while it comes");
        let then = completed(home);
        kill(screen.apps(home)[0], "-KILL");
        kill(daemon, "-KILL");
        until("both are gone", || screen.apps(home).is_empty() && !kill(daemon, "-0"));
        drop(session);
        let session = Session::open(screen, home);
        open_chat(&session, &chat);
        session.read(".broken", "Interrupted");
        assert!(last_answer(&session).starts_with(said.trim()), "what was written down is there");
        session.picture("cut");
        until("the model is here", || downloads(home).first().is_some_and(|one| one["state"] == "done"));
        model.assert_is_in(home);
        let sent = registry.sent_bytes(&model.large().digest.to_string());
        let again = sent.saturating_sub(MODEL_BYTES as u64);
        assert!(again < then, "it went on from what was there: {then} bytes had come, {again} of them came twice");
    });
}

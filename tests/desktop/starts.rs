//! The window itself: what it reaches and what not, starting it twice, and how it and the daemon end.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cairn::{Home, kill, text};
use crate::deadline::{output, until};
use crate::homes::{home, home_with};
use crate::screen::Screen;
use crate::session::{COMPOSER, ENTER, Session};
use crate::{app, journey, quit, second_start, tray};

#[test]
fn the_window_reaches_the_daemon_and_nothing_else() {
    journey(home(), |_, home, session| {
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
    });
}

#[test]
fn the_page_is_not_loaded_anew_by_a_key() {
    journey(home(), |_, _, session| {
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
    });
}

#[test]
fn a_second_start_joins_the_first() {
    journey(home(), |screen, home, session| {
        let daemon = home.daemon_pid();
        let output = second_start(screen, home, &["cairn://models/downloads"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        until("the link opens its screen", || session.run("return location.hash") == "#/models/downloads");
        let windows = screen.windows();
        assert_eq!(windows.len(), 1, "there is one window: {windows:?}");
        assert_eq!(home.daemon_pid(), daemon, "and one daemon");
    });
}

#[test]
fn a_second_start_takes_the_place_of_a_first_that_dies() {
    journey(home(), |screen, home, _session| {
        let first = screen.apps(home)[0];
        kill(first, "-STOP");
        let mut second = screen.app(home).spawn().expect("it starts");
        until("both run", || screen.apps(home).len() == 2);
        // By now it waits for the first one's answer.
        std::thread::sleep(Duration::from_secs(3));
        kill(first, "-KILL");
        until("it has the window", || screen.windows().len() == 1 && screen.apps(home) == [second.id()]);
        quit(screen, home);
        assert!(second.wait().expect("it is ours").success(), "and ends well");
    });
}

#[test]
fn what_was_set_is_so_after_a_restart() {
    journey(home(), |screen, home, session| {
        session.run("location.hash = '#/settings/engine'");
        session.choose("Dark");
        let keep = "input[aria-label='Keep models loaded for']";
        session.write(keep, &format!("17m{ENTER}"));
        session.read(".chip", "changed");
        session.picture("settings");
        quit(screen, home);
        drop(session);

        let session = Session::open(screen, home);
        assert_eq!(session.run("return document.documentElement.dataset.theme"), "dark", "the window looks as it did");
        session.run("location.hash = '#/settings/engine'");
        session.read(keep, "17m");
    });
}

#[test]
fn the_window_asks_once_what_closing_it_does() {
    journey(home_with("welcomed = true"), |screen, home, _session| {
        assert_eq!(closing(home), "ask", "nothing was chosen");
        screen.close_window("Cairn");
        until("it asks", || screen.windows().len() == 2);
        // Who closes the question has not chosen to end anything.
        screen.close_window("Keep Cairn running?");
        until("the window is hidden", || screen.windows().is_empty());
        assert_eq!(screen.apps(home).len(), 1, "the app runs");
        until("the answer is among the settings", || closing(home) == "tray");
        assert!(second_start(screen, home, &[]).status.success(), "it ends well");
        until("a second start shows the window", || screen.windows().len() == 1);
        screen.close_window("Cairn");
        until("the window is hidden, unasked", || screen.windows().is_empty());
    });
}

/// The panel, the tray and the close question are three ways to one setting of the daemon.
#[test]
fn what_closing_does_is_a_setting_of_the_daemon() {
    journey(home(), |screen, home, session| {
        let close = |until_what: &str, windows: usize| {
            screen.close_window("Cairn");
            until(until_what, || screen.windows().len() == windows);
        };
        let show = || {
            assert!(second_start(screen, home, &[]).status.success(), "it ends well");
            until("a second start shows the window", || screen.windows().len() == 1);
        };
        let daemon = home.daemon_pid().expect("it wrote its file");
        assert!(kill(daemon, "-STOP"), "it was there");
        close("what was known last holds while the daemon does not answer", 0);
        assert!(kill(daemon, "-CONT"), "it was there");
        show();

        let row = "Closing the window keeps Cairn running";
        until("the tray is ready", || tray::labels(screen).iter().any(|label| label == row));
        tray::click(screen, row);
        until("the tray's choice is among the settings", || closing(home) == "quit");
        session.run("location.hash = '#/settings/window'");
        let choice = "select[aria-label='Closing the window']";
        session.read(choice, "quit");
        session.run(&format!(
            "const choice = document.querySelector(\"{choice}\"); choice.value = 'ask';
             choice.dispatchEvent(new Event('change', {{ bubbles: true }}));"
        ));
        until("the panel's choice is among the settings", || closing(home) == "ask");
        session.picture("settings-window");
        close("it asks at once", 2);
        screen.close_window("Keep Cairn running?");
        until("the window is hidden", || screen.windows().is_empty());
        until("the answer is among the settings", || closing(home) == "tray");

        show();
        app(home, "PATCH", "/app/settings", &json!({"ui.close": "quit"}));
        screen.close_window("Cairn");
        until("closing ends the app", || screen.apps(home).is_empty());
        until("and the daemon", || !kill(daemon, "-0"));
    });
}

#[test]
fn the_tray_puts_the_servers_address_on_the_clipboard() {
    journey(home(), |screen, home, session| {
        let row = "Copy address";
        until("the tray is ready", || tray::labels(screen).iter().any(|label| label == row));
        tray::click(screen, row);
        session.click(COMPOSER);
        let address = format!("http://127.0.0.1:{}", home.port);
        until("it can be pasted", || {
            session.press(&["\u{e009}", "v"]);
            session.texts(COMPOSER).iter().any(|text| text.contains(&address))
        });
    });
}

/// What closing the window does, as the daemon has it.
fn closing(home: &Home) -> Value {
    let table = app(home, "GET", "/app/settings", &Value::Null);
    let settings = table["settings"].as_array();
    let setting = settings.and_then(|all| all.iter().find(|setting| setting["key"] == "ui.close"));
    setting.expect("the table has it")["value"].clone()
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
        let output = output(&mut command);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "there is no window: {said}");
        assert!(said.contains(expected) && said.contains("cairn ui"), "{expected:?} is not in {said:?}");
        until("the daemon answers", || home.daemon_pid().is_some());
        app(&home, "GET", "/app/status", &Value::Null);
    };
    check(None, "there is no display");
    check(Some(":4711"), "the system's windows could not be used");
}

//! The window: its network access, second starts, settings, and how it and the daemon end.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cairn::{Home, kill, text};
use crate::deadline::{output, until};
use crate::homes::{home, home_with};
use crate::screen::Screen;
use crate::session::{COMPOSER, ENTER, Session};
use crate::{app, quit, second_start, tray, with_app};

#[test]
fn window_connects_only_to_the_daemon() {
    with_app(home(), |_, home, session| {
        assert_eq!(session.run("return location.origin"), "tauri://localhost", "the page is embedded in the program");
        let server = session.invoke("server", &json!({})).expect("the daemon is started");
        assert_eq!(server["address"], format!("http://127.0.0.1:{}", home.port), "the configured address");
        let status = session.run_async(
            "const [server, done] = arguments;
         fetch(server.address + '/app/status', { headers: { Authorization: 'Bearer ' + server.token } })
             .then((answer) => answer.json()).then((status) => done(status.version), (error) => done(String(error)));",
            &json!([server]),
        );
        assert_eq!(status, env!("CARGO_PKG_VERSION"), "the page can reach the daemon");

        let directive = session.run_async(
            "const [done] = arguments;
         addEventListener('securitypolicyviolation', (event) => done(event.effectiveDirective), { once: true });
         fetch('http://192.0.2.1/').then(() => done('request sent'), () => {});",
            &json!([]),
        );
        assert_eq!(directive, "connect-src", "requests to other machines are blocked");
        let ran = session.run(
            "const script = document.createElement('script'); script.textContent = 'window.ran = true';
         document.body.append(script); return window.ran === true",
        );
        assert_eq!(ran, false, "injected scripts do not run");

        let check = |command: &str, args: &Value, expected: &str| match session.invoke(command, args) {
            Ok(answer) => panic!("{command} answered {answer}"),
            Err(error) => assert!(error.contains(expected), "{command}: {expected:?} is not in {error:?}"),
        };
        check("open_external", &json!({"url": "file:///etc/passwd"}), "is not allowed");
        check("update", &json!({}), "no update key");
        check("plugin:window|close", &json!({"label": "main"}), "not allowed");
        check("plugin:opener|open_path", &json!({"path": "/"}), "not allowed");
    });
}

#[test]
fn reload_keys_do_not_reload_the_page() {
    with_app(home(), |_, _, session| {
        session.run("window.typed = 'a draft'");
        for keys in [&["\u{e035}"][..], &["\u{e009}", "r"]] {
            session.press(keys);
            std::thread::sleep(Duration::from_millis(500));
            assert_eq!(session.run("return window.typed"), "a draft", "{keys:?} must not reload the page");
        }
        assert_eq!(session.run("location.href = 'https://example.org/'; return true"), true, "the script runs");
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(
            session.run("return [location.origin, window.typed]"),
            json!(["tauri://localhost", "a draft"]),
            "the page does not navigate"
        );
    });
}

#[test]
fn second_start_activates_first_instance_and_exits() {
    with_app(home(), |screen, home, session| {
        let daemon = home.daemon_pid();
        let output = second_start(screen, home, &["cairn://models/downloads"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        until("the link opens its screen", || session.run("return location.hash") == "#/models/downloads");
        let windows = screen.windows();
        assert_eq!(windows.len(), 1, "one window: {windows:?}");
        assert_eq!(home.daemon_pid(), daemon, "one daemon");
    });
}

#[test]
fn second_start_takes_over_when_the_first_is_killed() {
    with_app(home(), |screen, home, _session| {
        let first = screen.apps(home)[0];
        kill(first, "-STOP");
        let mut second = screen.app(home).spawn().expect("the command starts");
        until("both run", || screen.apps(home).len() == 2);
        // The second process now waits for the first one's answer.
        std::thread::sleep(Duration::from_secs(3));
        kill(first, "-KILL");
        until("the second process has the window", || {
            screen.windows().len() == 1 && screen.apps(home) == [second.id()]
        });
        quit(screen, home);
        assert!(second.wait().expect("the process exits").success(), "the exit code is 0");
    });
}

#[test]
fn settings_survive_an_app_restart() {
    with_app(home(), |screen, home, session| {
        session.run("location.hash = '#/settings/engine'");
        session.choose("Dark");
        let keep = "input[aria-label='Keep models loaded for']";
        // The unit is minutes, as in the default.
        session.write(keep, &format!("17{ENTER}"));
        session.read(".chip", "changed");
        session.picture("settings");
        quit(screen, home);
        drop(session);

        let session = Session::open(screen, home);
        assert_eq!(session.run("return document.documentElement.dataset.theme"), "dark", "the theme is restored");
        session.run("location.hash = '#/settings/engine'");
        session.read(keep, "17");
        session.read("select[aria-label^='Keep models loaded for']", "m");
    });
}

#[test]
fn window_asks_once_about_closing() {
    with_app(home_with("welcomed = true"), |screen, home, _session| {
        assert_eq!(close_action(home), "ask", "no choice yet");
        screen.close_window("Cairn");
        until("the question is shown", || screen.windows().len() == 2);
        // Closing the question keeps the app running.
        screen.close_window("Keep Cairn running?");
        until("the window is hidden", || screen.windows().is_empty());
        assert_eq!(screen.apps(home).len(), 1, "the app runs");
        until("the answer is stored in the settings", || close_action(home) == "tray");
        assert!(second_start(screen, home, &[]).status.success(), "the exit code is 0");
        until("a second start shows the window", || screen.windows().len() == 1);
        screen.close_window("Cairn");
        until("the window is hidden without a question", || screen.windows().is_empty());
    });
}

/// The panel, the tray and the close question change the same setting of the daemon.
#[test]
fn close_action_is_a_daemon_setting() {
    with_app(home(), |screen, home, session| {
        let close = |expected: &str, windows: usize| {
            screen.close_window("Cairn");
            until(expected, || screen.windows().len() == windows);
        };
        let show = || {
            assert!(second_start(screen, home, &[]).status.success(), "the exit code is 0");
            until("a second start shows the window", || screen.windows().len() == 1);
        };
        let daemon = home.daemon_pid().expect("the daemon wrote its file");
        assert!(kill(daemon, "-STOP"), "the process exists");
        close("the last value applies while the daemon does not answer", 0);
        assert!(kill(daemon, "-CONT"), "the process exists");
        show();

        let row = "Closing the window keeps Cairn running";
        until("the tray is ready", || tray::labels(screen).iter().any(|label| label == row));
        tray::click(screen, row);
        until("the tray's choice is stored in the settings", || close_action(home) == "quit");
        session.run("location.hash = '#/settings/window'");
        let choice = "select[aria-label='Closing the window']";
        session.read(choice, "quit");
        session.run(&format!(
            "const choice = document.querySelector(\"{choice}\"); choice.value = 'ask';
             choice.dispatchEvent(new Event('change', {{ bubbles: true }}));"
        ));
        until("the panel's choice is stored in the settings", || close_action(home) == "ask");
        session.picture("settings-window");
        close("the question is shown", 2);
        screen.close_window("Keep Cairn running?");
        until("the window is hidden", || screen.windows().is_empty());
        until("the answer is stored in the settings", || close_action(home) == "tray");

        show();
        app(home, "PATCH", "/app/settings", &json!({"ui.close": "quit"}));
        screen.close_window("Cairn");
        until("closing ends the app", || screen.apps(home).is_empty());
        until("the daemon exited", || !kill(daemon, "-0"));
    });
}

#[test]
fn tray_copies_the_server_address() {
    with_app(home(), |screen, home, session| {
        let row = "Copy address";
        until("the tray is ready", || tray::labels(screen).iter().any(|label| label == row));
        tray::click(screen, row);
        session.click(COMPOSER);
        let address = format!("http://127.0.0.1:{}", home.port);
        until("the address can be pasted", || {
            session.press(&["\u{e009}", "v"]);
            session.texts(COMPOSER).iter().any(|text| text.contains(&address))
        });
    });
}

/// Returns the daemon's setting of the close action.
fn close_action(home: &Home) -> Value {
    let table = app(home, "GET", "/app/settings", &Value::Null);
    let settings = table["settings"].as_array();
    let setting = settings.and_then(|all| all.iter().find(|setting| setting["key"] == "ui.close"));
    setting.expect("the setting exists")["value"].clone()
}

#[test]
fn daemon_outlives_a_killed_app() {
    let Some(screen) = Screen::new() else { return };
    let home = home();
    let session = Session::start(&screen, &home);
    session.invoke("server", &json!({})).expect("the daemon is started");
    let (daemon, apps) = (home.daemon_pid().expect("the daemon wrote its file"), screen.apps(&home));
    assert_eq!(apps.len(), 1, "the app runs once: {apps:?}");
    assert!(kill(apps[0], "-KILL"), "the process exists");
    until("the app exited", || screen.apps(&home).is_empty());
    assert_eq!(app(&home, "GET", "/app/status", &Value::Null)["pid"], daemon, "the daemon is the same");
}

#[test]
fn app_without_display_starts_the_daemon_and_fails_with_a_hint() {
    let Some(screen) = Screen::new() else { return };
    let check = |display: Option<&str>, expected: &str| {
        let home = home();
        let mut command = screen.app(&home);
        match display {
            Some(display) => command.env("DISPLAY", display),
            None => command.env_remove("DISPLAY"),
        };
        let output = output(&mut command);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "the app fails without a display: {stderr}");
        assert!(stderr.contains(expected) && stderr.contains("cairn ui"), "{expected:?} is not in {stderr:?}");
        until("the daemon answers", || home.daemon_pid().is_some());
        app(&home, "GET", "/app/status", &Value::Null);
    };
    check(None, "there is no display");
    check(Some(":4711"), "cannot use the system's windows");
}

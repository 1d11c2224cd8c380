//! Chats in the window: the first run, streaming, stopping and regenerating answers, and links in answers.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::Value;

use crate::deadline::until;
use crate::homes::{home, new_home};
use crate::screen::Screen;
use crate::session::{COMPOSER, ENTER, Session};
use crate::{app, import_chat, import_model, last_answer, open_chat, second_start, with_app};

/// Selector of a complete answer.
const ANSWERED: &str = "article.assistant[aria-busy='false'] .msg-foot";

/// Script that records each length of a streamed answer.
const WATCH: &str = "
    window.lengths = [];
    new MutationObserver(() => {
        const length = document.querySelector('article.assistant.latest .prose')?.textContent.length ?? 0;
        if (length > (window.lengths.at(-1) ?? 0)) window.lengths.push(length);
    }).observe(document.body, { subtree: true, childList: true, characterData: true });";

#[test]
fn first_run_with_built_in_model_gives_an_answer() {
    let Some(screen) = Screen::new() else { return };
    let home = new_home();
    let session = Session::start(&screen, &home);
    session.see(".welcome .choice");
    session.picture("first-run");
    session.choose("Chat with Pebble");
    session.see(COMPOSER);
    session.read(".model-picker", "pebble");
    session.write(COMPOSER, &format!("How do I pull a model?{ENTER}"));
    session.see(ANSWERED);
    let [first] = &session.texts("article.assistant .prose")[..] else { panic!("expected one answer") };
    assert!(first.len() > 20, "the answer is not empty: {first:?}");
    session.read(".msg-foot", "tok/s");
    session.picture("answer");

    session.click("article.assistant [data-regenerate]");
    session.read(".version-switch", "2 / 2");
    session.see(ANSWERED);
    let chats = app(&home, "GET", "/app/chats", &Value::Null);
    assert_eq!(chats["chats"].as_array().map(Vec::len), Some(1), "one chat: {chats}");
}

#[test]
fn running_answer_is_stopped_by_button() {
    with_app(home(), |_, home, session| {
        import_model(home, "slow", &cairn_testkit::slow_llama());
        open_chat(&session, &import_chat(home, "slow", &["Hello.", "Hello."]));
        session.run(WATCH);
        session.write(COMPOSER, &format!("Tell me everything.{ENTER}"));
        until("at least five deltas", || session.run("return window.lengths.length").as_u64() >= Some(5));
        session.click(".send.stop");
        session.read(".broken", "Stopped.");
        session.see(".send:not(.stop)");
        let answer = last_answer(&session);
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(last_answer(&session), answer, "the stopped answer does not grow");
    });
}

#[test]
fn answer_link_opens_in_the_browser_only_when_clicked() {
    let Some(screen) = Screen::new() else { return };
    let home = home();
    // A replacement for the user's browser.
    let (programs, opened) = (screen.user().join("programs"), screen.user().join("opened"));
    std::fs::create_dir(&programs).expect("the folder is writable");
    let browser = programs.join("xdg-open");
    std::fs::write(&browser, format!("#!/bin/sh\necho \"$1\" >> '{}'\n", opened.display()))
        .expect("the folder is writable");
    std::fs::set_permissions(&browser, PermissionsExt::from_mode(0o700)).expect("the folder is writable");
    let home = home.with("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display()));
    let session = Session::open(&screen, &home);
    let content = "See [the page](https://example.org/cairn?a=1), [a file](file:///etc/passwd), [the app](cairn://pull/x) and \
                  [a script](javascript:window.ran=1).";
    open_chat(&session, &import_chat(&home, "pebble", &["What is it?", content]));
    session.read("article.assistant .prose", "See the page");
    assert_eq!(session.texts("article.assistant .prose a"), ["the page"], "only web addresses are links");
    assert!(!opened.exists(), "nothing is opened without a click");
    session.choose("the page");
    until("the link is opened", || opened.exists());
    let opened = std::fs::read_to_string(&opened).expect("the file exists");
    assert_eq!(opened.trim(), "https://example.org/cairn?a=1", "opened in the browser");
    assert_eq!(session.run("return location.origin"), "tauri://localhost", "the window does not navigate");
}

/// A deep link opens its screen even during the first run, which is postponed.
#[test]
fn deep_link_opens_its_screen() {
    let Some(screen) = Screen::new() else { return };
    let home = new_home();
    let session = Session::start(&screen, &home);
    session.see(".welcome .choice");
    assert!(second_start(&screen, &home, &["cairn://hardware"]).status.success(), "the link is handed over");
    session.see(".facts");
    assert_eq!(session.run("return location.hash"), "#/hardware", "the link's screen is open");
    session.picture("hardware");
}

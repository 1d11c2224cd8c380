//! Chats in the window: the first words ever, an answer as it comes, stopping it, another one, and what a link in one may do.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::Value;

use crate::deadline::until;
use crate::homes::{home, new_home};
use crate::screen::Screen;
use crate::session::{COMPOSER, ENTER, Session};
use crate::{app, bring_chat, bring_model, journey, last_answer, open_chat, second_start};

/// An answer that is complete.
const ANSWERED: &str = "article.assistant[aria-busy='false'] .msg-foot";

/// Notes each length that an answer has while it comes.
const WATCH: &str = "
    window.lengths = [];
    new MutationObserver(() => {
        const length = document.querySelector('article.assistant.latest .prose')?.textContent.length ?? 0;
        if (length > (window.lengths.at(-1) ?? 0)) window.lengths.push(length);
    }).observe(document.body, { subtree: true, childList: true, characterData: true });";

#[test]
fn a_first_start_leads_to_an_answer() {
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
    let [first] = &session.texts("article.assistant .prose")[..] else { panic!("there is one answer") };
    assert!(first.len() > 20, "an answer: {first:?}");
    session.read(".msg-foot", "tok/s");
    session.picture("answer");

    session.click("article.assistant [data-regenerate]");
    session.read(".version-switch", "2 / 2");
    session.see(ANSWERED);
    let chats = app(&home, "GET", "/app/chats", &Value::Null);
    assert_eq!(chats["chats"].as_array().map(Vec::len), Some(1), "in the same chat: {chats}");
}

#[test]
fn an_answer_is_stopped() {
    journey(home(), |_, home, session| {
        bring_model(home, "slow", &cairn_testkit::slow_llama());
        open_chat(&session, &bring_chat(home, "slow", &["Hello.", "Hello."]));
        session.run(WATCH);
        session.write(COMPOSER, &format!("Tell me everything.{ENTER}"));
        until("it comes bit by bit", || session.run("return window.lengths.length").as_u64() >= Some(5));
        session.click(".send.stop");
        session.read(".broken", "Stopped.");
        session.see(".send:not(.stop)");
        let said = last_answer(&session);
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(last_answer(&session), said, "nothing more comes");
    });
}

#[test]
fn a_link_in_an_answer_opens_outside_and_only_when_it_is_clicked() {
    let Some(screen) = Screen::new() else { return };
    let home = home();
    // Stands for the user's browser.
    let (programs, opened) = (screen.user().join("programs"), screen.user().join("opened"));
    std::fs::create_dir(&programs).expect("it is ours");
    let browser = programs.join("xdg-open");
    std::fs::write(&browser, format!("#!/bin/sh\necho \"$1\" >> '{}'\n", opened.display())).expect("it is ours");
    std::fs::set_permissions(&browser, PermissionsExt::from_mode(0o700)).expect("it is ours");
    let home = home.with("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display()));
    let session = Session::open(&screen, &home);
    let said = "See [the page](https://example.org/cairn?a=1), [a file](file:///etc/passwd), [the app](cairn://pull/x) and \
                  [a script](javascript:window.ran=1).";
    open_chat(&session, &bring_chat(&home, "pebble", &["What is it?", said]));
    session.read("article.assistant .prose", "See the page");
    assert_eq!(session.texts("article.assistant .prose a"), ["the page"], "what leads elsewhere is no link");
    assert!(!opened.exists(), "nothing is opened by itself");
    session.choose("the page");
    until("it is opened", || opened.exists());
    let opened = std::fs::read_to_string(&opened).expect("it is there");
    assert_eq!(opened.trim(), "https://example.org/cairn?a=1", "in the browser");
    assert_eq!(session.run("return location.origin"), "tauri://localhost", "and not here");
}

/// A link that is followed from outside opens its screen, also over the first run, whose time is later.
#[test]
fn a_link_from_outside_opens_its_screen() {
    let Some(screen) = Screen::new() else { return };
    let home = new_home();
    let session = Session::start(&screen, &home);
    session.see(".welcome .choice");
    assert!(second_start(&screen, &home, &["cairn://hardware"]).status.success(), "it hands the link over");
    session.see(".facts");
    assert_eq!(session.run("return location.hash"), "#/hardware", "which opens its screen");
    session.picture("hardware");
}

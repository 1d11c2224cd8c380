//! What the cache keeps, as it is seen and set in the window: a budget that is obeyed, and a long chat that is not read again after a
//! restart.

use serde_json::Value;

use crate::deadline::until;
use crate::homes::home;
use crate::session::{COMPOSER, ENTER, Session};
use crate::{app, bring_chat, bring_model, journey, open_chat, quit};

/// Bytes that RAM may hold in the end, as they are typed. The least besides is more than a model as small as the one here fills.
const BUDGET: (&str, u64) = ("0 B", 0);

#[test]
fn a_budget_is_obeyed_and_a_long_chat_comes_from_the_disk() {
    // A model as small as this one computes its prompts about as quickly as they are read.
    let tiered = home().with("OLLAMA_KV_TIERING", "1").with("CAIRN_KV_WEIGH", "0");
    journey(tiered, |screen, home, session| {
        let tier = |name: &str, what: &str| {
            let status = app(home, "GET", "/app/cache", &Value::Null);
            let tier = status["tiers"].as_array().and_then(|all| all.iter().find(|tier| tier["tier"] == name));
            tier.and_then(|tier| tier[what].as_u64()).unwrap_or_default()
        };
        bring_model(home, "m", &cairn_testkit::tiny_llama());
        let long: Vec<String> = (0..8).map(|turn| format!("{turn} {}", "stone on stone ".repeat(12))).collect();
        let long: Vec<&str> = long.iter().map(String::as_str).collect();
        let chat = bring_chat(home, "m", &long);
        open_chat(&session, &chat);
        session.write(COMPOSER, &format!("And then?{ENTER}"));
        until("it is answered", || session.texts("article.assistant[aria-busy='false'].latest .msg-foot").len() == 1);
        // What a model had read goes to the tiers when it leaves memory.
        app(home, "POST", "/api/generate", &serde_json::json!({"model": "m", "keep_alive": 0, "stream": false}));
        until("RAM has it", || tier("ram", "used_bytes") > BUDGET.1);
        until("the disk has it", || tier("ssd", "used_bytes") > BUDGET.1 && tier("ssd", "queued_bytes") == 0);

        session.run("location.hash = '#/cache'");
        session.see(".tier-row");
        session.picture("cache-before");
        session.write("input[type=text][aria-label='RAM']", &format!("{}{ENTER}", BUDGET.0));
        until("the budget holds", || tier("ram", "budget_bytes") == BUDGET.1);
        until("and is obeyed", || tier("ram", "used_bytes") <= BUDGET.1);
        session.picture("cache-after");
        quit(screen, home);
        drop(session);

        let session = Session::open(screen, home);
        assert_eq!(tier("ram", "budget_bytes"), BUDGET.1, "the budget is the same after a restart");
        open_chat(&session, &chat);
        session.write(COMPOSER, &format!("And after that?{ENTER}"));
        let badge = session.read(".resume.ssd summary, .resume.ram summary", "Reused ");
        assert!(badge.contains("from SSD") || badge.contains("from RAM"), "it says where it came from: {badge:?}");
        session.picture("resumed");
    });
}

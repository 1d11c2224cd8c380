//! The cache in the window: a changed budget applies, and a long chat is restored after a restart.

use serde_json::Value;

use crate::deadline::until;
use crate::homes::home;
use crate::session::{COMPOSER, ENTER, Session};
use crate::{app, import_chat, import_model, open_chat, quit, with_app};

/// New RAM budget, as typed and in bytes. The next smallest budget exceeds the rows of this small model.
const BUDGET: (&str, u64) = ("0 B", 0);

#[test]
fn ram_budget_applies_and_long_chat_is_restored_from_disk() {
    // Recomputing a model this small is as fast as restoring, so the comparison is switched off.
    let tiered = home().with("OLLAMA_KV_TIERING", "1").with("CAIRN_KV_WEIGH", "0");
    with_app(tiered, |screen, home, session| {
        let tier = |name: &str, field: &str| {
            let status = app(home, "GET", "/app/cache", &Value::Null);
            let tier = status["tiers"].as_array().and_then(|all| all.iter().find(|tier| tier["tier"] == name));
            tier.and_then(|tier| tier[field].as_u64()).unwrap_or_default()
        };
        import_model(home, "m", &cairn_testkit::tiny_llama());
        let long: Vec<String> = (0..8).map(|turn| format!("{turn} {}", "stone on stone ".repeat(12))).collect();
        let long: Vec<&str> = long.iter().map(String::as_str).collect();
        let chat = import_chat(home, "m", &long);
        // The model has random weights: a long answer would fill the context, and the next prompt would begin at a later message.
        let short = serde_json::json!({"options": {"num_predict": 16}});
        app(home, "PATCH", &format!("/app/chats/{chat}"), &short);
        open_chat(&session, &chat);
        ask(&session, "And then?");
        // Unloading flushes the model's rows to the tiers.
        app(home, "POST", "/api/generate", &serde_json::json!({"model": "m", "keep_alive": 0, "stream": false}));
        until("RAM has chunks", || tier("ram", "used_bytes") > BUDGET.1);
        until("the disk has all chunks", || tier("ssd", "used_bytes") > BUDGET.1 && tier("ssd", "queued_bytes") == 0);

        session.run("location.hash = '#/cache'");
        session.see(".tier-row");
        session.picture("cache-before");
        session.click("button[role=switch][aria-label='Advanced']");
        session.write("input[type=text][aria-label='RAM']", &format!("{}{ENTER}", BUDGET.0));
        until("the budget is set", || tier("ram", "budget_bytes") == BUDGET.1);
        until("chunks are evicted", || tier("ram", "used_bytes") <= BUDGET.1);
        session.picture("cache-after");
        quit(screen, home);
        drop(session);

        let session = Session::open(screen, home);
        assert_eq!(tier("ram", "budget_bytes"), BUDGET.1, "the budget is the same after a restart");
        open_chat(&session, &chat);
        ask(&session, "And after that?");
        // A model this small saves no noticeable time, so the foot of the answer has the tokens, and no badge names the tier.
        session.read("article.assistant.latest .msg-foot", "prompt tokens from the cache");
        let messages = app(home, "GET", &format!("/app/chats/{chat}/messages"), &Value::Null);
        let usage =
            &messages["messages"].as_array().and_then(|all| all.last()).expect("the chat has messages")["usage"];
        let restored = ["ram_tokens", "ssd_tokens"].map(|field| usage[field].as_u64().unwrap_or_default());
        assert!(restored.iter().sum::<u64>() > 0, "tokens are restored from a tier: {usage}");
        session.picture("resumed");
    });
}

/// Asks a question and waits for its whole answer. The message before the question is a complete answer too.
fn ask(session: &Session<'_>, question: &str) {
    session.write(COMPOSER, &format!("{question}{ENTER}"));
    let answered = format!(
        "const [asked, answer] = [...document.querySelectorAll('article.message')].slice(-2);
         return asked.querySelector('.bubble')?.textContent === {question}
             && answer.matches('.assistant[aria-busy=\"false\"]') && answer.querySelector('.msg-foot') !== null",
        question = Value::from(question)
    );
    until("the answer is complete", || session.run(&answered) == true);
}

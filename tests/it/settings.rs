//! Settings in `config.toml`: edited manually and through the daemon, across restarts.

use serde_json::{Value, json};

use crate::cairn::{Home, exchange};

/// Sends a request with the daemon token; returns the status and the response.
fn own(home: &Home, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let bearer = home.bearer().expect("the daemon wrote its token");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (status, body) =
        exchange(home.port, method, path, &[("Authorization", &bearer)], &body).expect("the daemon answers");
    (status, serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}")))
}

fn row(table: &Value, key: &str) -> Value {
    let rows = table["settings"].as_array().expect("a list");
    rows.iter().find(|row| row["key"] == key).expect("the setting exists").clone()
}

#[test]
fn settings_survive_a_restart_and_manual_edits_apply() {
    let home = Home::new().with("OLLAMA_KV_TIERING", "1");
    let file = home.folder.path().join("config.toml");
    std::fs::write(&file, "# by hand\n[cache]\nram = 100_000_000 # tight\n\n[odd]\nkey = 1\n").expect("writable");
    let daemon = home.serve();
    assert!(daemon.log().contains("unknown setting odd.key"), "an unknown key is logged: {}", daemon.log());
    let (_, cache) = own(&home, "GET", "/app/cache", &Value::Null);
    assert_eq!(cache["tiers"][0]["budget_bytes"], 100_000_000, "the manual value applies: {cache}");

    let change = json!({ "cache.ram": 200_000_000, "engine.parallel": 3, "ui.language": "zh-CN" });
    let (status, table) = own(&home, "PATCH", "/app/settings", &change);
    assert_eq!(status, 200, "{table}");
    assert_eq!(
        (&row(&table, "cache.ram")["restart"], &row(&table, "engine.parallel")["restart"]),
        (&json!(false), &json!(true))
    );
    let (_, cache) = own(&home, "GET", "/app/cache", &Value::Null);
    assert_eq!(cache["tiers"][0]["budget_bytes"], 200_000_000, "the new value applies at once: {cache}");
    let text = std::fs::read_to_string(&file).expect("the file exists");
    assert!(text.starts_with("# by hand\n[cache]\nram = 200000000 # tight\n"), "comments are preserved: {text}");
    drop(daemon);

    let _daemon = home.serve();
    let (_, table) = own(&home, "GET", "/app/settings", &Value::Null);
    assert_eq!(row(&table, "engine.parallel")["value"], 3, "the setting is restored");
    assert_eq!(row(&table, "ui.language")["value"], "zh-CN", "so is a setting of the interface");
    assert!(!table["restart"].as_bool().expect("a switch"), "no change is pending");
    assert_eq!(row(&table, "server.host")["origin"], "environment", "the environment overrides the file");
}

#[test]
fn flag_overrides_the_environment() {
    let home = Home::new().with("OLLAMA_NUM_PARALLEL", "4");
    let mut child = home.command(&["serve", "--set", "engine.parallel=2"]).spawn().expect("cairn starts");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while home.bearer().is_none() {
        assert!(std::time::Instant::now() < deadline, "timeout: the daemon does not start");
        std::thread::sleep(std::time::Duration::from_millis(30));
    }
    let (_, table) = own(&home, "GET", "/app/settings", &Value::Null);
    let parallel = row(&table, "engine.parallel");
    assert_eq!((&parallel["value"], &parallel["origin"]), (&json!(2), &json!("flag")), "{parallel}");
    let (status, refused) = own(&home, "PATCH", "/app/settings", &json!({ "engine.parallel": 1 }));
    assert!(status == 400 && refused["wrong"][0]["key"] == "engine.parallel", "{refused}");
    child.kill().expect("the daemon runs");
    child.wait().expect("the process exits");
}

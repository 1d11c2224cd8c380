//! API keys: `cairn key`, and clients on other machines.

use serde_json::{Value, json};

use crate::cairn::{Home, exchange, refused, succeeded};
use crate::clients::script;
use crate::nearby::own_address;

fn listed(home: &Home) -> Value {
    serde_json::from_str(&succeeded(&home.run(&["key", "list", "--json"]))).expect("valid JSON")
}

#[test]
fn key_command_creates_lists_and_revokes_keys() {
    let home = Home::new();
    let daemon = home.serve();
    assert!(succeeded(&home.run(&["key", "list"])).contains("no API keys"));
    let phone = succeeded(&home.run(&["key", "create", "phone"]));
    assert!(phone.starts_with("cairn_") && phone.trim().len() == 70, "{phone}");
    let both = ["key", "create", "both", "--scope", "models,chat", "--json"];
    let both: Value = serde_json::from_str(&succeeded(&home.run(&both))).expect("valid JSON");
    assert!(both["key"].as_str().is_some_and(|key| key.starts_with("cairn_")), "{both}");
    refused(&home.run(&["key", "create", "phone"]), "already exists");
    let invalid = home.run(&["key", "create", "other", "--scope", "root"]);
    assert!(crate::cairn::text(&invalid.stderr).contains("possible values: chat, models, metrics, admin"));

    let keys = listed(&home);
    let scopes: Vec<_> = keys["keys"].as_array().expect("a list").iter().map(|key| &key["scopes"]).collect();
    assert_eq!(scopes, [&json!(["chat", "models"]), &json!(["chat"])], "{keys}");
    assert!(keys["keys"][1].get("last_used_at").is_none(), "never used: {keys}");
    let tags = exchange(home.port, "GET", "/api/tags", &[("x-api-key", phone.trim())], "").expect("a response");
    assert_eq!(tags.0, 200);
    assert!(listed(&home)["keys"][1]["last_used_at"].is_string(), "used");
    let table = succeeded(&home.run(&["key", "list"]));
    assert!(table.contains("chat, models") && table.contains("never") && table.contains("LAST USED"), "{table}");

    succeeded(&home.run(&["stop", "--daemon"]));
    drop(daemon);
    let _daemon = home.serve();
    assert!(listed(&home)["keys"][1]["last_used_at"].is_string(), "the time of use survives a restart");
    let left = succeeded(&home.run(&["key", "revoke", "phone", "--json"]));
    let left: Value = serde_json::from_str(&left).expect("valid JSON");
    assert_eq!(left["keys"].as_array().map(Vec::len), Some(1), "{left}");
    refused(&home.run(&["key", "revoke", "phone"]), "no API key is named");
}

/// The packages `openai` and `anthropic`, and `cairn`, from an address that counts as another machine.
#[test]
fn client_packages_and_commands_use_keys_from_another_machine() {
    let Some(address) = own_address() else {
        println!("skipped: this machine has no address in a network");
        return;
    };
    let home = Home::new();
    let reachable = format!("0.0.0.0:{}", home.port);
    let home = home.with("OLLAMA_HOST", reachable).with("CAIRN_REQUIRE_KEY", "all");
    let _daemon = home.serve();
    let host = match address {
        std::net::IpAddr::V4(ip) => format!("{ip}:{}", home.port),
        std::net::IpAddr::V6(ip) => format!("[{ip}]:{}", home.port),
    };
    let key =
        |name: &str, scope: &str| succeeded(&home.run(&["key", "create", name, "--scope", scope])).trim().to_owned();
    let (chat, models, revoked) = (key("chat", "chat"), key("models", "models"), key("revoked", "chat"));
    succeeded(&home.run(&["key", "revoke", "revoked"]));
    let report = script("keys.py", &[&format!("http://{host}"), &chat, &models, &revoked]);
    println!("{report:#}");
    for package in ["openai", "anthropic"] {
        let report = &report[package];
        assert_eq!(report["chat"], json!(true), "{package}: an answer");
        assert_eq!(report["models"], json!(["PermissionDeniedError", 403]), "{package}: a key of another scope");
        assert_eq!(report["revoked"], json!(["AuthenticationError", 401]), "{package}: a revoked key");
        assert_eq!(report["unknown"], json!(["AuthenticationError", 401]), "{package}: any text");
    }

    let remote = |key: &str, words: &[&str]| {
        let mut command = home.command(words);
        command.env("OLLAMA_HOST", &host);
        match key.is_empty() {
            true => command.env_remove("CAIRN_API_KEY"),
            false => command.env("CAIRN_API_KEY", key),
        };
        command.output().expect("cairn starts")
    };
    assert!(succeeded(&remote(&models, &["list"])).contains("pebble"), "a key for models lists them");
    succeeded(&remote(&models, &["cp", "pebble", "copied"]));
    refused(&remote(&chat, &["rm", "copied"]), "needs an API key for models");
    refused(&remote("", &["list"]), "needs an API key for chat or models");
    refused(&remote(&revoked, &["list"]), "was revoked");
    succeeded(&remote(&models, &["rm", "copied"]));

    let bearer = home.bearer().expect("a running daemon writes its token");
    let log = exchange(home.port, "GET", "/app/server", &[("Authorization", &bearer)], "").expect("a response").1;
    let log: Value = serde_json::from_str(&log).expect("valid JSON");
    let requests = log["requests"].as_array().expect("a list");
    for name in ["chat", "models"] {
        assert!(requests.iter().any(|request| request["key"] == name), "the log names the key {name}: {log}");
    }
}

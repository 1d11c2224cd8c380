//! Tests of `/app/settings` and `/app/cache/test`.

use cairn_wire::ErrorCode;
use cairn_wire::app::{
    CacheTested, Setting, SettingApplies, SettingKind, SettingOrigin, SettingValue, SettingsRefused, SettingsResponse,
};

use super::*;

/// Sends a request with the token and returns the status and the decoded body.
async fn authorized<T: serde::de::DeserializeOwned>(daemon: &Daemon, method: &str, path: &str, json: &str) -> (u16, T) {
    let reply = daemon.authorized(method, path, json).await;
    let (head, body) = reply.split_once('\n').unwrap();
    (head[..3].parse().unwrap(), serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {reply}")))
}

async fn table(daemon: &Daemon) -> SettingsResponse {
    let (status, table) = authorized(daemon, "GET", "/app/settings", "").await;
    assert_eq!(status, 200, "GET /app/settings");
    table
}

fn row<'a>(table: &'a SettingsResponse, key: &str) -> &'a Setting {
    table.settings.iter().find(|row| row.key == key).unwrap_or_else(|| panic!("{key} is missing"))
}

#[tokio::test]
async fn table_has_value_and_origin_of_each_setting() {
    let daemon = Daemon::with(&[("OLLAMA_NUM_PARALLEL", "5")]);
    let table = table(&daemon).await;
    assert!(table.path.ends_with("config.toml") && table.problem.is_none() && !table.restart, "{table:?}");
    let parallel = row(&table, "engine.parallel");
    let expected = Setting {
        key: "engine.parallel".into(),
        group: "engine".into(),
        kind: SettingKind::Number,
        value: Some(SettingValue::Number(5)),
        default: Some(SettingValue::Number(8)),
        default_about: "8".into(),
        origin: SettingOrigin::Environment,
        origin_name: Some("OLLAMA_NUM_PARALLEL".into()),
        env: Some("OLLAMA_NUM_PARALLEL".into()),
        flag: Some("--set engine.parallel".into()),
        choices: None,
        unit: None,
        applies: SettingApplies::Restart,
        restart: false,
        about: "Parallel requests per model".into(),
    };
    assert_eq!(*parallel, expected, "a setting with an environment override");
    let encrypt = row(&table, "cache.encrypt");
    assert_eq!(encrypt.value, Some(SettingValue::Text("remote".into())), "the default value");
    assert_eq!(encrypt.choices.as_ref().map(Vec::len), Some(3), "{encrypt:?}");
    let theme = row(&table, "ui.theme");
    assert!(theme.env.is_none() && theme.flag.is_none() && theme.applies == SettingApplies::Now, "{theme:?}");
    assert!(
        table.settings.iter().all(|row| row.key != "NO_COLOR" && !row.key.is_empty()),
        "only settings of the config file"
    );
}

#[tokio::test]
async fn change_is_written_and_returned() {
    let daemon = Daemon::start();
    let change = r#"{"ui.theme":"dark","engine.parallel":3,"downloads.limit":2000000,"sharing.share":true}"#;
    let (status, table): (_, SettingsResponse) = authorized(&daemon, "PATCH", "/app/settings", change).await;
    assert_eq!(status, 200, "{table:?}");
    assert!(table.restart && row(&table, "engine.parallel").restart, "a change that needs a restart");
    assert!(!row(&table, "downloads.limit").restart, "a change that applies at once");
    let downloads = daemon.authorized("GET", "/app/downloads", "").await;
    assert!(downloads.contains(r#""limit_bytes_per_second":2000000"#), "the limit applies at once: {downloads}");
    let text = std::fs::read_to_string(daemon.folder.path().join("config.toml")).unwrap();
    for part in ["[ui]", "theme = \"dark\"", "parallel = 3", "limit = 2000000", "share = true"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let (_, table): (_, SettingsResponse) =
        authorized(&daemon, "PATCH", "/app/settings", r#"{"engine.parallel":null}"#).await;
    let parallel = row(&table, "engine.parallel");
    assert!(!parallel.restart && parallel.origin == SettingOrigin::Default, "back to the default: {parallel:?}");
}

#[tokio::test]
async fn invalid_change_is_rejected_with_reason_per_key() {
    let daemon = Daemon::with(&[("OLLAMA_MAX_QUEUE", "9")]);
    let change = r#"{"ui.theme":"dark","engine.max_queue":1,"nowhere.x":true,"cache.ttl":"soon"}"#;
    let (status, refused): (_, SettingsRefused) = authorized(&daemon, "PATCH", "/app/settings", change).await;
    assert_eq!(status, 400, "{refused:?}");
    let keys: Vec<&str> = refused.wrong.iter().map(|wrong| &*wrong.key).collect();
    assert_eq!(keys, ["engine.max_queue", "nowhere.x", "cache.ttl"], "{refused:?}");
    assert!(
        !refused.error.error.contains('\n') && refused.error.error.contains("OLLAMA_MAX_QUEUE"),
        "{}",
        refused.error.error
    );
    let codes: Vec<_> = refused.wrong.iter().map(|wrong| wrong.error.code).collect();
    let expected = [ErrorCode::SettingOverridden, ErrorCode::SettingUnknown, ErrorCode::SettingInvalid];
    assert_eq!(codes, expected.map(Some), "{refused:?}");
    assert!(!daemon.folder.path().join("config.toml").exists(), "nothing was written");
    assert_eq!(row(&table(&daemon).await, "ui.theme").origin, SettingOrigin::Default, "no change is applied");
    let reply = daemon.authorized("PATCH", "/app/settings", r#"{"ui.theme":[1]}"#).await;
    assert!(reply.starts_with("400 "), "a list is not a valid value: {reply}");
}

#[tokio::test]
async fn cache_test_reports_usable_and_unusable_places() {
    let daemon = Daemon::start();
    let share = tempfile::tempdir().unwrap();
    let request = serde_json::json!({ "folder": share.path().join("kv"), "remote": share.path() }).to_string();
    let (status, tested): (_, CacheTested) = authorized(&daemon, "POST", "/app/cache/test", &request).await;
    let (folder, remote) = (tested.folder.unwrap(), tested.remote.unwrap());
    assert!(status == 200 && folder.works && remote.works, "{folder:?} {remote:?}");
    assert!(!share.path().join("kv").exists(), "the test leaves no folder");
    let request = serde_json::json!({ "folder": "/proc/kv", "remote": "ftp://x" }).to_string();
    let (_, tested): (_, CacheTested) = authorized(&daemon, "POST", "/app/cache/test", &request).await;
    for place in [tested.folder.unwrap(), tested.remote.unwrap()] {
        assert!(!place.works && place.reason.is_some(), "{place:?}");
    }
}

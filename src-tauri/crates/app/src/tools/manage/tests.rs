//! Tests of managing tools.

use std::path::Path;

use super::*;
use crate::app::App;
use crate::clock::Clock;
use crate::settings::{Env, Places, Settings, System};

fn tools(home: &Path) -> Tools {
    let env = Env::of([("CAIRN_HOME", &*home.to_string_lossy()), ("OLLAMA_KV_TIERING", "0")]);
    let settings = Settings::load(&env, &Places::of(&env, System::Xdg).expect("folders"));
    App::for_test(settings, Clock::from_fn(|| std::time::SystemTime::UNIX_EPOCH)).tools().clone()
}

fn server(name: &str, command: &str) -> ServerConfig {
    let endpoint = Endpoint::Stdio { command: command.to_owned(), args: Vec::new(), env: [].into() };
    ServerConfig { name: name.to_owned(), endpoint }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_added_stored_and_removed() {
    let home = tempfile::tempdir().unwrap();
    let first = tools(home.path());
    assert!(!first.is_any_enabled(), "nothing is on at first");
    first.add(server("a", "one"), true).await.unwrap();
    assert!(matches!(first.add(server("a", "two"), true).await, Err(Error::Taken(_))));
    assert!(matches!(first.add(server("web", "two"), true).await, Err(Error::Reserved(_))));
    let imported = first.import(r#"{"mcpServers":{"b":{"command":"x","disabled":true},"a":{"command":"y"}}}"#).await;
    assert!(matches!(imported, Err(Error::Taken(_))), "all or none");
    assert_eq!(first.import(r#"{"mcpServers":{"b":{"command":"x","disabled":true}}}"#).await.unwrap(), ["b"]);
    first.set_pages(true).await.unwrap();

    let again = tools(home.path()).status();
    let names: Vec<(&str, bool)> = again.servers.iter().map(|server| (&*server.name, server.is_enabled)).collect();
    assert_eq!((names, again.has_pages), (vec![("a", true), ("b", false)], true));
    first.remove("a").await.unwrap();
    assert!(matches!(first.remove("a").await, Err(Error::NotFound(_))));
    assert!(matches!(first.list("b").await, Err(Error::Off(_))));
    assert!(matches!(first.list("a").await, Err(Error::NotFound(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn folder_is_offered_with_its_permissions() {
    let home = tempfile::tempdir().unwrap();
    let notes = home.path().join("notes");
    std::fs::create_dir(&notes).unwrap();
    std::fs::write(notes.join("a.txt"), "hello").unwrap();
    let tools = tools(home.path());
    assert!(tools.toolbox().await.unwrap().tools().is_empty());
    assert!(matches!(tools.set_folder(Some(home.path().join("missing"))).await, Err(Error::Folder(_))));
    tools.set_folder(Some(notes.clone())).await.unwrap();
    tools.set_permission(FILES, "read_file", Permission::Always).await.unwrap();
    tools.set_permission(FILES, "list_folder", Permission::Never).await.unwrap();
    let missing = tools.set_permission(FILES, "write_file", Permission::Always).await;
    assert!(matches!(missing, Err(Error::NoTool { .. })));
    let toolbox = tools.toolbox().await.unwrap();
    let offered: Vec<(&str, Permission)> =
        toolbox.tools().iter().map(|tool| (&*tool.tool.name, tool.permission)).collect();
    assert_eq!(offered, [("read_file", Permission::Always)]);
    let function = toolbox.tools()[0].function.clone();
    let arguments = serde_json::json!({ "path": "a.txt" }).as_object().unwrap().clone();
    assert_eq!(toolbox.call(&function, arguments).await.text, "hello");

    let other = home.path().join("other");
    std::fs::create_dir(&other).unwrap();
    tools.set_folder(Some(other)).await.unwrap();
    let listed = tools.list(FILES).await.unwrap();
    assert!(listed.tools.iter().all(|tool| tool.permission == Permission::Ask), "permissions were for another folder");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_fails_does_not_prevent_answers() {
    let home = tempfile::tempdir().unwrap();
    let tools = tools(home.path());
    tools.add(server("broken", "/no/such/program"), true).await.unwrap();
    let toolbox = tools.toolbox().await.unwrap();
    assert!(toolbox.tools().is_empty());
    assert_eq!(toolbox.failed.len(), 1);
    assert_eq!(toolbox.failed[0].origin, "broken");
}

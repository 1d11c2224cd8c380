//! Tests of managing servers of tools: statuses, codes, secrets and permissions.

use serde_json::{Value, json};

use super::*;

impl Daemon {
    /// Sends a request and returns its status and JSON body.
    async fn tools(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply = self.authorized(method, path, &body).await;
        let (head, body) = reply.split_once('\n').expect("a status and a body");
        let status = head.split_whitespace().next().unwrap_or_default();
        (status.parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
    }
}

#[tokio::test]
async fn servers_are_added_changed_and_removed_and_secrets_stay() {
    let daemon = Daemon::start();
    let (status, tools) = daemon.tools("GET", "/app/tools", Value::Null).await;
    assert_eq!((status, tools), (200, json!({"servers": [], "web": false, "folder": null})), "nothing is on");
    let program =
        json!({"name": "notes", "command": "/nowhere/notes", "args": ["--all"], "variables": {"TOKEN": "secret"}});
    let (status, tools) = daemon.tools("POST", "/app/tools/servers", program.clone()).await;
    let row = json!({"name": "notes", "command": "/nowhere/notes", "args": ["--all"], "variables": ["TOKEN"],
        "enabled": true, "running": false});
    assert_eq!((status, &tools["servers"][0]), (200, &row), "a value of a variable is not sent back");
    let far = json!({"name": "far", "url": "https://example.com/mcp?key=secret", "headers": {"X-Key": "secret"}});
    let (status, tools) = daemon.tools("POST", "/app/tools/servers", far).await;
    let row = json!({"name": "far", "url": "https://example.com/mcp", "headers": ["X-Key"], "enabled": true, "running": false});
    assert_eq!((status, &tools["servers"][0]), (200, &row), "neither a header nor a query is sent back");
    let (status, tools) = daemon.tools("PATCH", "/app/tools/servers/far", json!({"enabled": false})).await;
    assert_eq!((status, &tools["servers"][0]["enabled"]), (200, &json!(false)), "{tools}");
    let (status, tools) = daemon.tools("DELETE", "/app/tools/servers/far", Value::Null).await;
    assert_eq!((status, tools["servers"].as_array().map(Vec::len)), (200, Some(1)), "{tools}");
    let text = json!({"mcpServers": {"more": {"command": "/nowhere/more", "env": {"A": "secret"}}}}).to_string();
    let (status, added) = daemon.tools("POST", "/app/tools/import", json!({"text": text})).await;
    assert_eq!((status, &added["names"]), (200, &json!(["more"])), "{added}");
    assert!(!added.to_string().contains("secret"), "{added}");
}

#[tokio::test]
async fn invalid_requests_have_codes() {
    let daemon = Daemon::start();
    let check = async |method: &str, path: &str, request: Value, status: u16, code: &str| {
        let (found, body) = daemon.tools(method, path, request.clone()).await;
        assert_eq!((found, body["code"].as_str()), (status, Some(code)), "{method} {path} {request}: {body}");
    };
    let servers = "/app/tools/servers";
    check("POST", servers, json!({"name": "a b", "command": "x"}), 400, "tool_server_invalid").await;
    check("POST", servers, json!({"name": "a", "command": ""}), 400, "tool_server_invalid").await;
    check("POST", servers, json!({"name": "a", "url": "ftp://x"}), 400, "tool_server_invalid").await;
    check("POST", servers, json!({"name": "a"}), 400, "invalid_request").await;
    check("POST", servers, json!({"name": "a", "command": "x", "url": "http://x"}), 400, "invalid_request").await;
    check("POST", servers, json!({"name": "web", "command": "x"}), 409, "tool_server_name_taken").await;
    check("POST", "/app/tools/import", json!({"text": "{"}), 400, "tool_server_invalid").await;
    check("PATCH", "/app/tools/servers/none", json!({"enabled": true}), 404, "tool_server_not_found").await;
    check("DELETE", "/app/tools/servers/none", Value::Null, 404, "tool_server_not_found").await;
    check("PATCH", "/app/tools", json!({"folder": "/nowhere/at/all"}), 400, "tool_folder_unreadable").await;
    check("GET", "/app/tools/origins/none", Value::Null, 404, "tool_server_not_found").await;
    check("GET", "/app/tools/origins/web", Value::Null, 409, "tool_server_off").await;
    let program = json!({"name": "gone", "command": "/nowhere/gone"});
    assert_eq!(daemon.tools("POST", servers, program.clone()).await.0, 200);
    check("POST", servers, program, 409, "tool_server_name_taken").await;
    check("GET", "/app/tools/origins/gone", Value::Null, 502, "tool_server_failed").await;
}

#[cfg(unix)]
#[tokio::test]
async fn tools_of_a_folder_have_permissions() {
    let daemon = Daemon::start();
    let folder = tempfile::tempdir().unwrap();
    let (status, tools) = daemon.tools("PATCH", "/app/tools", json!({"folder": folder.path(), "web": true})).await;
    assert_eq!((status, &tools["web"], tools["folder"].as_str()), (200, &json!(true), folder.path().to_str()));
    let permission = async || {
        let (status, list) = daemon.tools("GET", "/app/tools/origins/files-of-folder", Value::Null).await;
        assert_eq!(status, 200, "{list}");
        let tools = list["tools"].as_array().unwrap().iter();
        let read = tools.into_iter().find(|tool| tool["name"] == "read_file").unwrap();
        assert_eq!(read["arguments"]["type"], "object", "{read}");
        read["permission"].as_str().unwrap().to_owned()
    };
    assert_eq!(permission().await, "ask");
    let permit = async |tool: &str, permission: &str| {
        let request = json!({"origin": "files-of-folder", "tool": tool, "permission": permission});
        daemon.tools("PUT", "/app/tools/permission", request).await
    };
    assert_eq!(permit("read_file", "always").await.0, 204);
    assert_eq!(permission().await, "always");
    let (status, body) = permit("write_file", "always").await;
    assert_eq!((status, &body["code"]), (404, &json!("tool_not_found")), "{body}");
    let (_, tools) = daemon.tools("PATCH", "/app/tools", json!({"folder": null})).await;
    assert_eq!(
        (&tools["folder"], &tools["web"]),
        (&Value::Null, &json!(true)),
        "an absent value is unchanged: {tools}"
    );
}

#[tokio::test]
async fn no_other_machine_manages_tools() {
    let daemon = Daemon::start();
    let program = r#"{"name":"notes","command":"/nowhere/notes"}"#;
    let reply = daemon.post_from([192, 168, 0, 9], "/app/tools/servers", program).await;
    assert!(reply.starts_with("403"), "{reply}");
    assert_eq!(daemon.tools("GET", "/app/tools", Value::Null).await.1["servers"], json!([]));
}

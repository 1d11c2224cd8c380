//! An MCP server for tests. Its argument selects a mistake.
//!
//! The server reads one request per line and uses no library of the protocol.

use std::io::{BufRead, StdoutLock, Write};
use std::process::Command;

use serde_json::{Value, json};

/// Writes a message. The client may have closed the pipe.
fn send(out: &mut StdoutLock<'_>, message: &Value) {
    send_line(out, &message.to_string());
}

fn send_line(out: &mut StdoutLock<'_>, line: &str) {
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Writes the tools one by one, because all of them would need a gigabyte here.
fn send_million_tools(out: &mut StdoutLock<'_>, id: &Value) {
    let mut write = || -> std::io::Result<()> {
        write!(out, "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"tools\":[")?;
        (0..1_000_000).try_for_each(|number| write!(out, "{},", tool(&format!("t{number}"))))?;
        writeln!(out, "{}]}}}}", tool("last"))
    };
    if write().is_err() {
        std::process::exit(0);
    }
}

fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "description": format!("Tool {name}"), "inputSchema": { "type": "object", "properties": {} } })
}

fn tools(mode: &str) -> Value {
    match mode {
        "many-tools" => json!({ "tools": (0..5000).map(|i| tool(&format!("t{i}"))).collect::<Vec<_>>() }),
        "huge-schema" => {
            let mut large = tool("large");
            large["inputSchema"]["description"] = json!("x".repeat(100_000));
            json!({ "tools": [large, tool("echo")] })
        }
        "deep-schema" => {
            let mut deep = tool("deep");
            deep["inputSchema"] = (0..100).fold(json!({}), |inner, _| json!({ "a": inner }));
            json!({ "tools": [deep, tool("echo")] })
        }
        "wrong-types" => json!({ "tools": [{ "name": 1, "inputSchema": "x" }] }),
        "pages" => json!({ "tools": [tool("again")], "nextCursor": "more" }),
        _ => json!({ "tools": [tool("echo"), tool("fail"), tool("env")] }),
    }
}

/// Answers a call. Returns `None` if there is no response.
fn call(mode: &str, params: &Value, out: &mut StdoutLock<'_>) -> Option<Value> {
    let notification =
        json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "x" } });
    match mode {
        "hang" => return None,
        "die" => {
            eprintln!("secret file not found");
            std::process::exit(3);
        }
        "flood" => loop {
            send(out, &notification);
        },
        "flood-requests" => loop {
            send(out, &json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
        },
        "flood-line" => loop {
            let _ = out.write_all(&[b'x'; 65536]);
        },
        "garbage" => {
            for line in
                ["", "not JSON", "[]", "{\"jsonrpc\":\"2.0\"}", "{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":1}", "\u{0}"]
            {
                send_line(out, line);
            }
        }
        "requests" => {
            for (id, method) in ["sampling/createMessage", "roots/list", "elicitation/create", "x/y"].iter().enumerate()
            {
                let params = json!({ "messages": [], "maxTokens": 1, "message": "Your password?", "requestedSchema": { "type": "object", "properties": {} } });
                send(out, &json!({ "jsonrpc": "2.0", "id": 100 + id, "method": method, "params": params }));
            }
        }
        _ => {}
    }
    Some(match params["name"].as_str() {
        Some("echo") => text(&params["arguments"].to_string()),
        Some("fail") => json!({ "content": [{ "type": "text", "text": "no such file" }], "isError": true }),
        Some("env") => {
            let names: Vec<String> = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
            text(&names.join(" "))
        }
        Some("pid") => text(&std::process::id().to_string()),
        Some("large") => text(&"x".repeat(1 << 20)),
        _ => return None,
    })
}

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    match &*mode {
        "die-start" => {
            eprintln!("cannot read the configuration");
            std::process::exit(2);
        }
        "not-a-server" => println!("Usage: fake [options]"),
        "stderr" => drop(std::thread::spawn(|| {
            loop {
                eprint!("noise without end ");
            }
        })),
        // A program that has the pipes of the server open, and survives it.
        "child" => {
            let started = Command::new("sh").args(["-c", "sleep 600 & echo child $! >&2"]).status();
            assert!(started.is_ok_and(|status| status.success()), "the shell starts a program");
        }
        _ => {}
    }
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let request: Value = serde_json::from_str(&line).expect("requests are JSON");
        let Some(id) = request.get("id").filter(|_| request.get("method").is_some()) else { continue };
        let result = match request["method"].as_str() {
            Some("initialize") if mode == "hang-start" => continue,
            Some("initialize") => json!({
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "fake", "version": "1" },
            }),
            Some("tools/list") if mode == "million-tools" => {
                send_million_tools(&mut out, id);
                continue;
            }
            Some("tools/list") => tools(&mode),
            Some("tools/call") => match call(&mode, &request["params"], &mut out) {
                Some(result) => result,
                None if mode == "hang" || request["params"]["name"] == "hang" => continue,
                None => {
                    let error = json!({ "code": -32602, "message": "unknown\ntool" });
                    send(&mut out, &json!({ "jsonrpc": "2.0", "id": id, "error": error }));
                    continue;
                }
            },
            _ => json!({}),
        };
        let is_call = request["method"] == "tools/call";
        let id = match &*mode {
            "wrong-ids" if is_call => json!("another"),
            _ => id.clone(),
        };
        let result = if mode == "wrong-result" && is_call { json!({ "content": "text" }) } else { result };
        send(&mut out, &json!({ "jsonrpc": "2.0", "id": id, "result": result }));
        if mode == "twice" && is_call {
            send(&mut out, &json!({ "jsonrpc": "2.0", "id": id, "result": text("a second response") }));
        }
    }
}

//! Secrets in logs: with the most detailed log of all crates, no file of the logs has a secret of the user or of a client.

use std::fs;
use std::path::Path;

use cairn_testkit::registry::{FakeRegistry, Faults};
use serde_json::{Value, json};

use crate::cairn::{Daemon, Home, exchange, find, refused, succeeded, text};

/// Secrets with their names, collected while they are used.
#[derive(Default)]
struct Secrets(Vec<(&'static str, String)>);

impl Secrets {
    fn add(&mut self, name: &'static str, secret: &str) -> String {
        assert!(secret.len() >= 6, "{name}: {secret:?} is too short to be found for certain");
        self.0.push((name, secret.to_owned()));
        secret.to_owned()
    }

    /// Adds the contents of files that only this user may read.
    fn add_key_files(&mut self, home: &Path) {
        for (name, file) in [("registry key", "id_ed25519"), ("cache secret", "kv-secret"), ("cache key", "kv-key")] {
            let Some(bytes) = find(home, file).and_then(|path| fs::read(path).ok()) else { continue };
            match std::str::from_utf8(&bytes) {
                Ok(lines) => {
                    let longest = lines.lines().max_by_key(|line| line.len()).unwrap_or_default();
                    self.add(name, longest);
                }
                Err(_) => {
                    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                    self.add(name, &hex);
                }
            }
        }
    }

    fn check(&self, logs: &[String]) {
        for (name, secret) in &self.0 {
            for log in logs {
                if let Some(at) = log.find(secret.as_str()) {
                    let line = log[..at].rsplit('\n').next().unwrap_or_default();
                    panic!("the log has the secret {name:?}: {line}{secret}");
                }
            }
        }
    }
}

/// Reads the daemon's standard error and all files named `*.log` of a home.
fn logs(folder: &Path, logs: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            self::logs(&path, logs);
        } else if path.extension().is_some_and(|extension| extension == "log") {
            logs.push(text(&fs::read(&path).expect("the log is readable")));
        }
    }
}

/// Uses a session of a page, an API key and a client's key.
fn use_local_secrets(home: &Home, daemon: &Daemon<'_>, secrets: &mut Secrets) {
    let bearer = home.bearer().expect("a running daemon writes its token");
    secrets.add("daemon token", bearer.strip_prefix("Bearer ").expect("a bearer token"));
    let url = succeeded(&home.run(&["ui", "--no-open"]));
    let ticket = secrets.add("ticket", url.trim().split_once("#t=").expect("a ticket").1);
    let session = daemon.post("/app/session", &json!({"ticket": ticket})).expect("a response");
    let session: Value = serde_json::from_str(&session).expect("valid JSON");
    let session = secrets.add("session token", session["token"].as_str().expect("a token"));
    let ask = |method: &str, path: &str, authorization: &str, body: &str| {
        let authorization = format!("Bearer {authorization}");
        exchange(home.port, method, path, &[("Authorization", &authorization)], body).expect("a response")
    };
    assert_eq!(ask("GET", "/app/server", &session, "").0, 200);
    let key = succeeded(&home.run(&["key", "create", "grafana", "--scope", "metrics"]));
    let key = secrets.add("API key", key.trim());
    assert_eq!(ask("GET", "/metrics", &key, "").0, 200);
    assert_eq!(ask("GET", "/app/server", &key, "").0, 403, "also a refused key");
    refused(&home.run(&["key", "create", &key, "--scope", "metrics"]), "not a valid name");
    succeeded(&home.run(&["key", "revoke", &key]));
    refused(&home.run(&["key", "revoke", &key]), "no API key is named");
    for scope in ["chat", "models", "admin"] {
        let key = succeeded(&home.run(&["key", "create", scope, "--scope", scope]));
        let key = secrets.add("key of a client of the network", key.trim());
        secrets.add("digest of a key", &cairn_store::Digest::of(key.as_bytes()).hex());
        for header in ["Authorization", "x-api-key"] {
            let value = if header == "Authorization" { format!("Bearer {key}") } else { key.clone() };
            let headers = [(header, value.as_str()), ("X-Forwarded-For", "192.0.2.9")];
            for path in ["/api/chat", "/v1/chat/completions", "/v1/messages", "/api/copy", "/app/load"] {
                exchange(home.port, "POST", path, &headers, "{}").expect("a response");
            }
        }
        succeeded(&home.run(&["key", "revoke", scope]));
        let headers = [("x-api-key", key.as_str()), ("X-Forwarded-For", "192.0.2.9")];
        let (status, refusal) = exchange(home.port, "POST", "/api/chat", &headers, "{}").expect("a response");
        assert!(status == 401 && !refusal.contains(&key), "a revoked key: {refusal}");
    }

    let client_key = secrets.add("key of a client", "client-key-7d1f");
    let prompt = secrets.add("prompt", "prompt-secret-51");
    let body = json!({"model": "m", "prompt": prompt, "stream": false, "options": {"num_predict": 2}});
    assert_eq!(ask("POST", "/api/generate", &client_key, &body.to_string()).0, 200);
    let malformed = secrets.add("malformed body", "malformed-secret-52");
    let body = format!(r#"{{"model":"m","prompt":"{malformed}","stream":"{malformed}"}}"#);
    assert_eq!(ask("POST", "/api/generate", &client_key, &body).0, 400);
    let query = secrets.add("query", "query-secret-53");
    assert_eq!(ask("GET", &format!("/app/chats/search?q={query}"), &session, "").0, 200);

    let chat = ask("POST", "/app/chats", &session, r#"{"model":"m"}"#).1;
    let chat: Value = serde_json::from_str(&chat).expect("valid JSON");
    let question = secrets.add("message", "message-secret-54");
    let path = format!("/app/chats/{}/messages", chat["id"].as_str().expect("an id"));
    let (status, answer) = ask("POST", &path, &session, &json!({"content": question}).to_string());
    assert_eq!(status, 200, "{answer}");
}

/// Uses a login, a signed address, a password in a URL, a proxy and a join code.
fn use_remote_secrets(home: &Home, registry: &FakeRegistry, secrets: &mut Secrets) {
    let host = registry.host();
    let password = secrets.add("password", "password-secret-61");
    secrets.add("encoded password", "dTpwYXNzd29yZC1zZWNyZXQtNjE");
    let login = ["login", &*format!("http://{host}"), "--username", "u"];
    succeeded(&home.run_with_input(&login, &password));
    secrets.add("token of the registry", "registry-token-1");
    secrets.add("signature of the address", "signature-1");
    succeeded(&home.run(&["pull", &crate::pulls::tiny(registry, "x", 3), "--insecure"]));
    assert!(registry.requests().iter().any(|seen| seen.at_storage), "the signed address was used");

    let in_url = secrets.add("password in a URL", "url-secret-62");
    assert!(!home.run(&["pull", &format!("http://u:{in_url}@{host}/library/x"), "--insecure"]).status.success());
    secrets.add("password of the proxy", "proxy-secret-63");
    secrets.add("encoded password of the proxy", "dTpwcm94eS1zZWNyZXQtNjM");
    assert!(!home.run(&["pull", "http://registry.invalid/library/x", "--insecure"]).status.success());

    let invitation: Value = serde_json::from_str(&succeeded(&home.run(&["mirror", "serve", "--json"]))).expect("JSON");
    secrets.add("own join code", invitation["code"].as_str().expect("a code"));
    let code = secrets.add("join code", "AAAAA-BBBBB-CCCCC-DDDDD");
    refused(&home.run(&["mirror", "join", &host, &code]), "");
}

#[test]
fn trace_log_has_no_secret() {
    let registry = FakeRegistry::start(1, Faults { sign_in: true, redirect: true, ..Faults::default() })
        .expect("loopback has free ports");
    let proxy = FakeRegistry::start(2, Faults::default()).expect("loopback has free ports");
    let mut secrets = Secrets::default();
    let home = Home::new()
        .with("CAIRN_LOG", "trace,mio=off")
        .with("CAIRN_PROXY", format!("http://u:proxy-secret-63@{}", proxy.host()))
        .with("NO_PROXY", "127.0.0.1")
        .with("OLLAMA_KV_TIERING", "1")
        .with("CAIRN_KV_ENCRYPT", "1")
        .with("OLLAMA_KV_TIER_REMOTE", "s3://bucket/prefixes")
        .with("AWS_ACCESS_KEY_ID", secrets.add("access key", "AKIASECRET64"))
        .with("AWS_SECRET_ACCESS_KEY", secrets.add("secret access key", "aws-secret-65"))
        .with("AWS_SESSION_TOKEN", secrets.add("session token of the bucket", "aws-session-66"))
        .with("AWS_REGION", "us-east-1")
        .with("AWS_ENDPOINT_URL", format!("http://{}", proxy.host()));
    let daemon = home.serve();
    let file = home.folder.path().join("tiny.gguf");
    cairn_testkit::write_file(&cairn_testkit::tiny_llama(), &file).expect("the home is writable");
    succeeded(&home.run(&["import", &file.to_string_lossy(), "m"]));
    use_local_secrets(&home, &daemon, &mut secrets);
    use_remote_secrets(&home, &registry, &mut secrets);
    succeeded(&home.run(&["stop", "--daemon"]));
    drop(daemon);
    secrets.add_key_files(home.folder.path());

    assert!(proxy.requests().iter().any(|seen| seen.request.target.contains("prefixes")), "the bucket was used");
    let mut found = Vec::new();
    logs(home.folder.path(), &mut found);
    assert!(found.len() >= 2 && found.iter().any(|log| log.contains("TRACE hyper")), "{} logs", found.len());
    let names: Vec<_> = secrets.0.iter().map(|(name, _)| *name).collect();
    assert!(names.len() >= 20, "secrets that were used: {names:?}");
    secrets.check(&found);
}

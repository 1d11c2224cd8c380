//! Tests of `/app/logins`.

use cairn_testkit::registry::{FakeRegistry, Faults};

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_is_stored_and_its_password_never_returned() {
    let daemon = Daemon::start();
    let registry = FakeRegistry::start(1, Faults { sign_in: true, ..Faults::default() }).unwrap();
    let host = registry.host();
    let login = format!(r#"{{"registry":"http://{host}","user":"me","password":"secret-word"}}"#);
    let reply = daemon.authorized("POST", "/app/logins", &login).await;
    let json = "200 application/json; charset=utf-8\n";
    assert_eq!(reply, format!("{json}{{\"registry\":\"{host}\",\"user\":\"me\"}}"), "the login was tested and stored");
    let reply = daemon.authorized("GET", "/app/logins", "").await;
    assert_eq!(reply, format!("{json}{{\"logins\":[{{\"registry\":\"{host}\",\"user\":\"me\"}}]}}"), "no password");

    let check = async |path: &str, body: &str, status: &str, part: &str| {
        let reply = daemon.authorized("POST", path, body).await;
        assert!(reply.starts_with(status) && reply.contains(part), "{path} {body}: {reply}");
        assert!(!reply.contains("secret"), "{reply}");
    };
    let body = |registry: &str, user: &str| {
        serde_json::json!({"registry": registry, "user": user, "password": "secret-word"}).to_string()
    };
    check("/app/logins", &body(&host, "a:b"), "400", "must not contain a colon").await;
    check("/app/logins", &body(&host, ""), "400", "must not be empty").await;
    check("/app/logins", &body("http://192.0.2.1", "me"), "400", "insecure protocol http").await;
    check("/app/logins", &body("http://u:secret@r", "me"), "400", "must not contain a user or a password").await;
    check("/app/logins", &body("http://127.0.0.1:9", "me"), "500", "nothing was kept").await;
    check("/app/logins/forget", &format!(r#"{{"registry":"{host}"}}"#), "200", "[]").await;
    check("/app/logins/forget", &format!(r#"{{"registry":"{host}"}}"#), "404", "there is no login").await;

    let reply = daemon.post("/app/logins", &login).await;
    assert!(reply.starts_with("401"), "requests need the token: {reply}");
}

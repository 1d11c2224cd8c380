//! Names and passwords for registries, as raw bodies.

use cairn_testkit::registry::{FakeRegistry, Faults};

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_come_in_and_never_go_out() {
    let daemon = Daemon::start();
    let registry = FakeRegistry::start(1, Faults { sign_in: true, ..Faults::default() }).unwrap();
    let host = registry.host();
    let login = format!(r#"{{"registry":"http://{host}","user":"me","password":"secret-word"}}"#);
    let heard = daemon.own("POST", "/app/logins", &login).await;
    let json = "200 application/json; charset=utf-8\n";
    assert_eq!(heard, format!("{json}{{\"registry\":\"{host}\",\"user\":\"me\"}}"), "it was tried and is kept");
    let heard = daemon.own("GET", "/app/logins", "").await;
    assert_eq!(heard, format!("{json}{{\"logins\":[{{\"registry\":\"{host}\",\"user\":\"me\"}}]}}"), "no password");

    let check = async |path: &str, body: &str, status: &str, part: &str| {
        let heard = daemon.own("POST", path, body).await;
        assert!(heard.starts_with(status) && heard.contains(part), "{path} {body}: {heard}");
        assert!(!heard.contains("secret"), "{heard}");
    };
    let body = |registry: &str, user: &str| {
        serde_json::json!({"registry": registry, "user": user, "password": "secret-word"}).to_string()
    };
    check("/app/logins", &body(&host, "a:b"), "400", "there is no colon in it").await;
    check("/app/logins", &body(&host, ""), "400", "not empty").await;
    check("/app/logins", &body("http://192.0.2.1", "me"), "400", "insecure protocol http").await;
    check("/app/logins", &body("http://u:secret@r", "me"), "400", "must not contain a user or a password").await;
    check("/app/logins", &body("http://127.0.0.1:9", "me"), "500", "nothing was kept").await;
    check("/app/logins/forget", &format!(r#"{{"registry":"{host}"}}"#), "200", "[]").await;
    check("/app/logins/forget", &format!(r#"{{"registry":"{host}"}}"#), "404", "there is no login").await;

    let stranger = daemon.post("/app/logins", &login).await;
    assert!(stranger.starts_with("403"), "only our own clients: {stranger}");
}

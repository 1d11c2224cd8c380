//! Connecting to mock daemons.

use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use cairn_app::Clock;
use cairn_app::settings::{Env, Places, Settings, System};
use cairn_disk::{Disk, Mode, RealDisk};
use cairn_wire::Timestamp;

use super::*;

fn context_from(variables: &Env) -> CliContext {
    let places = Places::of(variables, System::Xdg).unwrap();
    RealDisk.create_dir_all(&places.runtime).unwrap();
    let settings = Settings::load(variables, &places);
    CliContext { clock: Clock::fixed(SystemTime::UNIX_EPOCH), places, settings, host_name: None, home: None }
}

/// Starts a mock daemon: it holds the lock and reports `version` and `active_requests`. `/app/stop` releases the lock.
async fn pretend(cli: &CliContext, version: &'static str, active_requests: u64) {
    pretend_with(Lock::try_acquire(&cli.places.daemon_lock()).unwrap(), cli, version, active_requests).await;
}

async fn pretend_with(lock: Lock, cli: &CliContext, version: &'static str, active_requests: u64) {
    let lock = Arc::new(Mutex::new(Some(lock)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addresses = vec![listener.local_addr().unwrap().to_string()];
    let started_at = Timestamp(SystemTime::UNIX_EPOCH);
    let version = version.to_owned();
    let token = "secret".to_owned();
    let file = DaemonFile { pid: 1, started_at, addresses: addresses.clone(), version: version.clone(), token };
    RealDisk.write_atomic(&cli.places.daemon_file(), &serde_json::to_vec(&file).unwrap(), Mode::Private).unwrap();
    let status = StatusResponse { version, pid: 1, started_at, addresses, active_requests, loaded_models: 0 };
    let stop = move || {
        lock.lock().unwrap().take();
        async { StatusCode::ACCEPTED }
    };
    let router = Router::new()
        .route("/", get(async || "Ollama is running"))
        .route("/app/status", get(async move || Json(status)))
        .route("/app/stop", post(stop));
    tokio::spawn(async move { axum::serve(listener, router).await });
}

#[tokio::test]
async fn connect_stops_idle_daemon_of_another_version() {
    let check = async |version: &'static str, active_requests: u64, keeps_running: bool| {
        let folder = tempfile::tempdir().unwrap();
        let cli = context_from(&Env::of([("CAIRN_HOME", folder.path().to_str().unwrap())]));
        pretend(&cli, version, active_requests).await;
        let found = connect(&cli).await.unwrap();
        assert_eq!(found.is_some(), keeps_running, "version {version} with {active_requests} requests");
        assert_eq!(is_alive(&cli).unwrap(), keeps_running, "a stopped daemon has ended when `connect` returns");
    };
    check(VERSION, 0, true).await;
    check("0.0.0", 0, false).await;
    check("0.0.0", 1, true).await;
}

#[tokio::test]
async fn connect_waits_for_file_of_starting_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let cli = context_from(&Env::of([("CAIRN_HOME", folder.path().to_str().unwrap())]));
    assert!(wait_for_daemon_file(&cli).await.unwrap().is_none(), "no daemon runs");
    let lock = Lock::try_acquire(&cli.places.daemon_lock()).unwrap();
    let written = async {
        tokio::time::sleep(4 * POLL_INTERVAL).await;
        pretend_with(lock, &cli, VERSION, 0).await;
    };
    let (found, ()) = tokio::join!(wait_for_daemon_file(&cli), written);
    assert!(found.unwrap().is_some(), "the daemon writes its file after it has taken the lock");
}

#[test]
fn token_is_sent_only_to_loopback_addresses() {
    let started_at = Timestamp(SystemTime::UNIX_EPOCH);
    let (version, token) = (VERSION.to_owned(), "secret".to_owned());
    let file = DaemonFile { pid: 1, started_at, addresses: vec!["127.0.0.1:11434".to_owned()], version, token };
    let check =
        |host: &str, ours: bool| assert_eq!(is_own_address(&Address::parse(host).unwrap(), &file), ours, "{host}");
    check("127.0.0.1", true);
    check("localhost:11434", true);
    check("localhost:11435", false);
    check("box.example.org:11434", false);
    check("192.168.1.2", false);
}

#[tokio::test]
async fn connect_names_cause_of_failed_https_and_starts_no_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().to_str().unwrap();
    let certificate = folder.path().join("ca.pem");
    let https = crate::client::tests::start_https(&certificate).await;
    let plain = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = format!("https://{}", plain.local_addr().unwrap());
    drop(plain);
    let check = async |host: &str, ca_file: Option<&Path>, expected: Option<&str>| {
        let ca_file = ca_file.and_then(Path::to_str).unwrap_or_default();
        let cli = context_from(&Env::of([("CAIRN_HOME", home), ("OLLAMA_HOST", host), ("CAIRN_CA_FILE", ca_file)]));
        match (connect_or_start(&cli).await, expected) {
            (Ok(client), None) => assert!(!client.is_own_daemon(), "{host}"),
            (Err(error), Some(part)) => {
                let error = crate::one_line(&error);
                assert!(error.contains(part) && error.contains(&format!("cannot connect to {host}")), "{error}");
            }
            (found, expected) => panic!("{host}: {:?}, not {expected:?}", found.map(|_| "a client")),
        }
        assert!(!is_alive(&cli).unwrap(), "no daemon was started for {host}");
    };
    check(&https.to_string(), Some(&certificate), None).await;
    check(&https.to_string(), None, Some("not trusted (set CAIRN_CA_FILE")).await;
    check(&closed, None, Some("refused")).await;
    let folder = tempfile::tempdir().unwrap();
    let own = context_from(&Env::of([("CAIRN_HOME", folder.path().to_str().unwrap())]));
    pretend(&own, VERSION, 0).await;
    let plain = read(&own).unwrap().addresses[0].clone();
    check(&format!("https://{plain}"), None, Some("does not use HTTPS")).await;
    assert!(is_alive(&own).unwrap());
}

//! Finding a daemon, with small servers that pretend to be one.

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

fn setting(variables: &Env) -> Setting {
    let places = Places::of(variables, System::Xdg).unwrap();
    RealDisk.create_dir_all(&places.runtime).unwrap();
    let settings = Settings::load(variables, &places);
    Setting { clock: Clock::standing(SystemTime::UNIX_EPOCH), places, settings, host_name: None, home: None }
}

/// Takes the lock and answers like a daemon of `version` with so many requests; `/app/stop` gives the lock back.
async fn pretend(setting: &Setting, version: &'static str, active_requests: u64) {
    pretend_with(Lock::try_acquire(&setting.places.daemon_lock()).unwrap(), setting, version, active_requests).await;
}

async fn pretend_with(lock: Lock, setting: &Setting, version: &'static str, active_requests: u64) {
    let lock = Arc::new(Mutex::new(Some(lock)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addresses = vec![listener.local_addr().unwrap().to_string()];
    let started_at = Timestamp(SystemTime::UNIX_EPOCH);
    let version = version.to_owned();
    let token = "secret".to_owned();
    let file = DaemonFile { pid: 1, started_at, addresses: addresses.clone(), version: version.clone(), token };
    RealDisk.write_atomic(&setting.places.daemon_file(), &serde_json::to_vec(&file).unwrap(), Mode::Private).unwrap();
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
async fn an_idle_daemon_of_another_version_makes_way() {
    let check = async |version: &'static str, active_requests: u64, stays: bool| {
        let folder = tempfile::tempdir().unwrap();
        let setting = setting(&Env::of([("CAIRN_HOME", folder.path().to_str().unwrap())]));
        pretend(&setting, version, active_requests).await;
        let found = find(&setting).await.unwrap();
        assert_eq!(found.is_some(), stays, "version {version} with {active_requests} requests");
        assert_eq!(is_alive(&setting).unwrap(), stays, "one that makes way has gone when we know it");
    };
    check(VERSION, 0, true).await;
    check("0.0.0", 0, false).await;
    check("0.0.0", 1, true).await;
}

#[tokio::test]
async fn a_daemon_that_was_just_started_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let setting = setting(&Env::of([("CAIRN_HOME", folder.path().to_str().unwrap())]));
    assert!(living(&setting).await.unwrap().is_none(), "there is none");
    let lock = Lock::try_acquire(&setting.places.daemon_lock()).unwrap();
    let written = async {
        tokio::time::sleep(4 * LOOK_EVERY).await;
        pretend_with(lock, &setting, VERSION, 0).await;
    };
    let (found, ()) = tokio::join!(living(&setting), written);
    assert!(found.unwrap().is_some(), "it holds its lock, and says a moment later how to reach it");
}

#[test]
fn the_token_is_for_this_machine() {
    let started_at = Timestamp(SystemTime::UNIX_EPOCH);
    let (version, token) = (VERSION.to_owned(), "secret".to_owned());
    let file = DaemonFile { pid: 1, started_at, addresses: vec!["127.0.0.1:11434".to_owned()], version, token };
    let check = |host: &str, ours: bool| assert_eq!(is_ours(&Address::parse(host).unwrap(), &file), ours, "{host}");
    check("127.0.0.1", true);
    check("localhost:11434", true);
    check("localhost:11435", false);
    check("box.example.org:11434", false);
    check("192.168.1.2", false);
}

//! Who watches, who waits, what is remembered: against a registry on this machine.

use std::path::PathBuf;
use std::time::Duration;
use std::time::SystemTime;

use cairn_hardware::Machine;
use cairn_store::Digest;
use cairn_testkit::registry::{FakeRegistry, Faults};

use super::*;
use crate::App;
use crate::clock::Clock;
use crate::settings::{Env, Places, Settings, System};

struct Fixture {
    folder: tempfile::TempDir,
    registry: FakeRegistry,
}

/// Slow enough to be watched.
const SLOW: Faults =
    Faults { per_1000: Vec::new(), budget: None, sign_in: false, redirect: false, bytes_per_second: Some(400_000) };

fn fixture() -> Fixture {
    let registry = FakeRegistry::start(1, SLOW).unwrap();
    Fixture { folder: tempfile::tempdir().unwrap(), registry }
}

impl Fixture {
    fn app(&self) -> App {
        let env = Env::of([
            ("CAIRN_HOME", self.folder.path().to_str().unwrap()),
            ("CAIRN_KERNEL", "scalar"),
            ("CAIRN_STALL", "2s"),
        ]);
        let settings = Settings::load(&env, &Places::of(&env, System::Xdg).unwrap());
        App::start(settings, Machine::probe(), Clock::standing(SystemTime::UNIX_EPOCH), 1).unwrap()
    }

    /// Puts a model up, of these contents and a config.
    fn publish(&self, model: &str, contents: &[&[u8]]) -> Pull {
        let layer = |kind: &str, bytes: &[u8]| {
            let digest = Digest::of(bytes).to_string();
            self.registry.put_blob(&digest, bytes.into());
            format!(r#"{{"mediaType":"{kind}","digest":"{digest}","size":{}}}"#, bytes.len())
        };
        let layers: Vec<String> =
            contents.iter().map(|bytes| layer("application/vnd.ollama.image.model", bytes)).collect();
        let config = layer("application/vnd.docker.container.image.v1+json", b"{}");
        let manifest = format!(r#"{{"schemaVersion":2,"config":{config},"layers":[{}]}}"#, layers.join(","));
        self.registry.put_manifest(&format!("library/{model}"), "latest", manifest.as_bytes());
        self.pull(model)
    }

    fn pull(&self, model: &str) -> Pull {
        let name = format!("{}/library/{model}", self.registry.host());
        Pull { name, insecure: true, sources: Vec::new() }
    }

    fn pulls(&self) -> PathBuf {
        self.folder.path().join("models/.cairn/pulls")
    }

    fn names_in(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path().join("models/.cairn").join(folder));
        let names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name().into_string().unwrap());
        names.collect()
    }
}

fn state(app: &App, model: &str) -> Option<PullState> {
    app.transfers().downloads().into_iter().find(|row| row.model.contains(model)).map(|row| row.state)
}

/// Waits until some of a model is here.
async fn until_some(app: &App) {
    let mut changes = app.transfers().changes();
    while !app.transfers().downloads().iter().any(|row| row.done_bytes > 0) {
        changes.changed().await.unwrap();
    }
}

/// Waits until so much of what is on its way is here.
async fn until_here(app: &App, bytes: u64) {
    let mut changes = app.transfers().changes();
    while !app.transfers().downloads().iter().any(|row| row.state == PullState::Running && row.done_bytes > bytes) {
        changes.changed().await.unwrap();
    }
}

/// Everything that a watcher is told from now on, as short words.
async fn told(mut events: PullEvents) -> Vec<String> {
    let mut told = Vec::new();
    while let Some(event) = events.next().await {
        told.push(match event {
            PullEvent::Step(step) => step.text().to_owned(),
            PullEvent::Blob(blob) => format!("{}", blob.held_bytes == blob.size_bytes),
            PullEvent::Trouble(line) => line,
            PullEvent::Failed(error) => format!("failed: {error}"),
        });
    }
    told.dedup();
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_watcher_is_told_everything_and_the_first_may_leave() {
    let at = fixture();
    let (app, pull) = (at.app(), at.publish("m", &[&[7; 200_000]]));
    let first = app.transfers().pull(pull.clone()).unwrap();
    until_some(&app).await;
    let second = app.transfers().pull(pull).unwrap();
    drop(first);
    let told = told(second).await;
    assert_eq!(told.first().map(String::as_str), Some("pulling manifest"), "from the beginning: {told:?}");
    let end = ["true", "verifying sha256 digest", "writing manifest", "success"];
    assert_eq!(told[told.len() - 4..], end, "numbers go before the steps that follow: {told:?}");
    assert_eq!(state(&app, "/m:"), Some(PullState::Done), "in the list until the daemon ends");
    assert_eq!(at.names_in("pulls"), [""; 0], "nothing is left to remember");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_watchers_it_stops_unless_it_was_detached() {
    let at = fixture();
    let (app, pull) = (at.app(), at.publish("m", &[&[8; 200_000]]));
    let only = app.transfers().pull(pull.clone()).unwrap();
    until_some(&app).await;
    drop(only);
    app.transfers().cancel("1").await.unwrap();
    assert_eq!(state(&app, "/m:"), Some(PullState::Stopped), "nobody waits");
    app.transfers().pull_detached(pull.clone()).await.unwrap();
    drop(app.transfers().pull(pull.clone()).unwrap());
    assert_eq!(told(app.transfers().pull(pull).unwrap()).await.last().unwrap(), "success", "it was to go on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_goes_away_does_not_stop_the_next_who_asks() {
    let at = fixture();
    let (app, pull) = (at.app(), at.pull("nothing"));
    let mut before = app.transfers().pull(pull.clone()).unwrap();
    for round in 0..200 {
        while before.next().await.is_some() {}
        let goes = tokio::task::spawn_blocking(move || drop(before));
        let mut next = app.transfers().pull(pull.clone()).unwrap();
        goes.await.unwrap();
        let mut said = String::new();
        while let Some(event) = next.next().await {
            if let PullEvent::Failed(error) = event {
                said = error.to_string();
            }
        }
        assert!(said.contains("file does not exist"), "round {round}: {said}");
        before = next;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_download_wants_is_not_discarded() {
    let at = fixture();
    let (shared, app) = ([9; 200_000], at.app());
    let (a, b) = (at.publish("a", &[&shared]), at.publish("b", &[&shared, b"more"]));
    app.transfers().pull_detached(a).await.unwrap();
    app.transfers().pull_detached(b.clone()).await.unwrap();
    until_some(&app).await;
    app.transfers().discard("1").await.unwrap();
    assert_eq!(state(&app, "/a:"), None, "it is gone");
    assert_eq!(told(app.transfers().pull(b).unwrap()).await.last().unwrap(), "success", "the other is not disturbed");
    assert_eq!((at.names_in("partials"), at.names_in("ready")), (vec![], vec![]), "nothing stays");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_done_can_neither_be_stopped_nor_resumed() {
    let at = fixture();
    let app = at.app();
    told(app.transfers().pull(at.publish("m", &[b"small"])).unwrap()).await;
    for answer in
        [app.transfers().pause("1").await, app.transfers().cancel("1").await, app.transfers().resume("1").await]
    {
        let error = answer.expect_err("it is over");
        assert!(matches!(error, Error::DownloadDone(_)) && error.to_string().contains("is done"), "{error}");
    }
    assert_eq!(state(&app, "/m:"), Some(PullState::Done), "as before");
    app.transfers().discard("1").await.unwrap();
    assert!(app.transfers().downloads().is_empty(), "the line can go");
}

/// `a` is here, and `b` is on its way, which has the same contents and more.
async fn sharing(at: &Fixture, app: &App) -> (Pull, PullEvents) {
    let shared = [5; 50_000];
    let (a, b) = (at.publish("a", &[&shared]), at.publish("b", &[&shared, &[6; 400_000]]));
    assert_eq!(told(app.transfers().pull(a.clone()).unwrap()).await.last().unwrap(), "success", "it comes");
    let mut events = app.transfers().pull(b).unwrap();
    while !matches!(events.next().await.unwrap(), PullEvent::Blob(blob) if blob.published) {}
    (a, events)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_running_pull_counts_on_is_not_deleted() {
    let at = fixture();
    let app = at.app();
    let (a, b) = sharing(&at, &app).await;
    assert_eq!(app.delete(&a.name).unwrap().freed_bytes, 0, "all of it is counted on");
    let told = told(b).await;
    assert_eq!(told.last().unwrap(), "success", "{told:?}");
    let steps = told.iter().filter(|line| *line == "pulling manifest").count();
    assert_eq!(steps, 0, "nothing was to be done again: {told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_program_removes_is_fetched_again() {
    let at = fixture();
    let app = at.app();
    let (_, b) = sharing(&at, &app).await;
    let digest = Digest::of(&[5; 50_000]);
    std::fs::remove_file(at.folder.path().join("models/blobs").join(digest.file_name())).unwrap();
    let told = told(b).await;
    assert_eq!(told.last().unwrap(), "success", "{told:?}");
    assert!(told.iter().any(|line| line.contains("was removed while")), "it is said: {told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contents_have_one_size() {
    let at = fixture();
    let pull = at.publish("m", &[b"contents"]);
    let digest = Digest::of(b"contents");
    let layer = |size: u64| format!(r#"{{"mediaType":"x","digest":"{digest}","size":{size}}}"#);
    let manifest = format!(r#"{{"schemaVersion":2,"layers":[{},{}]}}"#, layer(8), layer(9));
    at.registry.put_manifest("library/m", "latest", manifest.as_bytes());
    let told = told(at.app().transfers().pull(pull).unwrap()).await;
    assert!(told.last().unwrap().contains("8 bytes, and 9 bytes: nothing was fetched"), "{told:?}");
    assert_eq!(at.registry.sent_bytes(&digest.to_string()), 0, "at once");
}

/// A pull is begun, cancelled, and its tag moves.
async fn superseded(at: &Fixture, app: &App) -> Pull {
    app.transfers().pull_detached(at.publish("m", &[&[1; 400_000]])).await.unwrap();
    until_here(app, 50_000).await;
    app.transfers().cancel("1").await.unwrap();
    let pull = at.publish("m", &[&[2; 100_000]]);
    assert_eq!(
        told(app.transfers().pull(pull.clone()).unwrap()).await.last().unwrap(),
        "success",
        "in its new version"
    );
    pull
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_came_of_an_earlier_version_is_shown_and_discarded() {
    let at = fixture();
    let app = at.app();
    superseded(&at, &app).await;
    let row = app.transfers().downloads().remove(0);
    assert!(row.state == PullState::Done && row.held_bytes > 0, "it is there: {row:?}");
    assert!(row.trouble.is_some_and(|line| line.contains("earlier version")), "and said");
    app.transfers().discard("1").await.unwrap();
    assert_eq!(at.names_in("partials"), [""; 0], "nothing stays");
    assert!(app.transfers().downloads().is_empty() && app.library().list().unwrap().len() > 1, "the model does");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_is_what_no_download_goes_on_with() {
    let at = fixture();
    let app = at.app();
    superseded(&at, &app).await;
    app.transfers().pull_detached(at.publish("other", &[&[3; 400_000]])).await.unwrap();
    until_here(&app, 50_000).await;
    app.transfers().cancel("2").await.unwrap();
    // A journal or a lock may come a moment later.
    let partials = || at.names_in("partials").iter().filter(|name| !name.contains('.')).count();
    let before = partials();
    // As one after a restart, which knows nothing of what was superseded.
    app.transfers().pulls.0.queue().jobs.iter().for_each(|job| job.let_go());
    let next = at.app();
    assert_eq!(next.collect_garbage(false, false).unwrap().kept.len(), 1, "it is told, and stays");
    assert_eq!(next.collect_garbage(true, true).unwrap().removed.len(), 1, "that it would go");
    assert_eq!(partials(), before, "nothing went yet");
    let removed = app.collect_garbage(false, true).unwrap().removed;
    assert!(removed.len() == 1 && removed[0].size_bytes > 0, "it goes, and the cancelled one's does not: {removed:?}");
    assert_eq!(partials(), before - 1, "and nothing else");
    assert_eq!(app.transfers().downloads()[0].held_bytes, 0, "nothing of it is left to discard");
    assert_eq!(
        told(app.transfers().pull(at.pull("other")).unwrap()).await.last().unwrap(),
        "success",
        "the other goes on"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_three_wait_in_an_order_that_can_be_changed() {
    let at = fixture();
    let app = at.app();
    for number in 0..6_u8 {
        let contents = vec![number; 300_000];
        app.transfers().pull_detached(at.publish(&format!("m{number}"), &[&contents])).await.unwrap();
    }
    let queued = |app: &App| -> Vec<u64> {
        app.transfers().downloads().iter().filter(|row| row.state == PullState::Queued).map(|row| row.id).collect()
    };
    assert_eq!(queued(&app), [4, 5, 6], "three run");
    app.transfers().reorder("6", 0).await.unwrap();
    assert_eq!(queued(&app), [6, 4, 5], "the last is to be the first");
    app.transfers().pause("4").await.unwrap();
    assert_eq!(queued(&app), [6, 5], "it waits for its user now");
    app.transfers().close().await;
    let error = app.transfers().pause("7").await.unwrap_err();
    assert!(matches!(error, Error::NoDownload(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_daemon_goes_on() {
    let at = fixture();
    let (running, paused) = (at.publish("running", &[&[1; 400_000]]), at.publish("paused", &[&[2; 400_000]]));
    let app = at.app();
    let watcher = app.transfers().pull(running.clone()).unwrap();
    app.transfers().pull_detached(paused).await.unwrap();
    until_some(&app).await;
    app.transfers().pause("2").await.unwrap();
    app.transfers().close().await;
    let told_at_the_end = told(watcher).await;
    let last = told_at_the_end.last().unwrap();
    assert!(last.contains("the next one goes on"), "whoever waits is told why it ends: {last}");
    // Another daemon of the same library leaves them alone while this one lives.
    assert!(at.app().transfers().downloads().is_empty(), "they are the first one's");
    // A killed daemon's claims are let go of by the system.
    app.transfers().pulls.0.queue().jobs.iter().for_each(|job| job.let_go());
    let next = at.app();
    assert_eq!(state(&next, "paused"), Some(PullState::Paused), "as it was left");
    let row = next.transfers().downloads().into_iter().find(|row| row.model.contains("running")).unwrap();
    assert!(row.detached && row.total_bytes >= 400_000, "it goes on for nobody in particular: {row:?}");
    assert_eq!(told(next.transfers().pull(running).unwrap()).await.last().unwrap(), "success", "by itself");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_remembered_may_be_anything() {
    let at = fixture();
    std::fs::create_dir_all(at.pulls()).unwrap();
    let write = |name: &str, text: &str| std::fs::write(at.pulls().join(name), text).unwrap();
    let rubbish = ["", "{", "[]", "null", r#"{"version":1}"#, r#"{"version":2,"model":"m"}"#, r#"{"version":"x"}"#];
    for (number, text) in rubbish.iter().enumerate() {
        write(&format!("{number:064}.json"), text);
    }
    let whole = r#"{"version":1,"model":"../../x","http":false,"insecure":true,"sources":[],"detached":true,
        "state":"running","error":null,"position":0,"blobs":[{"digest":"sha256:../..","size":1}]}"#;
    write("x.json", whole);
    write(&format!(".{}.json.123-4.tmp", "0".repeat(64)), "half");
    write(&format!("{}.lock", "1".repeat(64)), "");
    let app = at.app();
    assert!(app.transfers().downloads().is_empty(), "none of it is a download");
    let mut left = at.names_in("pulls");
    left.retain(|name| !name.ends_with(".json"));
    assert_eq!(left, [""; 0], "what a killed daemon left half-written is cleared away");
    assert_eq!(at.names_in("pulls").len(), rubbish.len() + 1, "what cannot be read is nobody's to remove");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_stays_short() {
    let at = fixture();
    let app = at.app();
    for number in 0..50 {
        let told = told(app.transfers().pull(at.pull(&format!("absent{number}"))).unwrap()).await;
        assert!(told.last().unwrap().contains("file does not exist"), "{told:?}");
    }
    // The last one's end is filed after it was told.
    let soon = tokio::time::timeout(Duration::from_secs(10), async {
        while app.transfers().downloads().len() > 21 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let (_, failed) = (soon.await, app.transfers().downloads());
    assert!(failed.len() <= 21, "the oldest failures of which nothing is here go: {} are left", failed.len());
    assert!(failed.last().unwrap().model.contains("absent49"), "the newest stays");
    // The last one's end is written after it was told.
    let soon = tokio::time::timeout(Duration::from_secs(10), async {
        while at.names_in("pulls").len() > 2 * 21 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(soon.await.is_ok(), "and so do their files: {:?}", at.names_in("pulls"));

    let waiting: Vec<_> = (0..1000).map(|number| app.transfers().pull(at.pull(&format!("waiting{number}")))).collect();
    let refused: Vec<_> = waiting.iter().filter_map(|pull| pull.as_ref().err()).collect();
    assert!(!refused.is_empty() && app.transfers().downloads().len() <= 1000, "there is an end to the list");
    let said = refused[0].to_string();
    assert!(
        matches!(refused[0], Error::Pull(PullError::TooMany(_))) && said.starts_with("1000 models are in the list"),
        "{said}"
    );
}

#[tokio::test]
async fn what_is_no_manifest_of_a_model_is_refused() {
    let fixture = fixture();
    let app = fixture.app();
    let check = async |manifest: &str, part: &str| {
        fixture.registry.put_manifest("library/odd", "latest", manifest.as_bytes());
        let told = told(app.transfers().pull(fixture.pull("odd")).unwrap()).await;
        assert!(told.last().is_some_and(|last| last.contains(part)), "{part:?} is missing from {told:?}");
    };
    let digest = Digest::of(b"x");
    let layer = format!(r#"{{"digest":"{digest}","size":1}}"#);
    check(&format!(r#"{{"schemaVersion":1,"config":{layer},"layers":[{layer}]}}"#), "its schemaVersion is not 2").await;
    check(&format!(r#"{{"schemaVersion":2,"config":{layer},"layers":[]}}"#), "names no contents").await;
}

#[tokio::test]
async fn names_that_are_none_are_refused_at_once() {
    let at = fixture();
    let app = at.app();
    for (name, part) in [("", "model is required"), ("a b", "invalid model name"), ("Pebble", "part of Cairn")] {
        let pull = Pull { name: name.to_owned(), ..Pull::default() };
        let error = app.transfers().pull(pull).err().unwrap_or_else(|| panic!("{name:?} must be refused")).to_string();
        assert!(error.contains(part), "{name:?}: {error}");
    }
    assert_eq!(at.names_in("pulls"), [""; 0], "nothing was begun");
}

//! Pulls from a registry on this machine: watchers, the queue and the journal.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::time::SystemTime;

use cairn_store::Digest;
use cairn_testkit::registry::{FakeRegistry, Faults};

use super::*;
use crate::App;
use crate::clock::Clock;
use crate::settings::{Env, Places, Settings, System};

mod layers;
mod names;
mod runnable;
mod updates;

struct Fixture {
    folder: tempfile::TempDir,
    registry: FakeRegistry,
}

/// Slow enough to observe progress.
const SLOW: Faults =
    Faults { per_1000: Vec::new(), budget: None, sign_in: false, redirect: false, bytes_per_second: Some(400_000) };

fn fixture() -> Fixture {
    let registry = FakeRegistry::start(1, SLOW).unwrap();
    Fixture { folder: tempfile::tempdir().unwrap(), registry }
}

impl Fixture {
    fn app(&self) -> App {
        self.app_with(Clock::fixed(SystemTime::UNIX_EPOCH))
    }

    fn app_with(&self, clock: Clock) -> App {
        let env = Env::of([
            ("CAIRN_HOME", self.folder.path().to_str().unwrap()),
            ("CAIRN_KERNEL", "scalar"),
            ("CAIRN_STALL", "2s"),
            ("OLLAMA_KV_TIERING", "0"),
        ]);
        let settings = Settings::load(&env, &Places::of(&env, System::Xdg).unwrap());
        App::for_test(settings, clock)
    }

    /// Publishes a model with these blobs and an empty config.
    fn publish(&self, model: &str, contents: &[&[u8]]) -> Pull {
        self.publish_with(model, contents, b"{}")
    }

    /// Publishes a model with these blobs and a config. The blobs are not model files, which would have to be ones that
    /// can run.
    fn publish_with(&self, model: &str, contents: &[&[u8]], config: &[u8]) -> Pull {
        self.publish_layers(model, "application/vnd.ollama.image.projector", contents, config)
    }

    /// Publishes a model with these blobs of one media type.
    fn publish_layers(&self, model: &str, media_type: &str, contents: &[&[u8]], config: &[u8]) -> Pull {
        let layers: Vec<(&str, &[u8])> = contents.iter().map(|bytes| (media_type, *bytes)).collect();
        self.publish_typed_layers(model, &layers, config)
    }

    /// Publishes a model with these blobs and their media types.
    fn publish_typed_layers(&self, model: &str, layers: &[(&str, &[u8])], config: &[u8]) -> Pull {
        let layer = |kind: &str, bytes: &[u8]| {
            let digest = Digest::of(bytes).to_string();
            self.registry.put_blob(&digest, bytes.into());
            format!(r#"{{"mediaType":"{kind}","digest":"{digest}","size":{}}}"#, bytes.len())
        };
        let layers: Vec<String> = layers.iter().map(|(kind, bytes)| layer(kind, bytes)).collect();
        let config = layer("application/vnd.docker.container.image.v1+json", config);
        let manifest = format!(r#"{{"schemaVersion":2,"config":{config},"layers":[{}]}}"#, layers.join(","));
        self.registry.put_manifest(&format!("library/{model}"), "latest", manifest.as_bytes());
        self.pull(model)
    }

    fn pull(&self, model: &str) -> Pull {
        let name = format!("{}/library/{model}", self.registry.host());
        Pull { name, insecure: true, ..Pull::default() }
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

/// Waits until some bytes of a model are downloaded.
async fn until_some(app: &App) {
    let mut changes = app.transfers().changes();
    while !app.transfers().downloads().iter().any(|row| row.done_bytes > 0) {
        changes.changed().await.unwrap();
    }
}

/// Waits until a running pull has more than `bytes`.
async fn until_here(app: &App, bytes: u64) {
    let mut changes = app.transfers().changes();
    while !app.transfers().downloads().iter().any(|row| row.state == PullState::Running && row.done_bytes > bytes) {
        changes.changed().await.unwrap();
    }
}

/// All further events of a watcher, as short texts.
async fn event_texts(mut events: PullEvents) -> Vec<String> {
    let mut texts = Vec::new();
    while let Some(event) = events.next().await {
        texts.push(match event {
            PullEvent::Step(step) => step.text().to_owned(),
            PullEvent::Blob(blob) => format!("{}", blob.held_bytes == blob.size_bytes),
            PullEvent::Problem(line) => line,
            PullEvent::Failed(error) => format!("failed: {error}"),
        });
    }
    texts.dedup();
    texts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watcher_that_joins_late_gets_all_events_after_first_leaves() {
    let at = fixture();
    let (app, pull) = (at.app(), at.publish("m", &[&[7; 200_000]]));
    let first = app.transfers().pull(pull.clone()).unwrap();
    until_some(&app).await;
    let second = app.transfers().pull(pull).unwrap();
    drop(first);
    let texts = event_texts(second).await;
    assert_eq!(texts.first().map(String::as_str), Some("pulling manifest"), "first event: {texts:?}");
    let end = ["true", "verifying sha256 digest", "writing manifest", "success"];
    assert_eq!(texts[texts.len() - 4..], end, "progress precedes the next steps: {texts:?}");
    assert_eq!(state(&app, "/m:"), Some(PullState::Done), "listed until the daemon ends");
    assert_eq!(at.names_in("pulls"), [""; 0], "the journal is empty");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pull_reports_a_renderer_that_is_not_built_in() {
    let at = fixture();
    let app = at.app();
    let config = br#"{"renderer":"future","parser":"qwen3-coder"}"#;
    let texts = event_texts(app.transfers().pull(at.publish_with("m", &[b"weights"], config)).unwrap()).await;
    let warning = "the renderer \"future\" is not built in; see `cairn show` for the template in use";
    let end = ["writing manifest", warning, "success"];
    assert_eq!(texts[texts.len() - 3..], end, "the warning precedes the end: {texts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pull_without_watchers_stops_unless_detached() {
    let at = fixture();
    let (app, pull) = (at.app(), at.publish("m", &[&[8; 200_000]]));
    let only = app.transfers().pull(pull.clone()).unwrap();
    until_some(&app).await;
    drop(only);
    app.transfers().cancel("1").await.unwrap();
    assert_eq!(state(&app, "/m:"), Some(PullState::Stopped), "no watchers");
    app.transfers().pull_detached(pull.clone()).await.unwrap();
    drop(app.transfers().pull(pull.clone()).unwrap());
    assert_eq!(event_texts(app.transfers().pull(pull).unwrap()).await.last().unwrap(), "success", "detached");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_watcher_does_not_stop_the_next_pull() {
    let at = fixture();
    let (app, pull) = (at.app(), at.pull("nothing"));
    let mut before = app.transfers().pull(pull.clone()).unwrap();
    for round in 0..200 {
        while before.next().await.is_some() {}
        let leaves = tokio::task::spawn_blocking(move || drop(before));
        let mut next = app.transfers().pull(pull.clone()).unwrap();
        leaves.await.unwrap();
        let mut failure = String::new();
        while let Some(event) = next.next().await {
            if let PullEvent::Failed(error) = event {
                failure = error.to_string();
            }
        }
        assert!(failure.contains("file does not exist"), "round {round}: {failure}");
        before = next;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discard_keeps_blobs_of_other_pulls() {
    let at = fixture();
    let (shared, app) = ([9; 200_000], at.app());
    let (a, b) = (at.publish("a", &[&shared]), at.publish("b", &[&shared, b"more"]));
    app.transfers().pull_detached(a).await.unwrap();
    app.transfers().pull_detached(b.clone()).await.unwrap();
    until_some(&app).await;
    app.transfers().discard("1").await.unwrap();
    assert_eq!(state(&app, "/a:"), None, "removed from the list");
    assert_eq!(event_texts(app.transfers().pull(b).unwrap()).await.last().unwrap(), "success", "other pull");
    assert_eq!((at.names_in("partials"), at.names_in("ready")), (vec![], vec![]), "no files are left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn completed_pull_cannot_be_stopped_or_resumed() {
    let at = fixture();
    let app = at.app();
    event_texts(app.transfers().pull(at.publish("m", &[b"small"])).unwrap()).await;
    for answer in
        [app.transfers().pause("1").await, app.transfers().cancel("1").await, app.transfers().resume("1", false).await]
    {
        let error = answer.expect_err("the pull is complete");
        assert!(matches!(error, Error::DownloadDone(_)) && error.to_string().contains("is done"), "{error}");
    }
    assert_eq!(state(&app, "/m:"), Some(PullState::Done), "unchanged");
    app.transfers().discard("1").await.unwrap();
    assert!(app.transfers().downloads().is_empty(), "removed from the list");
}

/// Pulls `a` completely, and starts a pull of `b`, which has the same blob and another one.
async fn sharing(at: &Fixture, app: &App) -> (Pull, PullEvents) {
    let shared = [5; 50_000];
    let (a, b) = (at.publish("a", &[&shared]), at.publish("b", &[&shared, &[6; 400_000]]));
    assert_eq!(event_texts(app.transfers().pull(a.clone()).unwrap()).await.last().unwrap(), "success", "first pull");
    let mut events = app.transfers().pull(b).unwrap();
    while !matches!(events.next().await.unwrap(), PullEvent::Blob(blob) if blob.published) {}
    (a, events)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delete_keeps_blobs_that_a_running_pull_needs() {
    let at = fixture();
    let app = at.app();
    let (a, b) = sharing(&at, &app).await;
    assert_eq!(app.delete(&a.name).unwrap().freed_bytes, 0, "all blobs are needed");
    let texts = event_texts(b).await;
    assert_eq!(texts.last().unwrap(), "success", "{texts:?}");
    let steps = texts.iter().filter(|line| *line == "pulling manifest").count();
    assert_eq!(steps, 0, "the pull did not restart: {texts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blob_removed_by_another_program_is_downloaded_again() {
    let at = fixture();
    let app = at.app();
    let (_, b) = sharing(&at, &app).await;
    let digest = Digest::of(&[5; 50_000]);
    std::fs::remove_file(at.folder.path().join("models/blobs").join(digest.file_name())).unwrap();
    let texts = event_texts(b).await;
    assert_eq!(texts.last().unwrap(), "success", "{texts:?}");
    assert!(texts.iter().any(|line| line.contains("was removed during the pull")), "{texts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manifest_with_two_sizes_of_a_blob_is_rejected() {
    let at = fixture();
    let pull = at.publish("m", &[b"contents"]);
    let digest = Digest::of(b"contents");
    let layer = |size: u64| format!(r#"{{"mediaType":"x","digest":"{digest}","size":{size}}}"#);
    let manifest = format!(r#"{{"schemaVersion":2,"layers":[{},{}]}}"#, layer(8), layer(9));
    at.registry.put_manifest("library/m", "latest", manifest.as_bytes());
    let texts = event_texts(at.app().transfers().pull(pull).unwrap()).await;
    let last = texts.last().unwrap();
    assert!(last.contains("8 and 9 bytes") && last.contains("nothing was downloaded"), "{texts:?}");
    assert_eq!(at.registry.sent_bytes(&digest.to_string()), 0, "no download");
}

/// Starts and cancels a pull, and completes it after its tag moved.
async fn superseded(at: &Fixture, app: &App) -> Pull {
    app.transfers().pull_detached(at.publish("m", &[&[1; 400_000]])).await.unwrap();
    until_here(app, 50_000).await;
    app.transfers().cancel("1").await.unwrap();
    let pull = at.publish("m", &[&[2; 100_000]]);
    assert_eq!(
        event_texts(app.transfers().pull(pull.clone()).unwrap()).await.last().unwrap(),
        "success",
        "new version"
    );
    pull
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn superseded_blobs_are_listed_and_discarded() {
    let at = fixture();
    let app = at.app();
    superseded(&at, &app).await;
    let row = app.transfers().downloads().remove(0);
    assert!(row.state == PullState::Done && row.held_bytes > 0, "partial blob is counted: {row:?}");
    assert!(row.problem.is_some_and(|line| line.contains("earlier version")), "warning");
    app.transfers().discard("1").await.unwrap();
    assert_eq!(at.names_in("partials"), [""; 0], "no partial blob is left");
    assert!(app.transfers().downloads().is_empty() && app.library().list().unwrap().len() > 1, "the model stays");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_includes_only_partials_that_no_pull_resumes() {
    let at = fixture();
    let app = at.app();
    superseded(&at, &app).await;
    app.transfers().pull_detached(at.publish("other", &[&[3; 400_000]])).await.unwrap();
    until_here(&app, 50_000).await;
    app.transfers().cancel("2").await.unwrap();
    // Files of a blob's journal or lock may appear later.
    let partials = || at.names_in("partials").iter().filter(|name| !name.contains('.')).count();
    let before = partials();
    // A restarted daemon does not list superseded blobs.
    app.transfers().pulls.0.queue().jobs.iter().for_each(|job| job.release_claim());
    let next = at.app();
    assert_eq!(next.collect_garbage(false, false).unwrap().kept.len(), 1, "kept");
    assert_eq!(next.collect_garbage(true, true).unwrap().removed.len(), 1, "dry run reports it");
    assert_eq!(partials(), before, "dry run removes nothing");
    let removed = app.collect_garbage(false, true).unwrap().removed;
    assert!(removed.len() == 1 && removed[0].size_bytes > 0, "only the superseded blob: {removed:?}");
    assert_eq!(partials(), before - 1, "one file is removed");
    assert_eq!(app.transfers().downloads()[0].held_bytes, 0, "nothing is left to discard");
    assert_eq!(
        event_texts(app.transfers().pull(at.pull("other")).unwrap()).await.last().unwrap(),
        "success",
        "the cancelled pull resumes"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queue_runs_three_pulls_and_can_be_reordered() {
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
    assert_eq!(queued(&app), [6, 4, 5], "moved to the front");
    app.transfers().pause("4").await.unwrap();
    assert_eq!(queued(&app), [6, 5], "paused");
    app.transfers().close().await;
    let error = app.transfers().pause("7").await.unwrap_err();
    assert!(matches!(error, Error::NoDownload(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_daemon_resumes_pulls_of_killed_daemon() {
    let at = fixture();
    let (running, paused) = (at.publish("running", &[&[1; 400_000]]), at.publish("paused", &[&[2; 400_000]]));
    let app = at.app();
    let watcher = app.transfers().pull(running.clone()).unwrap();
    app.transfers().pull_detached(paused).await.unwrap();
    until_some(&app).await;
    app.transfers().pause("2").await.unwrap();
    app.transfers().close().await;
    let texts = event_texts(watcher).await;
    let last = texts.last().unwrap();
    assert!(last.contains("will resume at the next start"), "{last}");
    // Another daemon of the same library must not run the claimed jobs.
    assert!(at.app().transfers().downloads().is_empty(), "claimed by the first daemon");
    // The system releases the claims of a killed daemon.
    app.transfers().pulls.0.queue().jobs.iter().for_each(|job| job.release_claim());
    let next = at.app();
    assert_eq!(state(&next, "paused"), Some(PullState::Paused), "restored state");
    let row = next.transfers().downloads().into_iter().find(|row| row.model.contains("running")).unwrap();
    assert!(row.detached && row.total_bytes >= 400_000, "detached: {row:?}");
    assert_eq!(event_texts(next.transfers().pull(running).unwrap()).await.last().unwrap(), "success", "resumed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn journal_with_invalid_files_restores_nothing() {
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
    assert!(app.transfers().downloads().is_empty(), "no pulls");
    let mut left = at.names_in("pulls");
    left.retain(|name| !name.ends_with(".json"));
    assert_eq!(left, [""; 0], "temporary files are removed");
    assert_eq!(at.names_in("pulls").len(), rubbish.len() + 1, "unreadable files stay");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn download_list_is_bounded_in_length() {
    let at = fixture();
    let app = at.app();
    for number in 0..50 {
        let texts = event_texts(app.transfers().pull(at.pull(&format!("absent{number}"))).unwrap()).await;
        assert!(texts.last().unwrap().contains("file does not exist"), "{texts:?}");
    }
    // The list is shortened after the last event.
    let soon = tokio::time::timeout(Duration::from_secs(10), async {
        while app.transfers().downloads().len() > 21 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let (_, failed) = (soon.await, app.transfers().downloads());
    assert!(failed.len() <= 21, "the oldest failures are removed: {} are left", failed.len());
    assert!(failed.last().unwrap().model.contains("absent49"), "the newest stays");
    // The journal is written after the last event.
    let soon = tokio::time::timeout(Duration::from_secs(10), async {
        while at.names_in("pulls").len() > 2 * 21 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(soon.await.is_ok(), "their files are removed: {:?}", at.names_in("pulls"));

    let waiting: Vec<_> = (0..1000).map(|number| app.transfers().pull(at.pull(&format!("waiting{number}")))).collect();
    let refused: Vec<_> = waiting.iter().filter_map(|pull| pull.as_ref().err()).collect();
    assert!(!refused.is_empty() && app.transfers().downloads().len() <= 1000, "the list is bounded");
    let error = refused[0].to_string();
    assert!(
        matches!(refused[0], Error::Pull(PullError::TooMany(_)))
            && error.starts_with("the list already has 1000 downloads"),
        "{error}"
    );
}

#[tokio::test]
async fn manifest_of_another_kind_is_rejected() {
    let fixture = fixture();
    let app = fixture.app();
    let check = async |manifest: &str, part: &str| {
        fixture.registry.put_manifest("library/odd", "latest", manifest.as_bytes());
        let texts = event_texts(app.transfers().pull(fixture.pull("odd")).unwrap()).await;
        assert!(texts.last().is_some_and(|last| last.contains(part)), "{part:?} is missing from {texts:?}");
    };
    let digest = Digest::of(b"x");
    let layer = format!(r#"{{"digest":"{digest}","size":1}}"#);
    check(&format!(r#"{{"schemaVersion":1,"config":{layer},"layers":[{layer}]}}"#), "its schemaVersion is not 2").await;
    check(&format!(r#"{{"schemaVersion":2,"config":{layer},"layers":[]}}"#), "no layers").await;
}

#[tokio::test]
async fn pull_with_invalid_name_is_rejected_at_once() {
    let at = fixture();
    let app = at.app();
    for (name, part) in [("", "model is required"), ("a b", "invalid model name"), ("Pebble", "part of Cairn")] {
        let pull = Pull { name: name.to_owned(), ..Pull::default() };
        let error = app.transfers().pull(pull).err().unwrap_or_else(|| panic!("{name:?} must be refused")).to_string();
        assert!(error.contains(part), "{name:?}: {error}");
    }
    assert_eq!(at.names_in("pulls"), [""; 0], "no pull is stored");
}

#[tokio::test]
async fn pull_that_panics_fails_and_can_be_repeated() {
    let fixture = fixture();
    fixture.registry.set_faults(Faults { sign_in: true, ..Faults::default() });
    let panics = Arc::new(AtomicBool::new(false));
    let (armed, thread) = (Arc::clone(&panics), std::thread::current().id());
    let app = fixture.app_with(Clock::from_fn(move || {
        // The cache reads the clock in a thread of its own.
        let is_armed = std::thread::current().id() == thread && armed.swap(false, Ordering::Relaxed);
        assert!(!is_armed, "the clock panics once");
        SystemTime::UNIX_EPOCH
    }));
    let pull = || fixture.publish("m", &[b"x"]);
    panics.store(true, Ordering::Relaxed);
    let texts = event_texts(app.transfers().pull(pull()).unwrap()).await;
    assert!(!panics.load(Ordering::Relaxed), "the clock was read");
    assert!(texts.last().is_some_and(|last| last.contains("internal error")), "{texts:?}");
    assert_eq!(state(&app, "m"), Some(PullState::Failed), "the pull is no longer running");
    assert_eq!(event_texts(app.transfers().pull(pull()).unwrap()).await.last().unwrap(), "success");
}

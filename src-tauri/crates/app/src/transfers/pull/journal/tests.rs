//! The journal on a slow disk.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

use cairn_testkit::{DiskOperation, HookedDisk};
use tokio::sync::watch;

use super::*;
use crate::transfers::pull::job::Intent;

/// Duration of each change.
const PACE: Duration = Duration::from_millis(100);

/// A disk with slow changes, and the log of its writes.
fn slow() -> (HookedDisk, Arc<Mutex<Vec<String>>>) {
    let written = Arc::new(Mutex::new(Vec::new()));
    let writes = Arc::clone(&written);
    let disk = HookedDisk::new(move |change, _| {
        std::thread::sleep(PACE);
        let what = match change {
            DiskOperation::Write(bytes) => {
                format!("{:?}", serde_json::from_slice::<SavedPull>(bytes).expect("a job").state)
            }
            DiskOperation::CreateFolder | DiskOperation::Open => return,
            DiskOperation::Remove => "removed".to_owned(),
        };
        writes.lock().push(what);
    });
    (disk, written)
}

#[tokio::test]
async fn journal_on_slow_disk_blocks_no_task_and_keeps_order() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, written) = slow();
    let journal = Journal::of(&Library::new(folder.path().join("models")), Arc::new(disk));
    let name: ModelRef = "m".parse().unwrap();
    let request =
        PullRequest { name: name.clone(), insecure: false, sources: Vec::new(), for_clients: false, force: true };
    let job = Arc::new(Job::new(1, name, request, None, watch::Sender::new(0)));
    let began = Instant::now();
    for state in [PullState::Queued, PullState::Running, PullState::Paused] {
        job.change(|view| view.state = state);
        journal.write(&job, 0);
    }
    job.intent.send_replace(Intent::Discard);
    journal.remove(&job);
    assert!(began.elapsed() < PACE, "queueing blocked the runtime for {:?}", began.elapsed());
    let mut ticks = 0;
    tokio::select! {
        () = journal.flush() => {}
        () = async { loop { tokio::time::sleep(PACE / 10).await; ticks += 1; } } => {}
    }
    assert!(ticks > 10, "the runtime was blocked: {ticks} ticks");
    let written = written.lock().clone();
    assert_eq!(written.last().map(String::as_str), Some("removed"), "order of requests: {written:?}");
    assert_eq!(written[written.len() - 2], "Paused", "the newest state is last: {written:?}");
    assert!(!job.is_claimed(), "the claim is released");
    let left = std::fs::read_dir(folder.path().join("models/.cairn/pulls")).unwrap().count();
    assert_eq!(left, 0, "no file is left");
}

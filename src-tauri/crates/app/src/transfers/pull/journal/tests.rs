//! A disk that takes its time, and who does not wait for it.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

use cairn_testkit::{DiskOperation, HookedDisk};
use tokio::sync::watch;

use super::*;
use crate::transfers::pull::job::Wish;

/// What every change takes.
const PACE: Duration = Duration::from_millis(100);

/// A disk whose every change takes its time, and what it was told to write.
fn slow() -> (HookedDisk, Arc<Mutex<Vec<String>>>) {
    let written = Arc::new(Mutex::new(Vec::new()));
    let writes = Arc::clone(&written);
    let disk = HookedDisk::new(move |change, _| {
        std::thread::sleep(PACE);
        let what = match change {
            DiskOperation::Write(bytes) => {
                format!("{:?}", serde_json::from_slice::<Remembered>(bytes).expect("a job").state)
            }
            DiskOperation::CreateFolder | DiskOperation::Open => return,
            DiskOperation::Remove => "removed".to_owned(),
        };
        writes.lock().push(what);
    });
    (disk, written)
}

#[tokio::test]
async fn a_slow_disk_keeps_nobody_waiting_and_the_order_holds() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, written) = slow();
    let journal = Journal::of(&Library::new(folder.path().join("models")), Arc::new(disk));
    let name: ModelRef = "m".parse().unwrap();
    let asked = Asked { name: name.clone(), insecure: false, sources: Vec::new(), for_clients: false };
    let job = Arc::new(Job::new(1, name, asked, None, watch::Sender::new(0)));
    let asked = Instant::now();
    for state in [PullState::Queued, PullState::Running, PullState::Paused] {
        job.change(|view| view.state = state);
        journal.write(&job, 0);
    }
    job.wish.send_replace(Wish::Discard);
    journal.remove(&job);
    assert!(asked.elapsed() < PACE, "it took {:?} of the runtime's only thread", asked.elapsed());
    let mut ticks = 0;
    tokio::select! {
        () = journal.settled() => {}
        () = async { loop { tokio::time::sleep(PACE / 10).await; ticks += 1; } } => {}
    }
    assert!(ticks > 10, "others go on meanwhile: {ticks}");
    let written = written.lock().clone();
    assert_eq!(written.last().map(String::as_str), Some("removed"), "in the order of asking: {written:?}");
    assert_eq!(written[written.len() - 2], "Paused", "no older state comes after a newer one: {written:?}");
    assert!(!job.is_claimed(), "it is let go of");
    let left = std::fs::read_dir(folder.path().join("models/.cairn/pulls")).unwrap().count();
    assert_eq!(left, 0, "nothing stays");
}

//! A disk that takes its time, and who does not wait for it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use cairn_disk::{Blocks, Draft, Partial, RealDisk};
use tokio::sync::watch;

use super::*;
use crate::pull::job::Wish;

/// Every change of it takes a tenth of a second.
#[derive(Default)]
struct Slow {
    written: Mutex<Vec<String>>,
}

const PACE: Duration = Duration::from_millis(100);

impl Slow {
    fn changes(&self, what: &str) {
        std::thread::sleep(PACE);
        self.written.lock().unwrap().push(what.to_owned());
    }
}

impl Disk for Slow {
    fn read(&self, path: &Path) -> Result<Vec<u8>, DiskError> {
        RealDisk.read(path)
    }

    fn write_atomic(&self, path: &Path, bytes: &[u8], mode: Mode) -> Result<(), DiskError> {
        let state = serde_json::from_slice::<Remembered>(bytes).expect("a job").state;
        self.changes(&format!("{state:?}"));
        RealDisk.write_atomic(path, bytes, mode)
    }

    fn create_dir_all(&self, path: &Path) -> Result<(), DiskError> {
        std::thread::sleep(PACE);
        RealDisk.create_dir_all(path)
    }

    fn remove(&self, path: &Path) -> Result<(), DiskError> {
        self.changes("removed");
        RealDisk.remove(path)
    }

    fn free_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        RealDisk.free_bytes(path)
    }

    fn draft(&self, folder: &Path, mode: Mode) -> Result<Box<dyn Draft>, DiskError> {
        RealDisk.draft(folder, mode)
    }

    fn remove_dead_drafts(&self, folder: &Path) -> Result<usize, DiskError> {
        RealDisk.remove_dead_drafts(folder)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        RealDisk.link(from, to)
    }

    fn partial(&self, path: &Path, mode: Mode) -> Result<Box<dyn Partial>, DiskError> {
        RealDisk.partial(path, mode)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        RealDisk.rename(from, to)
    }

    fn open_blocks(&self, path: &Path) -> Result<Box<dyn Blocks>, DiskError> {
        RealDisk.open_blocks(path)
    }

    fn sync_folder(&self, path: &Path) -> Result<(), DiskError> {
        RealDisk.sync_folder(path)
    }

    fn touch(&self, path: &Path) -> Result<(), DiskError> {
        RealDisk.touch(path)
    }
}

#[tokio::test]
async fn a_slow_disk_keeps_nobody_waiting_and_the_order_holds() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Slow::default());
    let journal = Journal::of(&Library::new(folder.path().join("models")), Arc::clone(&disk) as Arc<dyn Disk>);
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
    let written = disk.written.lock().unwrap().clone();
    assert_eq!(written.last().map(String::as_str), Some("removed"), "in the order of asking: {written:?}");
    assert_eq!(written[written.len() - 2], "Paused", "no older state comes after a newer one: {written:?}");
    assert!(!job.is_claimed(), "it is let go of");
    let left = std::fs::read_dir(folder.path().join("models/.cairn/pulls")).unwrap().count();
    assert_eq!(left, 0, "nothing stays");
}

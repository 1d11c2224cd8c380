//! Crashes: a process that is killed at any time, and a disk that loses unsynced data. The next process always starts, finds no wrong row,
//! and counts the used bytes correctly.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_testkit::{FaultyDisk, Random};
use cairn_tier::TierKind;
use tempfile::TempDir;

use crate::scale;
use crate::workload::{Tally, Workload};
use crate::world::{Settings, TIMEOUT, World, disk_bytes};

/// Small tiers, so that chunks are evicted all the time.
pub(crate) fn small() -> Settings {
    Settings { ram_bytes: 1 << 20, ssd_bytes: 4 << 20, row_time: Duration::ZERO, ..Settings::default() }
}

/// Starts a child process that runs `crash_child_process` in this folder until it is killed.
pub(crate) fn spawn(folder: &Path, life: u64, is_guest: bool) -> Child {
    spawn_test("crash::crash_child_process", folder, life, is_guest)
}

/// Starts a child process that runs one of these tests in this folder.
pub(crate) fn spawn_test(name: &str, folder: &Path, life: u64, is_guest: bool) -> Child {
    let program = std::env::current_exe().expect("the path of this program");
    Command::new(program)
        .args([name, "--exact", "--nocapture"])
        .env(scale::CHILD, folder)
        .env(scale::LIFE, life.to_string())
        .env(scale::GUEST, u64::from(is_guest).to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the child process starts")
}

/// Error output of a process that has ended.
pub(crate) fn error_output(child: Child) -> String {
    String::from_utf8_lossy(&child.wait_with_output().expect("the process has ended").stderr).into_owned()
}

/// Runs in a folder that earlier processes have used: starts, counts the used bytes, and gives no wrong answer. Stops after one round if
/// it is not a child process.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn crash_child_process() {
    let alone = TempDir::new().expect("a temporary folder");
    let child = scale::folder_of_child();
    let folder = child.as_deref().unwrap_or(alone.path());
    let (number, is_guest) = (scale::number(scale::LIFE).unwrap_or(0), scale::number(scale::GUEST) == Some(1));
    let world = World::new(folder);
    let life = Arc::new(world.start(Settings { index: !is_guest, ..small() }));
    assert!(life.tiers.wait_idle(TIMEOUT), "the folder is scanned");
    let until = Instant::now() + TIMEOUT;
    loop {
        let (reported, used) =
            (life.place(TierKind::Ssd).used_bytes, disk_bytes(&cairn_testkit::chunk_files(&world.chunk_folder())));
        if reported == used || is_guest {
            break;
        }
        assert!(Instant::now() < until, "{reported} bytes are reported, and {used} are used");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    std::fs::write(folder.join(format!("up.{number}")), "").expect("the folder is writable");
    // All processes use the same seed, so they find the rows of earlier ones.
    let workload = Workload::new(&world, 0);
    for part in 0.. {
        let tally = workload.run(&life, 1000 * number + part, 10).await;
        assert_eq!((tally.wrong, tally.failed.len()), (0, 0), "{tally:#?}");
        if child.is_none() || scale::is_last(folder) {
            break;
        }
    }
    Arc::into_inner(life).expect("no client is left").end(Duration::from_secs(2)).await;
}

#[test]
fn crash_at_any_time_leaves_valid_chunks() {
    let lives = scale::runs(12);
    let home = TempDir::new().expect("a temporary folder");
    let folder = home.path();
    World::new(folder);
    let mut random = Random::from_name(lives.start, "kills");
    let began = Instant::now();
    for life in lives.clone() {
        let mut child = spawn(folder, life, false);
        std::thread::sleep(Duration::from_millis(random.below(400)));
        if child.try_wait().expect("a child process").is_some() {
            panic!("process {life} ended: {}", error_output(child));
        }
        child.kill().expect("a child process");
        child.wait().expect("a child process");
    }
    let up = lives.clone().filter(|life| folder.join(format!("up.{life}")).exists()).count() as u64;
    scale::mark_last(folder);
    let started = Instant::now();
    let last = spawn(folder, lives.end, false).wait_with_output().expect("a child process");
    assert!(last.status.success(), "the last process: {}", String::from_utf8_lossy(&last.stderr));
    let runs = lives.end - lives.start;
    println!(
        "{runs} processes killed from {} on, {up} of them after their start; the last ran {:.1} s with {} files; {:.0} s in all",
        lives.start,
        started.elapsed().as_secs_f64(),
        cairn_testkit::chunk_files(&folder.join("kept")).len(),
        began.elapsed().as_secs_f64()
    );
    assert!(up * 4 >= runs, "{up} of {runs} processes finished their start");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn crash_by_power_cut_leaves_valid_chunks() {
    let lives = scale::runs(8);
    let home = TempDir::new().expect("a temporary folder");
    let world = World::new(home.path());
    let workload = Workload::new(&world, 1);
    let mut random = Random::from_name(lives.start, "power");
    let mut tally = Tally::default();
    // On a busy machine, most cuts come before the first chunk is synced. Further lives follow until one restores rows.
    let count = lives.end - lives.start;
    for life_number in lives.start..lives.end + 4 * count {
        if life_number >= lives.end && tally.from_ssd > 0 {
            break;
        }
        let disk = FaultyDisk::fail_after(20 + random.below(2000) as usize);
        let life = Arc::new(world.start_on(Arc::new(disk.clone()), small()));
        tally.add(workload.run(&life, life_number, 8).await);
        Arc::into_inner(life).expect("no client is left").end(Duration::from_millis(200)).await;
        disk.cut_power();
        assert_eq!((tally.wrong, tally.failed.len()), (0, 0), "process {life_number}: {tally:#?}");
    }
    println!(
        "at least {count} power cuts: {} answers, {:.1} % with rows from SSD",
        tally.answers,
        tally.percent(tally.from_ssd)
    );
    assert!(tally.from_ssd > 0, "no rows from the disk: {tally:?}");
}

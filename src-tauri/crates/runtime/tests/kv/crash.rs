//! Crashes: a process that is killed at any moment of writing, renaming, removing and keeping its index, and a disk that loses what it
//! had not synced. What comes after finds no wrong row, always starts, and knows what room is taken.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_testkit::{FaultyDisk, Random};
use cairn_tier::Place;
use tempfile::TempDir;

use crate::scale;
use crate::talk::{Talks, Tally};
use crate::world::{SOON, Setting, World, room_bytes};

/// Small places, so that something is removed all the time.
pub(crate) fn small() -> Setting {
    Setting { ram_bytes: 1 << 20, ssd_bytes: 4 << 20, row_time: Duration::ZERO, ..Setting::default() }
}

/// A process that lives in this folder until it is killed: this program's own test of one life.
pub(crate) fn spawn(folder: &Path, life: u64, is_guest: bool) -> Child {
    let program = std::env::current_exe().expect("a program knows where it is");
    Command::new(program)
        .args(["crash::crash_a_life", "--exact", "--nocapture"])
        .env(scale::CHILD, folder)
        .env(scale::LIFE, life.to_string())
        .env(scale::GUEST, u64::from(is_guest).to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program starts once more")
}

/// What a process that ended by itself had to say.
pub(crate) fn last_words(child: Child) -> String {
    String::from_utf8_lossy(&child.wait_with_output().expect("it has ended").stderr).into_owned()
}

/// A life in a folder where others have lived: it starts, knows what room is taken, and no answer is wrong. Alone, it is short.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn crash_a_life() {
    let alone = TempDir::new().expect("a temporary folder can be made");
    let child = scale::folder_of_child();
    let folder = child.as_deref().unwrap_or(alone.path());
    let (number, is_guest) = (scale::number(scale::LIFE).unwrap_or(0), scale::number(scale::GUEST) == Some(1));
    let world = World::new(folder);
    let life = Arc::new(world.live(Setting { index: !is_guest, ..small() }));
    assert!(life.tiers.settle(SOON), "the folder is soon read");
    let until = Instant::now() + SOON;
    loop {
        let (told, taken) = (life.place(Place::Ssd).used_bytes, room_bytes(&cairn_testkit::chunk_files(&world.kept())));
        if told == taken || is_guest {
            break;
        }
        assert!(Instant::now() < until, "{told} bytes are told to be used, and {taken} are");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    std::fs::write(folder.join(format!("up.{number}")), "").expect("the folder is writable");
    // Everybody says the same things in each life, so that a life finds what those before it have kept.
    let talks = Talks::new(&world, 0);
    for part in 0.. {
        let tally = talks.go_on(&life, 1000 * number + part, 10).await;
        assert_eq!((tally.wrong, tally.failed.len()), (0, 0), "{tally:#?}");
        if child.is_none() || scale::is_last(folder) {
            break;
        }
    }
    Arc::into_inner(life).expect("everybody has left").end(Duration::from_secs(2)).await;
}

#[test]
fn crash_at_any_moment_leaves_nothing_wrong() {
    let lives = scale::runs(12);
    let home = TempDir::new().expect("a temporary folder can be made");
    let folder = home.path();
    World::new(folder);
    let mut random = Random::named(lives.start, "kills");
    let began = Instant::now();
    for life in lives.clone() {
        let mut child = spawn(folder, life, false);
        std::thread::sleep(Duration::from_millis(random.below(400)));
        if child.try_wait().expect("it is ours").is_some() {
            panic!("life {life} ended by itself: {}", last_words(child));
        }
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
    }
    let up = lives.clone().filter(|life| folder.join(format!("up.{life}")).exists()).count() as u64;
    scale::say_last(folder);
    let started = Instant::now();
    let last = spawn(folder, lives.end, false).wait_with_output().expect("it is ours");
    assert!(last.status.success(), "the last life: {}", String::from_utf8_lossy(&last.stderr));
    let runs = lives.end - lives.start;
    println!(
        "{runs} processes killed from {} on, {up} of them after their start; the last lived {:.1} s over {} files; {:.0} s in all",
        lives.start,
        started.elapsed().as_secs_f64(),
        cairn_testkit::chunk_files(&folder.join("kept")).len(),
        began.elapsed().as_secs_f64()
    );
    assert!(up * 4 >= runs, "{up} of {runs} lives came so far that something was written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn crash_of_the_power_leaves_nothing_wrong() {
    let lives = scale::runs(8);
    let home = TempDir::new().expect("a temporary folder can be made");
    let world = World::new(home.path());
    let talks = Talks::new(&world, 1);
    let mut random = Random::named(lives.start, "power");
    let mut tally = Tally::default();
    for life_number in lives.clone() {
        let disk = FaultyDisk::after(20 + random.below(600) as usize);
        let life = Arc::new(world.live_on(Arc::new(disk.clone()), small()));
        tally.add(talks.go_on(&life, life_number, 8).await);
        Arc::into_inner(life).expect("everybody has left").end(Duration::from_millis(200)).await;
        disk.cut_power();
        assert_eq!((tally.wrong, tally.failed.len()), (0, 0), "life {life_number}: {tally:#?}");
    }
    println!(
        "{} power cuts: {} answers, {:.1} % with rows from SSD",
        lives.count(),
        tally.answers,
        tally.percent(tally.from_ssd)
    );
    assert!(tally.from_ssd > 0, "nothing came from the disk: {tally:?}");
}

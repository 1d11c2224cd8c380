//! The trash under clocks that are wrong for a while.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cairn_chats::{ChatFilter, NewChat};
use cairn_hardware::Machine;

use crate::App;
use crate::clock::Clock;
use crate::settings::{Env, Places, Settings, System};

const DAY: u64 = 24 * 60 * 60;

/// A daemon whose clock is set by hand, in days since the test began.
struct Bench {
    app: App,
    days: Arc<AtomicU64>,
}

impl Bench {
    fn at(home: &std::path::Path, day: u64) -> Self {
        let env = Env::of([("CAIRN_HOME", &*home.to_string_lossy()), ("OLLAMA_KV_TIERING", "0")]);
        let settings = Settings::load(&env, &Places::of(&env, System::Xdg).unwrap());
        // A file's times come from the machine's own clock.
        static BEGAN: OnceLock<SystemTime> = OnceLock::new();
        let began = *BEGAN.get_or_init(|| home.metadata().and_then(|found| found.modified()).unwrap_or(UNIX_EPOCH));
        let days = Arc::new(AtomicU64::new(day));
        let hands = Arc::clone(&days);
        let clock = Clock::turned(move || began + Duration::from_secs(DAY * hands.load(Ordering::Relaxed)));
        Self { app: App::start(settings, Machine::probe(), clock, 1).unwrap(), days }
    }

    fn set(&self, day: u64) {
        self.days.store(day, Ordering::Relaxed);
    }

    fn in_trash(&self) -> usize {
        self.app.chats().list_chats(ChatFilter::Trash, None, 10).expect("a list").chats.len()
    }

    async fn delete_one(&self) {
        let (chat, _) = self.app.chats().create_chat(NewChat::default(), false).expect("a chat");
        self.app.chats().delete_chat(&chat.row.id, false).await.expect("deleted");
    }
}

#[tokio::test]
async fn a_clock_that_jumps_for_a_moment_deletes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let bench = Bench::at(home.path(), 0);
    assert_eq!(bench.in_trash(), 0, "the first look");
    bench.delete_one().await;
    bench.set(40);
    assert_eq!(bench.in_trash(), 1, "it may be wrong");
    bench.set(1);
    assert_eq!(bench.in_trash(), 1, "and was");
    bench.set(40);
    assert_eq!(bench.in_trash(), 1, "once more");
    bench.set(41);
    assert_eq!(bench.in_trash(), 0, "a day later it is believed");
}

#[tokio::test]
async fn a_daemon_that_starts_goes_by_what_was_written_last() {
    let home = tempfile::tempdir().unwrap();
    let bench = Bench::at(home.path(), 0);
    bench.delete_one().await;
    drop(bench);
    let later = Bench::at(home.path(), 40);
    assert_eq!(later.in_trash(), 1, "nothing else says that so much time has passed");
    later.set(41);
    assert_eq!(later.in_trash(), 0, "but now the daemon itself");
}

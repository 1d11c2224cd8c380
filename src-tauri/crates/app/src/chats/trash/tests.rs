//! The trash with wrong clocks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cairn_chats::{ChatFilter, NewChatRequest};

use crate::App;
use crate::clock::Clock;
use crate::settings::{Env, Places, Settings, System};

const DAY: u64 = 24 * 60 * 60;

/// A daemon with a settable clock, in days since the start of the test.
struct Bench {
    app: App,
    days: Arc<AtomicU64>,
}

impl Bench {
    fn at(home: &std::path::Path, day: u64) -> Self {
        let env = Env::of([("CAIRN_HOME", &*home.to_string_lossy()), ("OLLAMA_KV_TIERING", "0")]);
        let settings = Settings::load(&env, &Places::of(&env, System::Xdg).unwrap());
        // The modification times of files come from the machine's clock.
        static START: OnceLock<SystemTime> = OnceLock::new();
        let start = *START.get_or_init(|| home.metadata().and_then(|found| found.modified()).unwrap_or(UNIX_EPOCH));
        let days = Arc::new(AtomicU64::new(day));
        let now = Arc::clone(&days);
        let clock = Clock::from_fn(move || start + Duration::from_secs(DAY * now.load(Ordering::Relaxed)));
        Self { app: App::for_test(settings, clock), days }
    }

    fn set(&self, day: u64) {
        self.days.store(day, Ordering::Relaxed);
    }

    fn in_trash(&self) -> usize {
        self.app.chats().list_chats(ChatFilter::Trash, None, 10).expect("a list").chats.len()
    }

    async fn delete_one(&self) {
        let chat = self.app.chats().create_chat(NewChatRequest::default()).expect("a chat");
        self.app.chats().delete_chat(&chat.stored.row.id, false).await.expect("deleted");
    }
}

#[tokio::test]
async fn trash_survives_a_short_clock_jump() {
    let home = tempfile::tempdir().unwrap();
    let bench = Bench::at(home.path(), 0);
    assert_eq!(bench.in_trash(), 0, "the first purge");
    bench.delete_one().await;
    bench.set(40);
    assert_eq!(bench.in_trash(), 1, "the clock may be wrong");
    bench.set(1);
    assert_eq!(bench.in_trash(), 1, "the clock was wrong");
    bench.set(40);
    assert_eq!(bench.in_trash(), 1, "a second jump");
    bench.set(41);
    assert_eq!(bench.in_trash(), 0, "the time is confirmed a day later");
}

#[tokio::test]
async fn trash_age_uses_the_last_write_after_a_start() {
    let home = tempfile::tempdir().unwrap();
    let bench = Bench::at(home.path(), 0);
    bench.delete_one().await;
    drop(bench);
    let later = Bench::at(home.path(), 40);
    assert_eq!(later.in_trash(), 1, "only the clock reports the elapsed time");
    later.set(41);
    assert_eq!(later.in_trash(), 0, "the daemon has run for a day");
}

//! An answer during which the work panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::SystemTime;

use cairn_chats::{ChatLine, NewChatRequest, SendRequest};

use crate::App;
use crate::clock::Clock;
use crate::settings::{Env, Places, Settings, System};

#[tokio::test]
async fn answer_that_panics_fails_and_leaves_the_chat_usable() {
    let home = tempfile::tempdir().unwrap();
    let env = Env::of([("CAIRN_HOME", &*home.path().to_string_lossy()), ("OLLAMA_KV_TIERING", "0")]);
    let settings = Settings::load(&env, &Places::of(&env, System::Xdg).unwrap());
    // Reads of the clock until it panics.
    let left = Arc::new(AtomicIsize::new(-1));
    let counted = Arc::clone(&left);
    let own = std::thread::current().id();
    let app = App::for_test(
        settings,
        Clock::from_fn(move || {
            // Only the task of the answer runs on this thread: the chat is stored on blocking ones, and the scheduler has its own.
            let is_own = std::thread::current().id() == own;
            assert!(!is_own || counted.fetch_sub(1, Ordering::Relaxed) != 0, "the clock panics once");
            SystemTime::UNIX_EPOCH
        }),
    );
    let new = NewChatRequest { model: Some("pebble".to_owned()), ..NewChatRequest::default() };
    let chat = app.chats().create_chat(new).unwrap().stored.row.id;
    let ask = || SendRequest { content: "Hello".to_owned(), ..SendRequest::default() };
    let end = async |reads: isize| {
        left.store(reads, Ordering::Relaxed);
        let mut follower = app.chats().ask_in_chat(&chat, ask(), ()).await.unwrap();
        let mut last = None;
        while let Some(line) = follower.next().await {
            last = Some(line);
        }
        (last, left.load(Ordering::Relaxed) < 0)
    };
    // The clock panics at each of its reads in turn, also while the end is stored.
    let mut reads = 0;
    while let (last, true) = end(reads).await {
        let Some(ChatLine::Failed(message)) = last else { panic!("read {reads}: {last:?}") };
        assert!(message.error.is_some_and(|error| error.error.contains("internal error")), "read {reads}");
        reads += 1;
    }
    assert!(reads > 1, "the clock is read while the answer is computed, and when it is stored");
    assert!(matches!(end(-1).await.0, Some(ChatLine::Done(_))), "the next message is answered");
}

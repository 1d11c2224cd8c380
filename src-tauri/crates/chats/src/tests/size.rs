//! Lists of 5,000 chats and searches over 50,000 messages.
//!
//! The times depend on the machine and the build, so they are printed and not asserted:
//! `cargo test --release -p cairn-chats many -- --nocapture`.

use std::time::{Duration, Instant};

use super::*;

const CHATS: usize = 5000;
const MESSAGES_PER_CHAT: usize = 10;
const ROUNDS: u32 = 20;

/// Generates a sentence with common and rare words.
pub(super) fn sentence(seed: u64) -> String {
    const WORDS: [&str; 16] = [
        "model", "answer", "window", "bread", "granite", "river", "模型", "翻译", "quick", "memory", "paper", "train",
        "green", "number", "letter", "天气",
    ];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut words = vec!["the".to_owned()];
    for _ in 0..60 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let pick = usize::try_from(state >> 60).unwrap_or(0);
        words.push(format!(
            "{}{}",
            WORDS[pick],
            if state >> 40 & 3 == 0 { (state >> 20 & 0xfff).to_string() } else { String::new() }
        ));
    }
    words.join(" ")
}

fn timed<T>(what: &str, mut work: impl FnMut() -> T) -> T {
    let mut times: Vec<Duration> = Vec::new();
    let mut last = None;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        last = Some(work());
        times.push(start.elapsed());
    }
    times.sort();
    println!("{what}: median {:?}, slowest {:?}", times[times.len() / 2], times[times.len() - 1]);
    last.expect("there was a round")
}

#[test]
fn many_chats_are_listed_and_searched() {
    let home = Home::new();
    let chats: Vec<ImportedChat> = (0..CHATS)
        .map(|chat| {
            let messages = (0..MESSAGES_PER_CHAT).map(|n| {
                let role = if n % 2 == 0 { "user" } else { "assistant" };
                let text = sentence((chat * MESSAGES_PER_CHAT + n) as u64);
                let parent = n.checked_sub(1).map(|n| n.to_string());
                ChatMessage { id: n.to_string(), parent, ..message(role, &text, n as i64) }
            });
            let mut imported = imported(&format!("c{chat}"), messages.collect());
            imported.export.chat.row.updated_at = at(chat as i64);
            imported
        })
        .collect();
    let start = Instant::now();
    let report = home.chats.import(&chats, TrashPolicy::Keep).expect("written");
    println!("{CHATS} chats with {} messages written in {:?}", report.messages, start.elapsed());

    let all = timed("all chats listed", || home.chats.list(&ChatFilter::Unpinned, None, CHATS).expect("a list"));
    assert_eq!((all.chats.len(), all.next), (CHATS, None), "all chats");
    let first = timed("a first page of 100", || home.chats.list(&ChatFilter::Unpinned, None, 100).expect("a list"));
    assert_eq!(first.chats[0].id, format!("c{}", CHATS - 1), "last updated first");
    for (search, least) in [
        ("the", 50),
        ("granite river", 50),
        ("模型", 50),
        ("t", 50),
        ("gran", 50),
        ("gr", 50),
        ("answ numb lett", 50),
        ("天", 50),
        ("granite4095", 1),
    ] {
        let hits = timed(&format!("search for {search:?}"), || home.chats.search(search, 50).expect("a search"));
        assert!(hits.len() >= least, "{search:?} has {} hits", hits.len());
    }
    let none = timed("search for a missing word", || home.chats.search("zeppelin", 50).expect("a search"));
    assert_eq!(none, [], "no hits");
    home.chats.delete("c7").expect("deleted");
    let start = Instant::now();
    home.chats.erase_deleted(1).expect("erased");
    println!("copies of a deleted chat erased in {:?}", start.elapsed());
    let start = Instant::now();
    home.chats.back_up_if_due(1).expect("a backup");
    println!("a backup written in {:?}", start.elapsed());
    let start = Instant::now();
    home.chats.read(quick_check).expect("no damage");
    println!(
        "the file checked in {:?}, {} bytes",
        start.elapsed(),
        home.folder.path().join("chats.sqlite").metadata().map_or(0, |found| found.len())
    );
}

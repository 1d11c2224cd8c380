//! Searches for long, pasted texts.

use std::time::{Duration, Instant};

use super::*;

#[test]
fn search_for_a_pasted_text_is_fast() {
    let home = Home::new();
    home.create("c", 1);
    let text: String = (0..4000).map(|n| format!("word{n} ")).collect();
    home.add("c", None, "user", &text, 2);
    let chinese = "\u{6211}\u{4eec}\u{4eca}\u{5929}".repeat(2000);
    home.add("c", None, "user", &chinese, 3);
    let check = |search: &str, hits: usize| {
        let start = Instant::now();
        let found = home.chats.search(search, 50).expect("a search").len();
        let elapsed = start.elapsed();
        assert_eq!(found, hits, "{search:.40}");
        // Far above the usual time, and far below the time of a search for all words.
        assert!(elapsed < Duration::from_secs(3), "{search:.40}: {elapsed:?}");
    };
    check(&text, 1);
    check(&chinese, 1);
    check(&"a ".repeat(8000), 0);
    check(&"w ".repeat(8000), 1);
    check(&"x".repeat(60_000), 0);
    check(&('a'..='z').flat_map(|a| ('a'..='z').map(move |b| format!("{a} {b} "))).collect::<String>(), 0);
}

//! `cairn cache status`: how full each tier is, as bars, and what it has done.

use cairn_wire::app::{CacheResponse, CacheTier};

use super::label;
use crate::client::Client;
use crate::{human, output};

/// Width of a usage bar in terminal columns.
const BAR: usize = 24;

pub(super) async fn print(client: &Client, json: bool) -> anyhow::Result<()> {
    let status: CacheResponse = client.get("/app/cache").await?;
    match json {
        true => output::json(&status),
        false => output::print(&text(&status)),
    }
}

pub(super) fn text(status: &CacheResponse) -> String {
    if status.tiers.is_empty() {
        return "the cache has no tiers; see the settings CAIRN_KV_RAM and OLLAMA_KV_TIERING\n".to_owned();
    }
    let mut text: String = status.tiers.iter().map(tier).collect();
    if let Some(folder) = &status.folder {
        text += &format!("folder: {folder}\n");
    }
    if let Some(remote) = &status.remote {
        text += &format!("remote: {remote}\n");
    }
    if let Some(key) = &status.key {
        text += &format!("encrypted with a key {key}\n");
    }
    if status.prompt_tokens > 0 {
        let percent = status.cached_tokens as f64 / status.prompt_tokens as f64 * 100.0;
        let (cached, all) = (status.cached_tokens, status.prompt_tokens);
        text += &format!("hit rate: {percent:.0}% ({cached} of {all} prompt tokens)\n");
    }
    if status.saved_today_ms > 0 {
        text += &format!("saved today: {}\n", saved_time(status.saved_today_ms));
    }
    if let [_, ..] = status.recomputed.as_slice() {
        let reasons = status.recomputed.iter().map(|one| format!("{} {}", one.tokens, reason(&one.reason)));
        text += &format!("computed: {}\n", reasons.collect::<Vec<_>>().join(", "));
    }
    if status.dropped > 0 {
        text += &format!("not stored, for lack of space or time: {} chunks\n", status.dropped);
    }
    if status.cut_short > 0 {
        text += &format!("incomplete restores: {}\n", status.cut_short);
    }
    text
}

/// Why prompt tokens were computed.
fn reason(name: &str) -> &str {
    match name {
        "miss" => "not in the cache",
        "cheaper" => "faster than a restore",
        "deadline" => "restored too late",
        "corrupt" => "damaged in the cache",
        "incompatible" => "cached by another version",
        "no_pages" => "without memory for a restore",
        other => other,
    }
}

fn tier(tier: &CacheTier) -> String {
    let bytes = human::bytes;
    let bar = bar(tier.used_bytes, tier.budget_bytes);
    let (used, budget) = (bytes(tier.used_bytes), bytes(tier.budget_bytes));
    let mut text = format!("{:<7}{bar} {used} of {budget}, {} chunks\n", label(tier.tier), tier.chunks);
    let flows = [
        (tier.stored_bytes, "stored"),
        (tier.restored_bytes, "restored"),
        (tier.evicted_bytes, "evicted"),
        (tier.queued_bytes, "waiting to be written"),
        (tier.written_today_bytes, "written today"),
    ];
    let flows: Vec<String> =
        flows.iter().filter(|(count, _)| *count > 0).map(|(count, name)| format!("{} {name}", bytes(*count))).collect();
    if !flows.is_empty() {
        text += &format!("       {}\n", flows.join(", "));
    }
    if tier.removing_chunks > 0 {
        text += &format!("       {} chunks queued for removal\n", tier.removing_chunks);
    }
    if let Some(reason) = &tier.reason {
        text += &format!("       {}: {reason}\n", tier.health.replace('_', " "));
    }
    text
}

/// Renders the fill level as a bar, with a resolution of an eighth of a column.
fn bar(used: u64, budget: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let part = (used as f64 / budget.max(1) as f64).min(1.0);
    let eighths = (part * (BAR * 8) as f64).round() as usize;
    let full = format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8]);
    format!("[{full:<BAR$}]")
}

fn saved_time(ms: u64) -> String {
    match ms / 1000 {
        0 => format!("{ms} ms"),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_wire::app::{CacheRecomputed, TierName};

    #[test]
    fn tier_bar_shows_fill_level() {
        let check = |used, budget, expected: &str| {
            let bar = bar(used, budget);
            assert_eq!(bar.trim_matches(['[', ']']).trim_end(), expected, "{used} of {budget}");
            assert_eq!(bar.chars().count(), BAR + 2, "the bar has a fixed width: {bar}");
        };
        check(0, 100, "");
        check(50, 100, "████████████");
        check(100, 100, "████████████████████████");
        check(300, 100, "████████████████████████");
        check(1, 192, "▏");
        check(0, 0, "");
    }

    #[test]
    fn status_text_shows_tiers_with_their_health() {
        let tier = CacheTier {
            tier: TierName::Ssd,
            health: "read_only".to_owned(),
            reason: Some("it is full".to_owned()),
            budget_bytes: 20_000_000_000,
            used_bytes: 5_000_000_000,
            chunks: 7,
            queued_bytes: 0,
            removing_chunks: 3,
            stored_bytes: 6_000_000_000,
            restored_bytes: 0,
            hit_tokens: 0,
            evicted_bytes: 1_000_000_000,
            written_today_bytes: 0,
            read_bytes_per_second: None,
            damaged: 0,
        };
        let status = CacheResponse {
            tiers: vec![tier],
            folder: Some("/k".to_owned()),
            prompt_tokens: 200,
            cached_tokens: 150,
            saved_today_ms: 2_460_000,
            recomputed: vec![
                CacheRecomputed { reason: "miss".to_owned(), tokens: 40 },
                CacheRecomputed { reason: "deadline".to_owned(), tokens: 10 },
            ],
            ..CacheResponse::default()
        };
        let expected = "SSD    [██████                  ] 5 GB of 20 GB, 7 chunks\n       \
                        6 GB stored, 1 GB evicted\n       3 chunks queued for removal\n       read only: it is full\nfolder: /k\n\
                        hit rate: 75% (150 of 200 prompt tokens)\nsaved today: 41 min\ncomputed: 40 not in the cache, 10 restored too late\n";
        assert_eq!(text(&status), expected, "counters that are zero are omitted");
        assert!(text(&CacheResponse::default()).contains("CAIRN_KV_RAM"), "the text names the settings");
    }
}

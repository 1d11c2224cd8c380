//! `cairn cache top`: cached contexts, most recently used first.

use std::time::{Duration, SystemTime};

use cairn_wire::app::{CacheContext, CacheContexts, CacheResponse};

use super::status;
use crate::client::Client;
use crate::table::{render, row};
use crate::{CliContext, human, output, terminal};

/// Time between two updates at a terminal.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);
/// Terminal command: moves the cursor to the upper left corner and clears the screen below it.
const CLEAR_SCREEN: &str = "\x1b[H\x1b[J";

pub(super) async fn top(cli: &CliContext, client: &Client, limit: usize, json: bool) -> anyhow::Result<()> {
    loop {
        let mut contexts: CacheContexts = client.get("/app/cache/contexts").await?;
        contexts.contexts.truncate(limit);
        if json {
            return output::json(&contexts);
        }
        let table = text(&contexts, cli.clock.now());
        if !terminal::is_stdout_terminal() {
            return output::print(&table);
        }
        let status: CacheResponse = client.get("/app/cache").await?;
        clear_screen()?;
        output::print(&format!("{}\n{table}", status::text(&status)))?;
        tokio::select! {
            () = tokio::time::sleep(REDRAW_INTERVAL) => {}
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
    }
}

/// Bypasses [`output::print`], which would escape the command.
fn clear_screen() -> anyhow::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout();
    out.write_all(CLEAR_SCREEN.as_bytes())?;
    Ok(out.flush()?)
}

fn text(contexts: &CacheContexts, now: SystemTime) -> String {
    if contexts.contexts.is_empty() {
        return "nothing is cached yet; a chat is cached when it is idle for half a minute or its model unloads\n"
            .to_owned();
    }
    let mut rows = vec![row(["ID", "MODEL", "TOKENS", "RAM", "SSD", "REMOTE", "USED", "OWNER", ""])];
    rows.extend(contexts.contexts.iter().map(|context| cells(context, now)));
    render(&rows)
}

fn cells(context: &CacheContext, now: SystemTime) -> Vec<String> {
    let bytes = |bytes: u64| if bytes == 0 { "-".to_owned() } else { human::bytes(bytes) };
    let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    vec![
        context.id.clone(),
        context.model.clone().unwrap_or_else(|| "-".to_owned()),
        context.tokens.to_string(),
        bytes(context.ram_bytes),
        bytes(context.ssd_bytes),
        bytes(context.remote_bytes),
        human::relative(context.last_used_at, now),
        or_none(context.owners.join(",")),
        if context.pinned { "pinned" } else { "" }.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_wire::Timestamp;

    #[test]
    fn context_table_has_one_row_per_context() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let context = CacheContext {
            id: "00ff00ff00ff00ff".to_owned(),
            owners: vec!["chat-12".to_owned()],
            model: None,
            tokens: 812,
            bytes: 30,
            ram_bytes: 0,
            ssd_bytes: 4_700_000,
            remote_bytes: 0,
            hits: 1,
            last_used_at: Timestamp(now - Duration::from_secs(180)),
            pinned: true,
        };
        let table = text(&CacheContexts { contexts: vec![context] }, now);
        let row = table.lines().nth(1).expect("a row after the header");
        let words: Vec<&str> = row.split_whitespace().collect();
        let expected = "00ff00ff00ff00ff - 812 - 4.7 MB - 3 minutes ago chat-12 pinned";
        assert_eq!(words.join(" "), expected, "in the order of the header");
        assert!(
            text(&CacheContexts::default(), now).contains("half a minute"),
            "an empty list explains when chats are cached"
        );
    }
}

//! `cairn cache`: status and content of the KV cache.

mod fsck;
mod status;
mod top;
mod trace;

use anyhow::bail;
use cairn_wire::app::{CacheClear, CacheContexts, CacheDeleted, CacheOwner, CacheWhich, TierName};

use crate::args::cache::{Cache, CacheVerb, Clear, ContextSelection, Drop};
use crate::client::Client;
use crate::{CliContext, daemon, output, terminal};

pub(crate) async fn cache(cli: &CliContext, args: &Cache) -> anyhow::Result<()> {
    if let Some(CacheVerb::Fsck(fsck)) = &args.verb {
        return fsck::fsck(cli, fsck.fix, fsck.json || args.json).await;
    }
    let client = daemon::connect_or_start(cli).await?;
    client.require_own_daemon("the prompt cache")?;
    let json = args.json;
    match &args.verb {
        None => status::print(&client, json).await,
        Some(CacheVerb::Status(args)) => status::print(&client, json || args.json).await,
        Some(CacheVerb::Top(args)) => top::top(cli, &client, args.limit, json || args.json).await,
        Some(CacheVerb::Pin(which)) => pin(&client, "pin", which, json).await,
        Some(CacheVerb::Unpin(which)) => pin(&client, "unpin", which, json).await,
        Some(CacheVerb::Drop(which)) => drop_some(&client, which, json).await,
        Some(CacheVerb::Trace(args)) => trace::trace(&client, args, json).await,
        Some(CacheVerb::Clear(args)) => clear(&client, args, json).await,
        Some(CacheVerb::Fsck(_)) => unreachable!("`fsck` is handled above, because it needs no daemon"),
    }
}

async fn pin(client: &Client, verb: &str, which: &ContextSelection, json: bool) -> anyhow::Result<()> {
    let mut after = CacheContexts::default();
    for context in &which.contexts {
        after = client.post(&format!("/app/cache/{verb}"), &CacheWhich { context: context.clone() }).await?;
    }
    match (json || which.json, verb) {
        (true, _) => output::json(&after),
        (false, "pin") => output::print("pinned until `cairn cache unpin`\n"),
        (false, _) => output::print("unpinned; eviction is possible again\n"),
    }
}

async fn drop_some(client: &Client, which: &Drop, json: bool) -> anyhow::Result<()> {
    let mut all = CacheDeleted::default();
    let mut add = |deleted: CacheDeleted| {
        all.chunks += deleted.chunks;
        all.left = deleted.left;
    };
    if let Some(owner) = &which.owner {
        add(client.delete_with_response("/app/cache/owner", &CacheOwner { owner: owner.clone() }).await?);
    }
    for context in &which.contexts {
        add(client.post("/app/cache/drop", &CacheWhich { context: context.clone() }).await?);
    }
    print_deleted(&all, json || which.json)
}

async fn clear(client: &Client, args: &Clear, json: bool) -> anyhow::Result<()> {
    let tier = args.tier.as_deref().map(tier).transpose()?;
    if !args.yes && terminal::is_stdin_terminal() {
        let target = tier.map_or_else(|| "all cached prompts".to_owned(), |tier| format!("tier {}", label(tier)));
        output::note(&format!("Delete {target}? Prompts will be computed again. [y/N]"));
        if !terminal::read_consent()? {
            bail!("nothing was deleted");
        }
    }
    print_deleted(&client.post("/app/cache/clear", &CacheClear { tier }).await?, json || args.json)
}

fn print_deleted(deleted: &CacheDeleted, json: bool) -> anyhow::Result<()> {
    match json {
        true => output::json(deleted),
        false => output::print(&text(deleted)),
    }
}

fn text(deleted: &CacheDeleted) -> String {
    let chunks = match deleted.chunks {
        0 => "nothing was cached".to_owned(),
        1 => "deleted 1 chunk".to_owned(),
        chunks => format!("deleted {chunks} chunks"),
    };
    match deleted.left {
        0 => format!("{chunks}\n"),
        left => format!("{chunks}; {left} of their files cannot be removed yet; the daemon will retry\n"),
    }
}

fn tier(name: &str) -> anyhow::Result<TierName> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "ram" => TierName::Ram,
        "ssd" => TierName::Ssd,
        "remote" => TierName::Remote,
        _ => bail!("unknown tier {name:?}; use ram, ssd or remote"),
    })
}

/// Returns the display name of a tier.
fn label(tier: TierName) -> &'static str {
    match tier {
        TierName::Ram => "RAM",
        TierName::Ssd => "SSD",
        TierName::Remote => "remote",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletion_text_counts_chunks_and_leftover_files() {
        let check = |chunks, left, expected: &str| {
            assert_eq!(text(&CacheDeleted { chunks, left }), expected, "{chunks} {left}")
        };
        check(0, 0, "nothing was cached\n");
        check(1, 0, "deleted 1 chunk\n");
        check(5, 2, "deleted 5 chunks; 2 of their files cannot be removed yet; the daemon will retry\n");
    }

    #[test]
    fn tier_name_is_parsed_ignoring_case() {
        assert_eq!(tier("SSD").ok(), Some(TierName::Ssd), "in capitals too");
        assert!(tier("disk").is_err_and(|error| error.to_string().contains("ram, ssd or remote")), "an unknown name");
    }
}

//! The command line of `cairn cache`.

use clap::{Args, Subcommand};

use super::Json;

#[derive(Debug, Args)]
pub(crate) struct Cache {
    #[command(subcommand)]
    pub(crate) verb: Option<CacheVerb>,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CacheVerb {
    /// Show usage and counters of each tier
    Status(Json),
    /// List cached contexts, most recently used first; a terminal shows updates until Ctrl-C
    Top(Top),
    /// Protect contexts from eviction and expiry
    Pin(ContextSelection),
    /// Allow contexts to be evicted again
    Unpin(ContextSelection),
    /// Delete contexts, except prefixes that other contexts share
    Drop(Drop),
    /// Show how much of a prompt is cached, and the reason for the miss
    Trace(Trace),
    /// Verify every chunk of the folder and list the damaged ones
    Fsck(Fsck),
    /// Delete all cached prompts, or those of one tier
    Clear(Clear),
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Show at most N contexts
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    /// As JSON, for scripts: once
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ContextSelection {
    /// Ids, as `cairn cache top` shows them, or at least their first four letters
    #[arg(required = true)]
    pub(crate) contexts: Vec<String>,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Drop {
    /// Ids, as `cairn cache top` shows them, or at least their first four letters
    #[arg(required_unless_present = "owner")]
    pub(crate) contexts: Vec<String>,
    /// Delete all that belongs only to this owner, the name that a client sent in X-Cairn-Owner
    #[arg(long, conflicts_with = "contexts")]
    pub(crate) owner: Option<String>,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Trace {
    /// Model name
    pub(crate) model: String,
    /// The prompt; text on standard input precedes it
    pub(crate) prompt: Vec<String>,
    /// A file with the prompt
    #[arg(short, long, conflicts_with = "prompt")]
    pub(crate) file: Option<std::path::PathBuf>,
    /// The text is JSON: a list of messages, or a request of /api/chat
    #[arg(long, conflicts_with = "raw")]
    pub(crate) chat: bool,
    /// Do not apply the model's template
    #[arg(long)]
    pub(crate) raw: bool,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Fsck {
    /// Remove damaged and unusable chunks; the daemon must not run
    #[arg(long)]
    pub(crate) fix: bool,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Clear {
    /// Clear only this tier: ram, ssd or remote
    pub(crate) tier: Option<String>,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

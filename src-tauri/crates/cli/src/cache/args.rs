//! The command line of `cairn cache`.

use clap::{Args, Subcommand};

use crate::args::Json;

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
    /// Show how full each tier is, and what it has done
    Status(Json),
    /// List what is kept, the last used first; at a terminal, until it is interrupted
    Top(Top),
    /// Keep some from being evicted or forgotten
    Pin(Which),
    /// Let some go again when room is needed
    Unpin(Which),
    /// Delete some, but for what others begin with too
    Drop(Drop),
    /// Say what is kept of a prompt, and why it is not more
    Trace(Trace),
    /// Read every chunk of the folder, and say which are damaged
    Fsck(Fsck),
    /// Delete everything, or what one tier has
    Clear(Clear),
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// The most to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    /// As JSON, for scripts: once
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Which {
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
    /// All that is only this owner's, by the name that a client gave in X-Cairn-Owner
    #[arg(long, conflicts_with = "contexts")]
    pub(crate) owner: Option<String>,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Trace {
    /// A model's name
    pub(crate) model: String,
    /// The prompt; text on standard input comes before it
    pub(crate) prompt: Vec<String>,
    /// A file that has it
    #[arg(short, long, conflicts_with = "prompt")]
    pub(crate) file: Option<std::path::PathBuf>,
    /// The text is a conversation, in JSON: a list of messages, or a request as /api/chat takes it
    #[arg(long, conflicts_with = "raw")]
    pub(crate) chat: bool,
    /// The text goes in as it is, without the model's template
    #[arg(long)]
    pub(crate) raw: bool,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Fsck {
    /// Remove what is damaged or of no use; the daemon must not run
    #[arg(long)]
    pub(crate) fix: bool,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Clear {
    /// Only this one: ram, ssd or remote
    pub(crate) tier: Option<String>,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

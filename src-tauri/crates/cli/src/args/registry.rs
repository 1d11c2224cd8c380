//! The command lines of verbs that use registries and mirrors.

use clap::{Args, Subcommand};

use super::Json;

#[derive(Debug, Args)]
pub(crate) struct Search {
    /// Words of a model's name or description, for example `qwen coder`
    #[arg(required = true)]
    pub(crate) query: Vec<String>,
    /// At most N models, default 10; a model of Ollama's library has a row for each of its sizes
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Updates {
    /// The model; all pulled models without it
    pub(crate) model: Option<String>,
    /// Connect to the registries over plain http
    #[arg(long)]
    pub(crate) insecure: bool,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Pull {
    /// Model names: `llama3.2`, `hf.co/user/repo:Q4_K_M`, `host:port/library/model`
    #[arg(required = true)]
    pub(crate) models: Vec<String>,
    /// Download in the background
    #[arg(long)]
    pub(crate) detach: bool,
    /// Limit of all downloads together in bytes per second, for example 20M; `none` or 0 removes the limit
    #[arg(long, value_name = "RATE")]
    pub(crate) limit: Option<String>,
    /// Connect to the registry over plain http
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Download even models that this version cannot run, for example to share them
    #[arg(long)]
    pub(crate) force: bool,
    /// A mirror that takes precedence over the registry, for example `http://nas:11434`; may be repeated
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub(crate) source: Vec<String>,
    /// As JSON, for scripts: one line for each step
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Push {
    /// A model name with its destination: `me/model`, `host:port/library/model`; `cairn cp` gives a model a new name
    pub(crate) model: String,
    /// Connect to the registry over plain http
    #[arg(long)]
    pub(crate) insecure: bool,
    /// As JSON, for scripts: one line for each step
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Login {
    /// The registry, `host` or `host:port`; without one, the stored logins are listed
    pub(crate) registry: Option<String>,
    /// The user name; if absent, a terminal asks for it
    #[arg(short, long, value_name = "NAME")]
    pub(crate) username: Option<String>,
    /// Read the password from standard input even if that is a terminal
    #[arg(long)]
    pub(crate) password_stdin: bool,
    /// A token server on another host that may receive the password; may be repeated
    #[arg(long, value_name = "HOST")]
    pub(crate) token_server: Vec<String>,
    /// Send the password unencrypted over plain http
    #[arg(long)]
    pub(crate) insecure: bool,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Logout {
    /// The registry, `host` or `host:port`
    pub(crate) registry: String,
}

#[derive(Debug, Args)]
pub(crate) struct Downloads {
    #[command(subcommand)]
    pub(crate) verb: Option<DownloadsVerb>,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DownloadsVerb {
    /// List downloads
    #[command(alias = "list")]
    Ls {
        /// As JSON, for scripts
        #[arg(long)]
        json: bool,
    },
    /// Pause downloads until they are resumed
    Pause(DownloadSelection),
    /// Resume paused, stopped or failed downloads
    Resume(DownloadSelection),
    /// Cancel downloads and keep their partial files
    Cancel(DownloadSelection),
    /// Cancel downloads and remove their partial files
    Discard(DownloadSelection),
}

#[derive(Debug, Args)]
pub(crate) struct Mirror {
    #[command(subcommand)]
    pub(crate) verb: MirrorVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MirrorVerb {
    /// Show the state of this mirror and an invitation code for another machine
    Serve(Json),
    /// Join a mirror: pull models from it and trust its manifests
    Join {
        /// Address of the mirror, for example `http://nas:11434`
        address: String,
        /// Invitation code that `cairn mirror serve` shows on the mirror
        code: String,
    },
    /// Allow the owner of a key to have models fetched
    Allow {
        /// The line of a public key file, for example ~/.ollama/id_ed25519.pub: `ssh-ed25519 AAAA... name`
        key: String,
    },
    /// Forget a key or a joined mirror
    Forget {
        /// A label, a key or a fingerprint
        which: String,
    },
    /// List trusted keys, joined mirrors and the peers on the local network
    Peers(Json),
    /// Show transfer statistics of each client
    Stats(Json),
}

#[derive(Debug, Args)]
pub(crate) struct DownloadSelection {
    /// Download ids or model names
    #[arg(required = true)]
    pub(crate) downloads: Vec<String>,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

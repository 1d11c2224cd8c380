//! The command line of `cairn key`.

use clap::{Args, Subcommand, ValueEnum};

use super::Json;

#[derive(Debug, Args)]
pub(crate) struct Key {
    #[command(subcommand)]
    pub(crate) verb: KeyVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyVerb {
    /// Create a key and print it; it is not shown again
    Create {
        /// Name that `list` shows and `revoke` takes
        name: String,
        /// What the key allows
        #[arg(long)]
        scope: ScopeArg,
        /// As JSON, for scripts
        #[arg(long)]
        json: bool,
    },
    /// List the keys
    List(Json),
    /// Revoke a key immediately
    Revoke {
        /// Name of the key, or the key itself
        name: String,
    },
}

/// What a key allows.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ScopeArg {
    /// Read `/metrics` from any machine
    Metrics,
}

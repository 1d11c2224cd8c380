//! The command line of `cairn remote`.

use clap::{Args, Subcommand};

use super::Json;

#[derive(Debug, Args)]
pub(crate) struct Remote {
    #[command(subcommand)]
    pub(crate) verb: RemoteVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RemoteVerb {
    /// Add a server: another Cairn, Ollama, vLLM, SGLang, llama-server or any with the OpenAI API
    Add {
        /// Name that lists and errors show
        name: String,
        /// Address, for example http://192.168.1.20:11434 or https://example.org/v1
        url: String,
        /// Ask for an API key, or read it from standard input; it is sent to this server only
        #[arg(long)]
        key: bool,
        /// Send the key unencrypted over plain http
        #[arg(long)]
        insecure: bool,
        /// As JSON, for scripts
        #[arg(long)]
        json: bool,
    },
    /// List the remotes with their state and models
    #[command(visible_alias = "ls")]
    List(Json),
    /// Remove a remote and its key
    #[command(visible_alias = "rm")]
    Remove {
        /// Name of the remote
        name: String,
    },
    /// Check now whether remotes are available
    Check {
        /// Name of one remote; all without it
        name: Option<String>,
        /// As JSON, for scripts
        #[arg(long)]
        json: bool,
    },
}

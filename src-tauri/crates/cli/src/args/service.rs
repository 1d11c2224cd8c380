//! The command lines of verbs that start, read or describe the program.

use std::path::PathBuf;

use cairn_app::settings::Flag;
use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// A setting for this run, for example cache.ram=2G; overrides the environment and config.toml; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<Flag>,
    /// Shut down after ten idle minutes; log to the file only
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Ui {
    /// Only print the address; it is valid once and for one minute
    #[arg(long)]
    pub(crate) no_open: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Json {
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Continue with new lines until Ctrl-C
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Number of lines
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    pub(crate) lines: usize,
    /// Only print the path of the log
    #[arg(long)]
    pub(crate) path: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The verb, for example `cache top`; without one, the page of `cairn`. `cairn man run | man -l -` shows a page
    pub(crate) verb: Vec<String>,
    /// Write the pages of all verbs to this folder, which is created if it does not exist
    #[arg(long, value_name = "FOLDER", conflicts_with = "verb")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ExtractDocument {
    /// Extension of the file's name, without the dot
    #[arg(long, default_value = "")]
    pub(crate) extension: String,
}

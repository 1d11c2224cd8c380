//! The command line: verbs and their flags. Verbs that `ollama` has take its flags.

pub(crate) mod cache;
mod json;
pub(crate) mod key;
mod library;
mod models;
mod registry;
pub(crate) mod remote;
mod service;

use clap::{CommandFactory, Parser, Subcommand};

pub(crate) use self::library::{Cp, Create, Du, Gc, Gguf, GgufVerb, Imatrix, Import, Rm, Scan, Verify};
pub(crate) use self::models::{Bench, List, Ps, Run, Show, Stop};
pub(crate) use self::registry::{
    DownloadSelection, Downloads, DownloadsVerb, Login, Logout, Mirror, MirrorVerb, Pull, Push, Search, Updates,
};
pub(crate) use self::service::{Completions, ExtractDocument, Json, Logs, Man, Serve, Ui};

/// Runs language models on your own machine. Without a verb, chats with the last model
#[derive(Debug, Parser)]
#[command(name = "cairn", disable_version_flag = true, after_help = cairn_app::settings::help())]
pub(crate) struct Args {
    /// Print the version
    #[arg(short = 'v', long)]
    pub(crate) version: bool,
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run the daemon in the foreground
    #[command(alias = "start")]
    Serve(Serve),
    /// Open Cairn's interface in a browser
    Ui(Ui),
    /// Chat with a model, or send one prompt; an embedding model prints the vector of the prompt
    Run(Run),
    /// List models
    #[command(visible_alias = "ls")]
    List(List),
    /// List models in memory
    Ps(Ps),
    /// Show details of a model
    Show(Show),
    /// Unload a model
    Stop(Stop),
    /// Find models to pull, in Cairn's catalogue and at Hugging Face
    Search(Search),
    /// Pull models from a registry
    Pull(Pull),
    /// Show which pulled models are newer at their registries
    Updates(Updates),
    /// Push a model to the registry of its name
    Push(Push),
    /// Store a user name and password for a registry, or list the stored logins
    Login(Login),
    /// Delete the stored login for a registry
    Logout(Logout),
    /// Print the app's folders and the daemon's address, for the desktop app
    #[command(hide = true)]
    Desktop,
    /// Write the text of the document at standard input as JSON lines, for the daemon
    #[command(hide = true)]
    ExtractDocument(ExtractDocument),
    /// List downloads; pause, resume, cancel or discard them
    Downloads(Downloads),
    /// Create, list or revoke API keys for other machines and programs
    Key(key::Key),
    /// Use the models of other servers: list, add, remove or check them
    Remote(remote::Remote),
    /// Share models with other machines, or pull them from a mirror
    Mirror(Mirror),
    /// Import a GGUF file into the library
    Import(Import),
    /// Find the models of other apps on this machine
    Scan(Scan),
    /// Delete models from the library
    #[command(visible_alias = "delete")]
    Rm(Rm),
    /// Give a model a second name
    #[command(visible_alias = "copy")]
    Cp(Cp),
    /// Create a model from a Modelfile, or from the weights in this folder
    Create(Create),
    /// Show the disk usage of models
    Du(Du),
    /// Remove files of the library that no model needs
    Gc(Gc),
    /// Show, pin, drop or clear cached prompts, and explain cache misses
    Cache(cache::Cache),
    /// Verify the files of models and list the damaged ones
    Verify(Verify),
    /// Describe a GGUF file, or verify it
    Gguf(Gguf),
    /// Compute which weights of a model matter most on a text, for `create --imatrix`
    Imatrix(Imatrix),
    /// Measure the speed of a model
    Bench(Bench),
    /// Check this installation and name what to do about problems
    Doctor(Json),
    /// Print the daemon's log
    Logs(Logs),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print a manual page, or write all pages to a folder
    Man(Man),
}

/// Returns the text of `--help`.
pub(crate) fn help() -> String {
    Args::command().render_help().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_definitions_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn gguf_takes_path_or_verify_verb() {
        let gguf = |line: &[&str]| match Args::try_parse_from(line).map(|args| args.verb) {
            Ok(Some(Verb::Gguf(gguf))) => Ok((gguf.file.is_some(), gguf.verb.is_some())),
            Ok(verb) => panic!("{verb:?}"),
            Err(error) => Err(error.kind()),
        };
        assert_eq!(gguf(&["cairn", "gguf", "x.gguf"]), Ok((true, false)), "a path");
        assert_eq!(gguf(&["cairn", "gguf", "verify", "x.gguf"]), Ok((false, true)), "a verb and a path");
        assert!(gguf(&["cairn", "gguf"]).is_err(), "nothing");
    }

    #[test]
    fn search_help_explains_limit_unit() {
        let mut args = Args::command();
        let search = args.find_subcommand_mut("search").expect("`search` is a verb").render_help().to_string();
        assert!(search.contains("most N models") && search.contains("a row for each"), "{search}");
    }

    #[test]
    fn keepalive_accepts_negative_duration() {
        let run = |line: &[&str]| match Args::try_parse_from(line).map(|args| args.verb) {
            Ok(Some(Verb::Run(run))) => Ok((run.keepalive, run.prompt.join(" "))),
            Ok(verb) => panic!("{verb:?}"),
            Err(error) => Err(error.to_string()),
        };
        let expected = Ok((Some("-1m".to_owned()), "why".to_owned()));
        assert_eq!(run(&["cairn", "run", "m", "--keepalive", "-1m", "why"]), expected, "as ollama does");
        assert_eq!(run(&["cairn", "run", "m", "--keepalive=-1m", "why"]), expected, "with an equals sign");
    }

    #[test]
    fn think_flag_takes_value_only_after_equals_sign() {
        let think = |line: &[&str]| match Args::try_parse_from(line).unwrap().verb {
            Some(Verb::Run(run)) => (run.think, run.prompt.join(" ")),
            verb => panic!("{verb:?}"),
        };
        assert_eq!(
            think(&["cairn", "run", "m", "--think", "why"]),
            (Some("true".into()), "why".into()),
            "the flag alone"
        );
        assert_eq!(think(&["cairn", "run", "m", "--think=low", "why"]), (Some("low".into()), "why".into()), "a level");
        assert_eq!(think(&["cairn", "run", "m", "why", "not"]), (None, "why not".into()), "no flag");
    }
}

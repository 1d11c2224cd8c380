//! The command line: verbs and their flags, those of `ollama` where it has them.

mod json;

use cairn_app::settings::Flag;
use clap::{CommandFactory, Parser, Subcommand};

/// Runs language models on your own machine.
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
    /// Chat with a model, or ask it one thing
    Run(Run),
    /// List models
    #[command(visible_alias = "ls")]
    List(List),
    /// List models in memory
    Ps(Ps),
    /// Show all about a model
    Show(Show),
    /// Take a model out of memory
    Stop(Stop),
    /// Find models to pull, in a catalogue that comes with Cairn and at Hugging Face
    Search(Search),
    /// Bring models here from a registry
    Pull(Pull),
    /// Send a model to the registry that its name belongs to
    Push(Push),
    /// Keep a name and a password for a registry, or list for which there are some
    Login(Login),
    /// Forget the name and the password for a registry
    Logout(Logout),
    /// Tell the desktop app where things are, and how the daemon is reached
    #[command(hide = true)]
    Desktop,
    /// Show the models that are on their way; pause, resume, cancel or discard them
    Downloads(Downloads),
    /// Share models with other machines, or take them from one that does
    Mirror(Mirror),
    /// Make a GGUF file a model of the store
    Import(Import),
    /// Find the models that other apps keep on this machine
    Scan(Scan),
    /// Delete models from the store
    #[command(visible_alias = "delete")]
    Rm(Rm),
    /// Give a model a second name
    #[command(visible_alias = "copy")]
    Cp(Cp),
    /// Make a model of what a Modelfile says
    Create(Create),
    /// Show what models take on the disk
    Du(Du),
    /// Remove files of the store that no model needs
    Gc(Gc),
    /// Show what is kept of computed prompts, pin, drop or clear it, and say why a prompt was computed again
    Cache(crate::cache::args::Cache),
    /// Read models of the store, and say which files of them are damaged
    Verify(Verify),
    /// Show what is in a GGUF file, or verify it
    Gguf(Gguf),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// A setting for this run, which goes before the environment and config.toml (for instance cache.ram=2G); may be given
    /// several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<Flag>,
    /// End when nobody has needed the daemon for ten minutes; log to the file only
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Ui {
    /// Only print the address, which is good once and for a minute
    #[arg(long)]
    pub(crate) no_open: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// A model's name, or the path of a GGUF file
    pub(crate) model: String,
    /// What to ask; without it, and at a terminal, a chat begins
    pub(crate) prompt: Vec<String>,
    /// How long the model stays in memory afterwards (for instance 5m; negative: for ever)
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) keepalive: Option<String>,
    /// Print what the answer cost
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Do not break lines between words
    #[arg(long)]
    pub(crate) nowordwrap: bool,
    /// The answer's format (for instance json)
    #[arg(long)]
    pub(crate) format: Option<String>,
    /// Think before answering: true, false, high, medium, low or max
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "HOW")]
    pub(crate) think: Option<String>,
    /// Do not print what the model thinks
    #[arg(long)]
    pub(crate) hidethinking: bool,
    /// Load the model even when memory looks too small for it
    #[arg(long)]
    pub(crate) force: bool,
    /// Ask a registry over plain http for a model that is not here
    #[arg(long)]
    pub(crate) insecure: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Only models whose names begin like this
    pub(crate) prefix: Option<String>,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Ps {
    /// Only models whose names begin like this
    pub(crate) prefix: Option<String>,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// A model's name, or the path of a GGUF file
    pub(crate) model: String,
    /// Only the licence
    #[arg(long, group = "part")]
    pub(crate) license: bool,
    /// Only the Modelfile
    #[arg(long, group = "part")]
    pub(crate) modelfile: bool,
    /// Only the parameters
    #[arg(long, group = "part")]
    pub(crate) parameters: bool,
    /// Only the template
    #[arg(long, group = "part")]
    pub(crate) template: bool,
    /// Only the system message
    #[arg(long, group = "part")]
    pub(crate) system: bool,
    /// With metadata and tensors
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// As JSON, for scripts
    #[arg(long, group = "part")]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Stop {
    /// A model's name
    #[arg(required_unless_present = "daemon")]
    pub(crate) model: Option<String>,
    /// End the daemon, and with it everything that runs
    #[arg(long)]
    pub(crate) daemon: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Search {
    /// Words that a model's name or description has, `qwen coder` for instance
    #[arg(required = true)]
    pub(crate) query: Vec<String>,
    /// The most models to show, 10 if absent; one of Ollama's library has a row for each of its sizes
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Pull {
    /// Models' names: `llama3.2`, `hf.co/user/repo:Q4_K_M`, `host:port/library/model`
    #[arg(required = true)]
    pub(crate) models: Vec<String>,
    /// Leave it to the daemon, and do not wait
    #[arg(long)]
    pub(crate) detach: bool,
    /// The most bytes per second of all downloads together, 20M for instance; `none` or 0 takes the limit away
    #[arg(long, value_name = "RATE")]
    pub(crate) limit: Option<String>,
    /// Ask the registry over plain http
    #[arg(long)]
    pub(crate) insecure: bool,
    /// A mirror to take contents from before the registry, `http://nas:11434` for instance; may be given several times
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub(crate) source: Vec<String>,
    /// As JSON, for scripts: one line for each step
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Push {
    /// A model's name, which says where to: `me/model`, `host:port/library/model`; `cairn cp` gives a model such a name
    pub(crate) model: String,
    /// Speak to the registry over plain http
    #[arg(long)]
    pub(crate) insecure: bool,
    /// As JSON, for scripts: one line for each step
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Login {
    /// The registry, `host` or `host:port`; without it, those are listed that have a login
    pub(crate) registry: Option<String>,
    /// The name there; asked for at a terminal if absent
    #[arg(short, long, value_name = "NAME")]
    pub(crate) username: Option<String>,
    /// Read the password from standard input, also where that is a terminal
    #[arg(long)]
    pub(crate) password_stdin: bool,
    /// A token server on another host that may have the password too; may be given several times
    #[arg(long, value_name = "HOST")]
    pub(crate) token_server: Vec<String>,
    /// Send the password over plain http, where everybody on the way can read it
    #[arg(long)]
    pub(crate) insecure: bool,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Logout {
    /// The registry, `host` or `host:port`
    pub(crate) registry: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Downloads {
    #[command(subcommand)]
    pub(crate) verb: Option<DownloadsVerb>,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DownloadsVerb {
    /// List them
    #[command(alias = "list")]
    Ls {
        /// As JSON, for scripts
        #[arg(long)]
        json: bool,
    },
    /// Stop some until they are resumed
    Pause(Which),
    /// Go on with some that were paused, stopped or failed
    Resume(Which),
    /// Stop some, and keep what came
    Cancel(Which),
    /// Stop some, and remove what came
    Discard(Which),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Mirror {
    #[command(subcommand)]
    pub(crate) verb: MirrorVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MirrorVerb {
    /// Show how other machines use this one, and a code by which one of them can join
    Serve(Json),
    /// Take models from a mirror, whose word on names is believed from then on
    Join {
        /// Where it is, `http://nas:11434`
        address: String,
        /// What `cairn mirror serve` shows there
        code: String,
    },
    /// Fetch models for the owner of a key
    Allow {
        /// The line of a file such as ~/.ollama/id_ed25519.pub: `ssh-ed25519 AAAA... name`
        key: String,
    },
    /// Forget a key, or a mirror that was joined
    Forget {
        /// A label, a key or a fingerprint
        which: String,
    },
    /// List the keys and mirrors that are known, and the machines that were found on the network
    Peers(Json),
    /// Show who took what, and what was fetched for them
    Stats(Json),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Json {
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Which {
    /// Ids, or names of models
    #[arg(required = true)]
    pub(crate) downloads: Vec<String>,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// Path of a GGUF file, of a split one any of its parts; or of a folder, and all models in it are imported
    pub(crate) file: std::path::PathBuf,
    /// What the model is to be called; as the file calls itself if absent
    pub(crate) name: Option<String>,
    /// Leave the file as it is: share its place on the disk where the file system can, else copy it (this is the default)
    #[arg(long, group = "taking")]
    pub(crate) copy: bool,
    /// Share the file with the store by a hard link, which makes it read-only, in place of copying it
    #[arg(long, group = "taking")]
    pub(crate) link: bool,
    /// Take the file away once the model is there
    #[arg(long = "move", group = "taking")]
    pub(crate) moving: bool,
    /// Replace a model that has the name
    #[arg(long)]
    pub(crate) force: bool,
    /// As JSON, for scripts: one line for each model
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Scan {
    /// Folders to look through, besides those of other apps
    pub(crate) folders: Vec<std::path::PathBuf>,
    /// Read all files, to tell which are in the store already
    #[arg(long)]
    pub(crate) digests: bool,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Rm {
    /// Models' names
    #[arg(required = true)]
    pub(crate) models: Vec<String>,
    /// As JSON, for scripts: one line for each model
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Cp {
    /// A model's name
    pub(crate) source: String,
    /// The name that it is to have too; a model that has it gives way
    pub(crate) destination: String,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// What the model is to be called; a model of that name gives way
    pub(crate) model: String,
    /// Path of the Modelfile, or `-` for what is piped here; `Modelfile` if absent
    #[arg(short, long)]
    pub(crate) file: Option<std::path::PathBuf>,
    /// Put the weights in a smaller type, Q4_K_M for instance
    #[arg(short, long)]
    pub(crate) quantize: Option<String>,
    /// Ask a registry over plain http for the model of FROM that is not here
    #[arg(long)]
    pub(crate) insecure: bool,
    /// As JSON, for scripts: one line for each step
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Du {
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Gc {
    /// Only say what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Remove what is left of downloads too that nobody goes on with, and of those that Ollama did not complete
    #[arg(long)]
    pub(crate) partials: bool,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Verify {
    /// Models' names; without any, everything in the store and in linked libraries is read
    pub(crate) models: Vec<String>,
    /// Remove what is damaged, so that a pull fetches it anew
    #[arg(long)]
    pub(crate) discard: bool,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Gguf {
    #[command(subcommand)]
    pub(crate) verb: Option<GgufVerb>,
    /// Path of the file
    #[arg(required = true)]
    pub(crate) file: Option<std::path::PathBuf>,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GgufVerb {
    /// Read every tensor, and say which hold numbers that are not finite
    Verify {
        /// Path of the file
        file: std::path::PathBuf,
    },
}

/// What `--help` prints.
pub(crate) fn help() -> String {
    Args::command().render_help().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_hold_together() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_file_is_described_or_verified() {
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
    fn the_limit_of_a_search_says_what_it_counts() {
        let mut args = Args::command();
        let search = args.find_subcommand_mut("search").expect("there is one").render_help().to_string();
        assert!(search.contains("most models") && search.contains("a row for each"), "{search}");
    }

    #[test]
    fn a_duration_may_be_negative() {
        let run = |line: &[&str]| match Args::try_parse_from(line).map(|args| args.verb) {
            Ok(Some(Verb::Run(run))) => Ok((run.keepalive, run.prompt.join(" "))),
            Ok(verb) => panic!("{verb:?}"),
            Err(error) => Err(error.to_string()),
        };
        let kept = Ok((Some("-1m".to_owned()), "why".to_owned()));
        assert_eq!(run(&["cairn", "run", "m", "--keepalive", "-1m", "why"]), kept, "as ollama takes it");
        assert_eq!(run(&["cairn", "run", "m", "--keepalive=-1m", "why"]), kept, "with an equals sign");
    }

    #[test]
    fn thinking_takes_its_value_with_an_equals_sign_only() {
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

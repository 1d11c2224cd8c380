//! The command line: verbs and their flags. Verbs that `ollama` has take its flags.

pub(crate) mod cache;
mod json;
pub(crate) mod key;
pub(crate) mod remote;

use cairn_app::settings::Flag;
use clap::{CommandFactory, Parser, Subcommand};

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
    /// Push a model to the registry of its name
    Push(Push),
    /// Store a user name and password for a registry, or list the stored logins
    Login(Login),
    /// Delete the stored login for a registry
    Logout(Logout),
    /// Print the app's folders and the daemon's address, for the desktop app
    #[command(hide = true)]
    Desktop,
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

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// A setting for this run, for example cache.ram=2G; overrides the environment and config.toml; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<Flag>,
    /// Shut down after ten idle minutes; log to the file only
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Ui {
    /// Only print the address; it is valid once and for one minute
    #[arg(long)]
    pub(crate) no_open: bool,
}

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Run {
    /// A model's name, or the path of a GGUF file
    pub(crate) model: String,
    /// The prompt; without one, a chat starts if standard input is a terminal. Paths of images in it are sent as images
    /// if the model has vision
    pub(crate) prompt: Vec<String>,
    /// Time until the idle model is unloaded, for example 5m; negative: never
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) keepalive: Option<String>,
    /// Print token counts and times of the answer
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Do not break lines between words
    #[arg(long)]
    pub(crate) nowordwrap: bool,
    /// Format of the answer: json, a JSON Schema, or the path of a file with one
    #[arg(long, value_name = "json|SCHEMA|FILE")]
    pub(crate) format: Option<String>,
    /// Think before answering: true, false, high, medium, low or max
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "HOW")]
    pub(crate) think: Option<String>,
    /// Do not print the thinking
    #[arg(long)]
    pub(crate) hidethinking: bool,
    /// Load the model even if the memory estimate exceeds the available memory
    #[arg(long)]
    pub(crate) force: bool,
    /// Pull a missing model over plain http
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Elements of the vector of an embedding model; default is all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) dimensions: Option<u32>,
    /// Whether an embedding model cuts a text that is too long (default) or refuses it: true or false
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub(crate) truncate: Option<bool>,
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
    /// Shut the daemon down and cancel its work
    #[arg(long)]
    pub(crate) daemon: bool,
}

#[derive(Debug, clap::Args)]
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

#[derive(Debug, clap::Args)]
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

#[derive(Debug, clap::Args)]
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

#[derive(Debug, clap::Args)]
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

#[derive(Debug, clap::Args)]
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

#[derive(Debug, clap::Args)]
pub(crate) struct Json {
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DownloadSelection {
    /// Download ids or model names
    #[arg(required = true)]
    pub(crate) downloads: Vec<String>,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// Path of a GGUF file or any part of a split one; or of a folder, to import all models in it
    pub(crate) file: std::path::PathBuf,
    /// Name of the model; default is the name in the file
    pub(crate) name: Option<String>,
    /// Leave the file unchanged: reflink it if the file system can, else copy it (default)
    #[arg(long, group = "method")]
    pub(crate) copy: bool,
    /// Make a hard link instead of a copy; the file becomes read-only
    #[arg(long, group = "method")]
    pub(crate) link: bool,
    /// Remove the file after the import
    #[arg(long = "move", group = "method")]
    pub(crate) moving: bool,
    /// Replace an existing model of this name
    #[arg(long)]
    pub(crate) force: bool,
    /// As JSON, for scripts: one line for each model
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Scan {
    /// Folders to scan, besides those of other apps
    pub(crate) folders: Vec<std::path::PathBuf>,
    /// Hash all files, to find those that are in the library already
    #[arg(long)]
    pub(crate) digests: bool,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Rm {
    /// Model names
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
    /// The second name; an existing model of this name is replaced
    pub(crate) destination: String,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// Name of the model; an existing model of this name is replaced
    pub(crate) model: String,
    /// Path of the Modelfile, or `-` for standard input; default is `Modelfile`, or the weights in this folder
    #[arg(short, long)]
    pub(crate) file: Option<std::path::PathBuf>,
    /// Quantize the weights, for example to Q4_K_M
    #[arg(short, long)]
    pub(crate) quantize: Option<String>,
    /// Importance matrix of llama.cpp (.dat or .gguf), which weights the errors of --quantize
    #[arg(long, value_name = "FILE", requires = "quantize")]
    pub(crate) imatrix: Option<std::path::PathBuf>,
    /// Pull a missing model of FROM over plain http
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
    /// List the files without removing them
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also remove abandoned partial downloads, including Ollama's
    #[arg(long)]
    pub(crate) partials: bool,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Verify {
    /// Model names; default is all models of all libraries
    pub(crate) models: Vec<String>,
    /// Remove damaged files, so that a pull downloads them again
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

#[derive(Debug, clap::Args)]
pub(crate) struct Imatrix {
    /// A model's name, or the path of a GGUF file with F16, BF16 or F32 weights
    pub(crate) model: String,
    /// Path of a text like those that the model will read
    pub(crate) text: std::path::PathBuf,
    /// Path of the new file
    #[arg(short, long, default_value = "imatrix.gguf")]
    pub(crate) output: std::path::PathBuf,
    /// Compute at most this many chunks of 512 tokens
    #[arg(long)]
    pub(crate) chunks: Option<usize>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GgufVerb {
    /// Read all tensors and list those with numbers that are not finite
    Verify {
        /// Path of the file
        file: std::path::PathBuf,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Bench {
    /// A model's name, or the path of a GGUF file
    pub(crate) model: String,
    /// Tokens of the prompt, about; more than the model's context are refused
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) prompt_tokens: u32,
    /// Tokens of the answer
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    pub(crate) tokens: u32,
    /// Number of measurements, of which the median is shown
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) runs: u32,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
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

#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// The verb, for example `cache top`; without one, the page of `cairn`. `cairn man run | man -l -` shows a page
    pub(crate) verb: Vec<String>,
    /// Write the pages of all verbs to this folder, which is created if it does not exist
    #[arg(long, value_name = "FOLDER", conflicts_with = "verb")]
    pub(crate) dir: Option<std::path::PathBuf>,
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

//! The command lines of verbs that change or check the library and model files.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Path of a GGUF file or any part of a split one; or of a folder, to import all models in it
    pub(crate) file: PathBuf,
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

#[derive(Debug, Args)]
pub(crate) struct Scan {
    /// Folders to scan, besides those of other apps
    pub(crate) folders: Vec<PathBuf>,
    /// Hash all files, to find those that are in the library already
    #[arg(long)]
    pub(crate) digests: bool,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// Model names
    #[arg(required = true)]
    pub(crate) models: Vec<String>,
    /// As JSON, for scripts: one line for each model
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Cp {
    /// A model's name
    pub(crate) source: String,
    /// The second name; an existing model of this name is replaced
    pub(crate) destination: String,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Name of the model; an existing model of this name is replaced
    pub(crate) model: String,
    /// Path of the Modelfile, or `-` for standard input; default is `Modelfile`, or the weights in this folder
    #[arg(short, long)]
    pub(crate) file: Option<PathBuf>,
    /// Quantize the weights, for example to Q4_K_M
    #[arg(short, long)]
    pub(crate) quantize: Option<String>,
    /// Importance matrix of llama.cpp (.dat or .gguf), which weights the errors of --quantize
    #[arg(long, value_name = "FILE", requires = "quantize")]
    pub(crate) imatrix: Option<PathBuf>,
    /// Pull a missing model of FROM over plain http
    #[arg(long)]
    pub(crate) insecure: bool,
    /// As JSON, for scripts: one line for each step
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Du {
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
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

#[derive(Debug, Args)]
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

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Gguf {
    #[command(subcommand)]
    pub(crate) verb: Option<GgufVerb>,
    /// Path of the file
    #[arg(required = true)]
    pub(crate) file: Option<PathBuf>,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Imatrix {
    /// A model's name, or the path of a GGUF file with F16, BF16 or F32 weights
    pub(crate) model: String,
    /// Path of a text like those that the model will read
    pub(crate) text: PathBuf,
    /// Path of the new file
    #[arg(short, long, default_value = "imatrix.gguf")]
    pub(crate) output: PathBuf,
    /// Compute at most this many chunks of 512 tokens
    #[arg(long)]
    pub(crate) chunks: Option<usize>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GgufVerb {
    /// Read all tensors and list those with numbers that are not finite
    Verify {
        /// Path of the file
        file: PathBuf,
    },
}

//! The command lines of verbs that use models.

use clap::Args;

#[derive(Debug, Default, Args)]
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

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only models whose names begin like this
    pub(crate) prefix: Option<String>,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Ps {
    /// Only models whose names begin like this
    pub(crate) prefix: Option<String>,
    /// As JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
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

#[derive(Debug, Args)]
pub(crate) struct Stop {
    /// A model's name
    #[arg(required_unless_present = "daemon")]
    pub(crate) model: Option<String>,
    /// Shut the daemon down and cancel its work
    #[arg(long)]
    pub(crate) daemon: bool,
}

#[derive(Debug, Args)]
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

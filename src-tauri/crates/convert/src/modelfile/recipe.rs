//! Interpretation of a Modelfile: merged commands and typed parameters.

use cairn_wire::{OptionKind, Options};
use serde_json::{Map, Value};

use super::{Command, Modelfile, Role};

/// Former options. They are ignored with a warning.
const DEPRECATED: [&str; 9] = [
    "penalize_newline",
    "low_vram",
    "f16_kv",
    "logits_all",
    "vocab_only",
    "use_mlock",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
];

/// Description of a model to create. Of single-valued commands the last one counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recipe {
    /// Bases of the model. Several are the files of one model.
    pub from: Vec<String>,
    /// LoRA adapters.
    pub adapters: Vec<String>,
    /// Draft model for speculative decoding.
    pub draft: Option<String>,
    /// Chat template.
    pub template: Option<String>,
    /// System message.
    pub system: Option<String>,
    /// Built-in renderer that formats prompts instead of a template.
    pub renderer: Option<String>,
    /// Built-in parser of answers.
    pub parser: Option<String>,
    /// Oldest version that can run the model, without the `v` prefix.
    pub requires: Option<String>,
    /// Licences.
    pub licenses: Vec<String>,
    /// Typed options. `stop` contains all values.
    pub parameters: Map<String, Value>,
    /// Messages that precede every conversation.
    pub messages: Vec<(Role, String)>,
    /// Warnings for the author.
    pub warnings: Vec<String>,
}

/// Semantic error of a Modelfile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// There is no `FROM` command.
    #[error("no FROM line")]
    NoFrom,
    /// Unknown parameter.
    #[error("unknown parameter '{name}'")]
    UnknownParameter {
        /// Name of the parameter.
        name: String,
    },
    /// The value does not have the parameter's type.
    #[error("invalid {kind} value {value:?} for parameter '{name}'")]
    Value {
        /// Name of the parameter.
        name: String,
        /// Expected type.
        kind: &'static str,
        /// Value in the Modelfile.
        value: String,
    },
    /// Invalid version.
    #[error("requires must be a valid semver (e.g. 0.14.0), not {version:?}")]
    Requires {
        /// Value in the Modelfile.
        version: String,
    },
}

impl Recipe {
    /// Interprets a Modelfile.
    ///
    /// # Errors
    /// The first semantic error.
    pub fn of(file: &Modelfile) -> Result<Recipe, RecipeError> {
        let mut recipe = Recipe::default();
        for command in &file.commands {
            recipe.add(command.clone())?;
        }
        if recipe.from.iter().all(String::is_empty) {
            return Err(RecipeError::NoFrom);
        }
        Ok(recipe)
    }

    fn add(&mut self, command: Command) -> Result<(), RecipeError> {
        match command {
            Command::From(from) => self.from.push(from),
            Command::License(text) => self.licenses.push(text),
            Command::Template(text) => self.template = Some(text),
            Command::System(text) => self.system = Some(text),
            Command::Adapter(path) => self.adapters.push(path),
            Command::Draft(from) => self.draft = Some(from),
            Command::Renderer(name) => self.renderer = Some(name),
            Command::Parser(name) => self.parser = Some(name),
            Command::Message { role, content } => self.messages.push((role, content)),
            Command::Requires(version) => {
                let bare = version.strip_prefix('v').unwrap_or(&version);
                if !is_version(bare) {
                    return Err(RecipeError::Requires { version });
                }
                self.requires = Some(bare.to_owned());
            }
            Command::Parameter { name, .. } if DEPRECATED.contains(&name.as_str()) => {
                self.warnings.push(format!("parameter {name} is deprecated"));
            }
            Command::Parameter { name, value } => self.set(name, value)?,
        }
        Ok(())
    }

    fn set(&mut self, name: String, value: String) -> Result<(), RecipeError> {
        let Some((_, kind)) = Options::KNOWN.iter().find(|(option, _)| *option == name) else {
            return Err(RecipeError::UnknownParameter { name });
        };
        let (typed, kind) = match kind {
            OptionKind::Integer => (value.parse::<i64>().ok().map(Value::from), "int"),
            OptionKind::Float32 => (float(&value), "float"),
            OptionKind::Boolean => (boolean(&value).map(Value::from), "bool"),
            OptionKind::String => (Some(value.clone().into()), "string"),
            OptionKind::Array => {
                let list = self.parameters.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(list) = list {
                    list.push(value.into());
                }
                return Ok(());
            }
        };
        let Some(typed) = typed else { return Err(RecipeError::Value { name, kind, value }) };
        self.parameters.insert(name, typed);
        Ok(())
    }
}

/// Parses a number in the range of `f32`.
fn float(text: &str) -> Option<Value> {
    let number: f64 = text.parse().ok()?;
    (number as f32).is_finite().then(|| Value::from(number))
}

/// Parses a boolean like Go's `strconv.ParseBool`.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Returns whether this is a version of semver.org. Without suffixes, the last one or two numbers may be missing.
fn is_version(text: &str) -> bool {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (core, before) = text.split_once('-').map_or((text, None), |(core, before)| (core, Some(before)));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let plain = |part: &str| part == "0" || !part.starts_with('0');
    let word = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let numbers: Vec<&str> = core.split('.').collect();
    let whole = numbers.len() == 3 || (numbers.len() < 3 && before.is_none() && build.is_none());
    whole
        && numbers.iter().all(|part| is_number(part) && plain(part))
        && before.is_none_or(|before| before.split('.').all(|part| word(part) && (!is_number(part) || plain(part))))
        && build.is_none_or(|build| build.split('.').all(word))
}

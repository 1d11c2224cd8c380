//! What a Modelfile means: each thing once, and parameters with their types.

use cairn_wire::{OptionKind, Options};
use serde_json::{Map, Value};

use super::{Command, Modelfile, Role};

/// Options that there once were: they are passed over, with a warning.
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

/// What a model is to be made of. Of what there can be only one, the last one counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recipe {
    /// What it is made from; several are the files of one model.
    pub from: Vec<String>,
    /// Changes to the weights.
    pub adapters: Vec<String>,
    /// A smaller model that guesses ahead.
    pub draft: Option<String>,
    /// The chat template.
    pub template: Option<String>,
    /// The system message.
    pub system: Option<String>,
    /// Renders prompts instead of a template.
    pub renderer: Option<String>,
    /// Takes answers apart.
    pub parser: Option<String>,
    /// The oldest version that can run the model, without a `v` before it.
    pub requires: Option<String>,
    /// Licences.
    pub licenses: Vec<String>,
    /// Options, each of its type; `stop` has all that were given.
    pub parameters: Map<String, Value>,
    /// What was said before.
    pub messages: Vec<(Role, String)>,
    /// What its author should know.
    pub warnings: Vec<String>,
}

/// Why nothing can be made of a Modelfile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// Nothing to make a model from.
    #[error("no FROM line")]
    NoFrom,
    /// A parameter that there is not.
    #[error("unknown parameter '{name}'")]
    UnknownParameter {
        /// Its name.
        name: String,
    },
    /// A value that is not of the parameter's type.
    #[error("invalid {kind} value {value:?} for parameter '{name}'")]
    Value {
        /// The parameter.
        name: String,
        /// What it has to be.
        kind: &'static str,
        /// What it is.
        value: String,
    },
    /// What is no version.
    #[error("requires must be a valid semver (e.g. 0.14.0), not {version:?}")]
    Requires {
        /// What was written.
        version: String,
    },
}

impl Recipe {
    /// Takes a Modelfile together.
    ///
    /// # Errors
    /// For the first command that means nothing.
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
        let Some((_, kind)) = Options::KNOWN.iter().find(|(known, _)| *known == name) else {
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

/// A number that an `f32` can be.
fn float(text: &str) -> Option<Value> {
    let number: f64 = text.parse().ok()?;
    (number as f32).is_finite().then(|| Value::from(number))
}

/// The words that Go reads as true and false.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Whether this is a version as semver.org says, of which the last one or two numbers may be missing when nothing follows.
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

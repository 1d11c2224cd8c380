//! Modelfiles: texts that describe how to create a model.
//!
//! ```text
//! # a comment                        COMMAND in any case, then its argument:
//! FROM llama3                          bare text, to the end of the line
//! PARAMETER stop "<|user|>"            "text", which may contain line breaks
//! SYSTEM """You are                    """text""", which may contain quotes too
//! brief."""
//! ```
//!
//! The language is Ollama's, with its oddities. There are no escapes. A quoted argument ends with the first line that ends with its
//! quote, so quotes inside a line are text. Spaces around an argument, but not inside its quotes, are dropped. [`Recipe`]
//! interprets the commands.
//!
//! <https://github.com/ollama/ollama/blob/main/docs/modelfile.mdx>

mod origin;
mod read;
mod recipe;
mod write;

use std::fmt;

pub use origin::{Origin, adapter_origin, origin};
pub use recipe::{Recipe, RecipeError};

/// Parsed Modelfile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Modelfile {
    /// Commands in order, without comments.
    pub commands: Vec<Command>,
}

/// Command of a Modelfile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Base of the model: a model's name, a file or a folder.
    From(String),
    /// Licence text. Several licences are all kept.
    License(String),
    /// Chat template.
    Template(String),
    /// System message.
    System(String),
    /// LoRA adapter: a GGUF file, or a folder of PEFT.
    Adapter(String),
    /// Draft model for speculative decoding.
    Draft(String),
    /// Built-in renderer that formats prompts instead of a template.
    Renderer(String),
    /// Built-in parser of answers.
    Parser(String),
    /// Default of an option.
    Parameter {
        /// Name of the option.
        name: String,
        /// Untyped value.
        value: String,
    },
    /// Message that precedes every conversation.
    Message {
        /// Role of the message.
        role: Role,
        /// Text of the message.
        content: String,
    },
    /// Oldest version that can run the model.
    Requires(String),
}

/// Role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum Role {
    System,
    User,
    Assistant,
}

impl Role {
    /// All roles, each with its name in Modelfiles and messages.
    pub const ALL: [(Role, &str); 3] = [(Role::System, "system"), (Role::User, "user"), (Role::Assistant, "assistant")];

    /// Returns the role's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

/// Syntax error with its line, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("(line {line}): {kind}")]
pub struct ParseError {
    /// Line where the command begins.
    pub line: usize,
    /// Kind of the error.
    pub kind: ParseErrorKind,
}

/// Kind of a syntax error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// Unknown command.
    #[error("command must be one of {}", listed(&COMMANDS.map(str::to_lowercase)))]
    Command {
        /// The word.
        word: String,
    },
    /// Unknown role of a message.
    #[error("message role must be one of {}", listed(&Role::ALL.map(|(_, name)| name.to_owned())))]
    Role {
        /// The word.
        word: String,
    },
    /// Command without its argument, or unterminated quote.
    #[error("unexpected EOF")]
    Unfinished,
}

/// Command names, in the order of the error message.
const COMMANDS: [&str; 11] = [
    "FROM",
    "LICENSE",
    "TEMPLATE",
    "SYSTEM",
    "ADAPTER",
    "DRAFT",
    "RENDERER",
    "PARSER",
    "PARAMETER",
    "MESSAGE",
    "REQUIRES",
];

/// `"a", "b", or "c"`.
fn listed(names: &[String]) -> String {
    match names {
        [names @ .., last] => {
            let names: String = names.iter().map(|name| format!("\"{name}\", ")).collect();
            format!("{names}or \"{last}\"")
        }
        [] => String::new(),
    }
}

impl Modelfile {
    /// Parses a file's bytes: UTF-8, or UTF-16 with a byte order mark. Invalid sequences become U+FFFD.
    ///
    /// # Errors
    /// The first syntax error. [`Recipe`] checks whether there is a `FROM`.
    pub fn parse(bytes: &[u8]) -> Result<Modelfile, ParseError> {
        read::modelfile(&read::text(bytes))
    }
}

impl Command {
    /// Returns the command's name in upper case.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Command::From(_) => "FROM",
            Command::License(_) => "LICENSE",
            Command::Template(_) => "TEMPLATE",
            Command::System(_) => "SYSTEM",
            Command::Adapter(_) => "ADAPTER",
            Command::Draft(_) => "DRAFT",
            Command::Renderer(_) => "RENDERER",
            Command::Parser(_) => "PARSER",
            Command::Parameter { .. } => "PARAMETER",
            Command::Message { .. } => "MESSAGE",
            Command::Requires(_) => "REQUIRES",
        }
    }
}

impl fmt::Display for Modelfile {
    /// Writes one command per line and quotes arguments where necessary. The language cannot express a line that ends with three
    /// quotes in a text of several lines; such a text is written, but parsed differently.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.commands.iter().try_for_each(|command| write::command(command, f))
    }
}

#[cfg(test)]
mod tests;

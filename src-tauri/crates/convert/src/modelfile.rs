//! Modelfiles: the text that says what a model is made of.
//!
//! ```text
//! # a comment                        COMMAND in capitals or not, then its argument:
//! FROM llama3                          bare text, to the end of the line
//! PARAMETER stop "<|user|>"            "text", which may go on over lines
//! SYSTEM """You are                    """text""", the same with quotes in it
//! brief."""
//! ```
//!
//! The language is Ollama's, and so is what looks odd: nothing is escaped; a quoted argument ends with the first line that
//! ends with its quote, so that quotes within a line are text; spaces around an argument, but not inside its quotes, are
//! dropped. What it means is in [`Recipe`].
//!
//! <https://github.com/ollama/ollama/blob/main/docs/modelfile.mdx>

mod origin;
mod read;
mod recipe;
mod write;

use std::fmt;

pub use origin::{Origin, origin};
pub use recipe::{Recipe, RecipeError};

/// A Modelfile: its commands in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Modelfile {
    /// What it says, without comments.
    pub commands: Vec<Command>,
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// What the model is made from: a model's name, a file or a folder.
    From(String),
    /// A licence; several are all kept.
    License(String),
    /// The chat template.
    Template(String),
    /// The system message.
    System(String),
    /// A file of changes to the weights.
    Adapter(String),
    /// A smaller model that guesses ahead.
    Draft(String),
    /// Renders prompts instead of a template.
    Renderer(String),
    /// Takes answers apart.
    Parser(String),
    /// An option that requests need not give.
    Parameter {
        /// Its name.
        name: String,
        /// Its value, not yet of any type.
        value: String,
    },
    /// What was said before.
    Message {
        /// Who said it.
        role: Role,
        /// What.
        content: String,
    },
    /// The oldest version that can run the model.
    Requires(String),
}

/// Who says a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Role {
    System,
    User,
    Assistant,
}

impl Role {
    /// All of them, each with its name in Modelfiles and messages.
    pub const ALL: [(Role, &str); 3] = [(Role::System, "system"), (Role::User, "user"), (Role::Assistant, "assistant")];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

/// What is wrong with a Modelfile, and in which line, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("(line {line}): {kind}")]
pub struct ParseError {
    /// The line where the command begins.
    pub line: usize,
    /// What is wrong there.
    pub kind: ParseErrorKind,
}

/// What can be wrong with a Modelfile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// A word that is no command.
    #[error("command must be one of {}", listed(&COMMANDS.map(str::to_lowercase)))]
    Command {
        /// The word.
        word: String,
    },
    /// A message of somebody else.
    #[error("message role must be one of {}", listed(&Role::ALL.map(|(_, name)| name.to_owned())))]
    Role {
        /// The word.
        word: String,
    },
    /// A command without what belongs to it, or a quote that does not end.
    #[error("unexpected EOF")]
    Unfinished,
}

/// The commands, in the order in which errors list them.
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
    /// Reads a file's bytes: UTF-8, or UTF-16 where a byte order mark says so. What is no text becomes U+FFFD.
    ///
    /// # Errors
    /// With the line of the first command that is wrong. Whether there is a `FROM` is [`Recipe`]'s question.
    pub fn parse(bytes: &[u8]) -> Result<Modelfile, ParseError> {
        read::modelfile(&read::text(bytes))
    }
}

impl Command {
    /// Its name, as it is usually written.
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
    /// One command a line, its argument quoted where it would not be read back otherwise. What the language cannot say, a line
    /// that ends with three quotes in a text of several lines, is written all the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.commands.iter().try_for_each(|command| write::command(command, f))
    }
}

#[cfg(test)]
mod tests;

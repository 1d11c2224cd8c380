//! Formatter of Modelfiles.

use std::fmt;

use super::{Command, read};

/// Writes one command with its line break.
pub(super) fn command(command: &Command, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let argument = match command {
        Command::From(text)
        | Command::License(text)
        | Command::Template(text)
        | Command::System(text)
        | Command::Adapter(text)
        | Command::Draft(text)
        | Command::Renderer(text)
        | Command::Parser(text)
        | Command::Requires(text) => quoted(text),
        Command::Parameter { name, value } => format!("{name} {}", quoted(value)),
        Command::Message { role, content } => format!("{} {}", role.name(), quoted(content)),
    };
    writeln!(f, "{} {argument}", command.name())
}

/// Formats an argument: bare if that is parsed back, otherwise with the fewest quotes.
fn quoted(text: &str) -> String {
    let bare = (!text.is_empty()).then(|| text.to_owned());
    let single = (!text.contains('"')).then(|| format!("\"{text}\""));
    let triple = format!("\"\"\"{text}\"\"\"");
    [bare, single].into_iter().flatten().find(|written| read::reads_as(written, text)).unwrap_or(triple)
}

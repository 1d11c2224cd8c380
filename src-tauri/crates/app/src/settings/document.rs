//! The table of settings for users: the text of `--help`, and a Markdown document.

use std::fmt::Write;

use super::row::{Applies, Kind, Row};
use super::table::TABLE;
use super::without_effect::WITHOUT_EFFECT;

const FITS: &str = "writing to a string cannot fail";

/// The table as text, for `--help`.
#[must_use]
pub fn help() -> String {
    let width = TABLE.iter().filter_map(|row| row.variable.or(row.key)).map(str::len).max().unwrap_or(0);
    let mut text = "Environment, and keys of config.toml, which the environment overrides:\n".to_owned();
    for (row, name) in TABLE.iter().filter_map(|row| Some((row, row.variable?))) {
        let key = row.key.map(|key| format!(" [key: {key}]")).unwrap_or_default();
        writeln!(text, "  {name:width$}  {} [default: {}]{key}", row.about, row.default).expect(FITS);
    }
    text.push_str("\nIn config.toml only:\n");
    for (row, key) in TABLE.iter().filter(|row| row.variable.is_none()).filter_map(|row| Some((row, row.key?))) {
        writeln!(text, "  {key:width$}  {} [default: {}]", row.about, row.default).expect(FITS);
    }
    text
}

/// The table as a document, in Markdown.
#[must_use]
pub fn document() -> String {
    let mut text = "# Settings

Written by `cargo xtask gen` from the table in `src-tauri/crates/app/src/settings/table.rs`.

A value comes from `cairn serve --set KEY=VALUE`, else from the environment, else from `config.toml` in the folder for
settings (`src-tauri/ARCHITECTURE.md`, Folders), else it is the default. In `config.toml` the key `cache.ram` is `ram` below `[cache]`;
bytes are numbers, or texts such as `\"20G\"`. A change by hand takes effect when the daemon is restarted; a change through the
interface takes effect as the last column states.
"
    .to_owned();
    let mut group = None;
    for (row, key) in TABLE.iter().filter_map(|row| Some((row, row.key?))) {
        if group.replace(row.group()) != Some(row.group()) {
            let heading =
                "| key | environment | what it does | value | default | takes effect |\n|---|---|---|---|---|---|";
            writeln!(text, "\n## {}\n\n{heading}", row.group()).expect(FITS);
        }
        let names: Vec<String> =
            row.variable.into_iter().chain(row.fallback_variable).map(|name| format!("`{name}`")).collect();
        let default = if row.has_default_in_words { row.default.to_owned() } else { format!("`{}`", row.default) };
        let (names, about, value) = (names.join(", "), cell(row.about), value(row));
        writeln!(text, "| `{key}` | {names} | {about} | {value} | {} | {} |", cell(&default), applies(row))
            .expect(FITS);
    }
    text.push_str("\n## Environment only\n\n| environment | what it does | default |\n|---|---|---|\n");
    for (row, name) in TABLE.iter().filter(|row| row.key.is_none()).filter_map(|row| Some((row, row.variable?))) {
        writeln!(text, "| `{name}` | {} | {} |", cell(row.about), cell(row.default)).expect(FITS);
    }
    text.push_str("\n## Variables of Ollama without effect\n\nThe daemon names them in its log.\n\n");
    text.push_str("| environment | why |\n|---|---|\n");
    for (name, reason) in WITHOUT_EFFECT {
        writeln!(text, "| `{name}` | {reason} |").expect(FITS);
    }
    text
}

fn value(row: &Row) -> String {
    match (row.kind, row.unit) {
        (Kind::Bool, _) => "true or false".to_owned(),
        (Kind::Number, Some(unit)) => unit.to_owned(),
        (Kind::Number, None) => "number".to_owned(),
        (Kind::Bytes(1), _) => "bytes".to_owned(),
        (Kind::Bytes(_), _) => "bytes; GiB in the environment".to_owned(),
        (Kind::Text, Some(unit)) => unit.to_owned(),
        (Kind::Text, None) => "text".to_owned(),
        (Kind::Path, _) => "path".to_owned(),
        (Kind::Choice(words), _) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
    }
}

fn applies(row: &Row) -> &'static str {
    match row.applies {
        Applies::Now => "at once",
        Applies::NextLoad => "for the next model that is loaded",
        Applies::Restart => "after a restart",
    }
}

/// Escapes text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_and_document_list_every_row() {
        let (help, document) = (help(), document());
        for row in &TABLE {
            for text in [&help, &document] {
                let named = [row.variable, row.key].into_iter().flatten().all(|name| text.contains(name));
                assert!(named && text.contains(row.about), "{row:?} is missing");
            }
        }
    }
}

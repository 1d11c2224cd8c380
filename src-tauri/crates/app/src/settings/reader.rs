//! Reads values of settings from all sources, and collects warnings about unreadable values.

use std::borrow::Cow;
use std::path::PathBuf;

use super::env::Env;
use super::origin::{Assigned, Origin};
use super::row::Row;

/// Reads the settings of one start.
pub(super) struct Reader<'a> {
    /// The environment, with the values of the file and of flags in it.
    pub(super) env: &'a Env,
    pub(super) assigned: &'a [Assigned],
    pub(super) warnings: Vec<String>,
    /// Variables whose text cannot be read.
    pub(super) unread: Vec<&'static str>,
    /// The position in the table of the row that is read next.
    next: usize,
}

/// The value of one row.
pub(super) struct Slot<'a> {
    row: &'static Row,
    env: &'a Env,
    assigned: &'a Assigned,
    warnings: &'a mut Vec<String>,
    unread: &'a mut Vec<&'static str>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(env: &'a Env, assigned: &'a [Assigned], warnings: Vec<String>) -> Self {
        Self { env, assigned, warnings, unread: Vec::new(), next: 0 }
    }

    /// The value of the next row. Groups are read in the table's order.
    pub(super) fn slot(&mut self, row: &'static Row) -> Slot<'_> {
        let assigned = &self.assigned[self.next];
        self.next += 1;
        Slot { row, env: self.env, assigned, warnings: &mut self.warnings, unread: &mut self.unread }
    }
}

impl<'a> Slot<'a> {
    /// The text that is set, if any.
    pub(super) fn text(&self) -> Option<&'a str> {
        let variable = self.row.variable?;
        self.env.text(variable).or_else(|| self.row.fallback_variable.and_then(|name| self.env.text(name)))
    }

    /// Whether the fallback variable sets the value.
    pub(super) fn is_fallback(&self) -> bool {
        matches!(self.assigned.origin, Origin::Environment(name) if self.row.fallback_variable == Some(name))
    }

    /// The text that is set, or the default.
    pub(super) fn text_or_default(&self) -> String {
        self.text().unwrap_or(self.row.default).to_owned()
    }

    /// Whether the variable is set to nothing.
    pub(super) fn is_blank(&self) -> bool {
        self.row.variable.is_some_and(|name| self.env.is_blank(name))
    }

    /// A switch: any word but those for "no" is on.
    pub(super) fn is_on(&self) -> bool {
        self.text().map_or(self.row.default == "true", is_true)
    }

    /// A switch whose default depends on other things.
    pub(super) fn is_on_if_set(&self) -> Option<bool> {
        self.text().map(is_true)
    }

    /// A path, absolute.
    pub(super) fn path(&self) -> Option<PathBuf> {
        self.row.variable.and_then(|name| self.env.full_path(name))
    }

    /// A list of paths, written as the system writes `PATH`.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.row.variable.map(|name| self.env.full_paths(name)).unwrap_or_default()
    }

    /// A parsed value; `None` if nothing is set, or with a warning if the text cannot be read.
    pub(super) fn parsed<T>(&mut self, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let text = self.text()?;
        let value = parse(text);
        if value.is_none() {
            self.warn("is invalid; the default is used");
            self.unread.push(self.row.variable.unwrap_or_default());
        }
        value
    }

    /// Adds a warning about the text that is set, without a user and a password in it.
    pub(super) fn warn(&mut self, problem: &str) {
        let text = without_user(self.text().unwrap_or_default());
        let by = match (self.assigned.origin, self.row.key) {
            (Origin::File, Some(key)) => format!("config.toml: {key} = {text:?}"),
            (Origin::Flag, Some(key)) => format!("--set {key}={text}"),
            _ => format!("{}={text:?}", self.row.variable.unwrap_or_default()),
        };
        self.warnings.push(format!("{by} {problem}"));
    }

    /// A parsed value, or the row's default.
    pub(super) fn parsed_or_default<T>(&mut self, parse: impl Fn(&str) -> Option<T>) -> T {
        self.parsed(&parse).unwrap_or_else(|| self.default(&parse))
    }

    /// The row's default.
    pub(super) fn default<T>(&self, parse: impl Fn(&str) -> Option<T>) -> T {
        parse(self.row.default).expect("a test reads every default that is a value")
    }

    /// A parsed value that also depends on other variables.
    pub(super) fn parsed_in<T>(&mut self, parse: impl FnOnce(&str, &Env) -> Option<T>) -> Option<T> {
        let env = self.env;
        self.parsed(|text| parse(text, env))
    }
}

/// Replaces a user and a password in a URL or an address by dots.
fn without_user(text: &str) -> Cow<'_, str> {
    let Some((before, host)) = text.rsplit_once('@') else { return text.into() };
    let scheme = before.find("://").map_or("", |at| &before[..at + 3]);
    format!("{scheme}...@{host}").into()
}

/// Whether a word means "yes": as in Ollama, any word but those for "no".
pub(super) fn is_true(text: &str) -> bool {
    !matches!(text.to_ascii_lowercase().as_str(), "0" | "f" | "false" | "off" | "no")
}

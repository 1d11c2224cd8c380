//! `config.toml`: stored settings, edited by hand or through the settings panel.
//!
//! A key is a group and a name, for example `[cache]` and `ram`. A change through the panel keeps comments, order,
//! formatting, line ends of Windows, and a symbolic link. A file that is not TOML is ignored and never written.

use std::io;
use std::path::{Path, PathBuf};

use cairn_disk::{Disk, Mode, RealDisk};
use toml_edit::{Document, DocumentMut, Item, TableLike};

use super::problem::SettingProblem;
use super::row::Row;
use super::table::TABLE;
use super::value::{self, Value};

/// The comment at the start of a new file.
const HEAD: &str = "# Cairn's settings. Environment variables override them.\n\n";
/// Largest file that is read.
const MAX_BYTES: usize = 1 << 20;
/// Byte order mark, which editors on Windows may write.
const BOM: char = '\u{feff}';

/// The content of the file.
#[derive(Debug, Clone, Default)]
pub(super) struct ConfigFile {
    path: PathBuf,
    document: DocumentMut,
    /// Whether the file begins with a [`BOM`].
    has_bom: bool,
    /// Whether all lines end with CR LF. Lines of `document` end with LF.
    has_crlf: bool,
    /// Why it cannot be read.
    pub(super) problem: Option<String>,
}

impl ConfigFile {
    /// Reads the file. A missing file is empty.
    pub(super) fn read(path: &Path) -> Self {
        let read = || match RealDisk.read(path) {
            Ok(bytes) => Self::parsed(bytes),
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error.to_string()),
        };
        let read = if may_be_endless(path) { Err("the file is a pipe or a device".to_owned()) } else { read() };
        let file = read.unwrap_or_else(|problem| Self { problem: Some(problem), ..Self::default() });
        Self { path: path.to_owned(), ..file }
    }

    fn parsed(bytes: Vec<u8>) -> Result<Self, String> {
        if bytes.len() > MAX_BYTES {
            return Err(too_long());
        }
        let text = String::from_utf8(bytes).map_err(|_| "the file is not UTF-8".to_owned())?;
        let plain = text.strip_prefix(BOM).unwrap_or(&text);
        let document = plain.parse().map_err(|error: toml_edit::TomlError| {
            let before = error.span().and_then(|span| plain.get(..span.start)).unwrap_or_default();
            format!("line {}: {}", before.matches('\n').count() + 1, error.message().replace('\n', ", "))
        })?;
        let ends = plain.matches('\n').count();
        let has_crlf = ends > 0 && plain.matches("\r\n").count() == ends;
        Ok(Self { document, has_bom: text.starts_with(BOM), has_crlf, ..Self::default() })
    }

    /// The value of a row in the form of the environment, or why it is invalid; `None` if the file does not set the
    /// row.
    pub(super) fn text(&self, row: &Row) -> Option<Result<String, SettingProblem>> {
        let (group, name) = row.key?.split_once('.')?;
        let item = self.document.get(group)?.as_table_like()?.get(name)?;
        Some(value_of(row, item).and_then(|value| value::text(row, &value)))
    }

    /// Unknown keys, and top-level items that are not groups.
    pub(super) fn unknown_keys(&self) -> Vec<String> {
        let mut unknown = Vec::new();
        for (group, item) in self.document.iter() {
            let Some(table) = item.as_table_like() else {
                unknown.push(group.to_owned());
                continue;
            };
            let keys = table.iter().map(|(name, _)| format!("{group}.{name}"));
            unknown.extend(keys.filter(|key| TABLE.iter().all(|row| row.key != Some(key))));
        }
        unknown
    }

    /// Sets or removes the value of a row. Fails if its group is another kind of item.
    pub(super) fn set(&mut self, row: &Row, value: Option<&Value>) -> Result<(), SettingProblem> {
        let Some((group, name)) = row.key.and_then(|key| key.split_once('.')) else { return Ok(()) };
        let is_new = self.document.is_empty() && self.document.to_string().is_empty();
        let Some(value) = value else {
            self.remove(group, name);
            return Ok(());
        };
        let value = match value {
            Value::Bool(on) => toml_edit::Value::from(*on),
            // The parsers of rows reject larger numbers.
            Value::Number(number) => toml_edit::Value::from(i64::try_from(*number).unwrap_or(i64::MAX)),
            Value::Text(text) => toml_edit::Value::from(text.as_str()),
        };
        let item = self.document.entry(group).or_insert_with(toml_edit::table);
        if let Some(first) = item.as_table_mut().filter(|_| is_new) {
            first.decor_mut().set_prefix(HEAD);
        }
        let table: &mut dyn TableLike =
            item.as_table_like_mut().ok_or_else(|| SettingProblem::GroupExpected(group.to_owned()))?;
        match table.get_mut(name).and_then(Item::as_value_mut) {
            Some(old) => {
                // A comment after a value stays.
                let decor = old.decor().clone();
                *old = value;
                *old.decor_mut() = decor;
            }
            None => drop(table.insert(name, Item::Value(value))),
        }
        Ok(())
    }

    fn remove(&mut self, group: &str, name: &str) {
        // The document would drop comments before the value, which may be about other keys.
        let rest = without(&self.document.to_string(), group, name).and_then(|text| text.parse().ok());
        if let Some(rest) = rest {
            self.document = rest;
        } else if let Some(table) = self.document.get_mut(group).and_then(Item::as_table_like_mut) {
            table.remove(name);
        }
    }

    /// The file's content, or why it cannot be written.
    fn contents(&self) -> Result<String, String> {
        let mut text = self.document.to_string();
        if self.has_crlf {
            text = text.replace("\r\n", "\n").replace('\n', "\r\n");
        }
        if self.has_bom {
            text.insert(0, BOM);
        }
        // A longer file could not be read again.
        if text.len() > MAX_BYTES { Err(too_long()) } else { Ok(text) }
    }

    /// Writes the file atomically.
    pub(super) fn write(&self) -> Result<(), String> {
        if let Some(folder) = self.path.parent() {
            RealDisk.create_dir_all(folder).map_err(|error| error.to_string())?;
        }
        // Follow a symbolic link: writing to its own path would replace it.
        let path = std::fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        RealDisk.write_atomic(&path, self.contents()?.as_bytes(), Mode::Private).map_err(|error| error.to_string())
    }
}

/// Whether reading might block or never end: pipes and devices, except the null device.
fn may_be_endless(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
        && path.canonicalize().is_ok_and(|path| path != Path::new("/dev/null"))
}

fn too_long() -> String {
    format!("the file has more than {MAX_BYTES} bytes")
}

/// Removes the lines of a value from a text, but keeps its comment; `None` if the value is not on lines of its own.
fn without(text: &str, group: &str, name: &str) -> Option<String> {
    let document = Document::parse(text).ok()?;
    let (key, value) = document.as_table().get(group)?.as_table()?.get_key_value(name)?;
    let (key, value) = (key.span()?, value.as_value()?.span()?);
    let from = text.get(..key.start)?.rfind('\n').map_or(0, |at| at + 1);
    let behind = text.get(value.end..)?;
    let (comment, after) = behind.split_once('\n').unwrap_or((behind, ""));
    let line = if comment.trim().is_empty() { String::new() } else { format!("{}\n", comment.trim()) };
    Some(format!("{}{line}{after}", text.get(..from)?))
}

/// The value of an item. A list becomes one text, joined with the list's separator.
fn value_of(row: &Row, item: &Item) -> Result<Value, SettingProblem> {
    let item_type = |text: &str| SettingProblem::ItemType(text.to_owned());
    match item.as_value() {
        Some(toml_edit::Value::Boolean(on)) => Ok(Value::Bool(*on.value())),
        Some(toml_edit::Value::String(text)) => Ok(Value::Text(text.value().clone())),
        Some(toml_edit::Value::Integer(number)) => {
            u64::try_from(*number.value()).map(Value::Number).map_err(|_| SettingProblem::NeedsNumber)
        }
        Some(toml_edit::Value::Array(items)) => {
            let parts: Option<Vec<&str>> = items.iter().map(|item| item.as_str()).collect();
            let parts = parts.ok_or_else(|| item_type("must be a list of texts"))?;
            match row.unit {
                Some("list") => Ok(Value::Text(parts.join(","))),
                Some("paths") => {
                    let joined = std::env::join_paths(parts).map_err(|error| item_type(&error.to_string()))?;
                    joined.into_string().map(Value::Text).map_err(|_| SettingProblem::NeedsText)
                }
                _ => Err(item_type("must be one value")),
            }
        }
        _ => Err(item_type("must be text, a whole number, true or false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str) -> &'static Row {
        TABLE.iter().find(|row| row.key == Some(key)).expect("the setting exists")
    }

    fn check(before: &str, key: &str, value: Option<Value>, after: &str) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("config/config.toml");
        if !before.is_empty() {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is writable");
            std::fs::write(&path, before).expect("the folder is writable");
        }
        let mut file = ConfigFile::read(&path);
        assert_eq!(file.problem, None, "{before}");
        file.set(row(key), value.as_ref()).expect("a group");
        file.write().expect("the folder is writable");
        assert_eq!(std::fs::read_to_string(&path).expect("the file exists"), after, "{key} = {value:?} in {before:?}");
    }

    #[test]
    fn setting_change_keeps_other_lines_of_config_file() {
        let number = |number| Some(Value::Number(number));
        check("", "cache.ram", number(5), &format!("{HEAD}[cache]\nram = 5\n"));
        let by_hand = "# mine\n[cache] # tiers\nram = 0x10   # little\n\n[ui]\ntheme='dark'\n";
        check(by_hand, "cache.ram", number(5), "# mine\n[cache] # tiers\nram = 5   # little\n\n[ui]\ntheme='dark'\n");
        check(by_hand, "ui.theme", None, "# mine\n[cache] # tiers\nram = 0x10   # little\n\n[ui]\n");
        check("cache.ram = 1\n", "cache.ram", number(2), "cache.ram = 2\n");
        check("cache = { ram = 1 }\n", "cache.weigh", Some(Value::Bool(true)), "cache = { ram = 1 , weigh = true }\n");
        check("x = 1\n", "ui.theme", Some(Value::Text("a\"b".into())), "x = 1\n\n[ui]\ntheme = 'a\"b'\n");
    }

    #[test]
    fn comments_survive_removal_of_their_value() {
        let by_hand = "[ui]\n# mine\n# zoom = 2\ntheme = 'dark' # for the night\nlanguage = 'en'\n";
        check(by_hand, "ui.theme", None, "[ui]\n# mine\n# zoom = 2\n# for the night\nlanguage = 'en'\n");
        let last = "# top\n[ui]\n# mine\ntheme = 'dark'\n\n# cache\n[cache]\nram = 1\n";
        check(last, "ui.theme", None, "# top\n[ui]\n# mine\n\n# cache\n[cache]\nram = 1\n");
        check("[ui]\n# mine\ntheme = 'dark'\n# end\n", "ui.theme", None, "[ui]\n# mine\n# end\n");
        check("# mine\nui.theme = 'dark'\n", "ui.theme", None, "# mine\n");
        check("ui = { theme = 'dark', language = 'en' }\n", "ui.theme", None, "ui = { language = 'en' }\n");
    }

    #[test]
    fn windows_line_ends_and_bom_are_kept() {
        let dark = Some(Value::Text("dark".into()));
        check(
            "# mine\r\n[ui]\r\ntheme = 'light' # why\r\n",
            "ui.theme",
            dark.clone(),
            "# mine\r\n[ui]\r\ntheme = \"dark\" # why\r\n",
        );
        check("\u{feff}[ui]\r\n", "ui.theme", dark, "\u{feff}[ui]\r\ntheme = \"dark\"\r\n");
    }

    #[cfg(unix)]
    #[test]
    fn symbolic_link_is_kept_and_its_target_is_written() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (path, elsewhere) = (folder.path().join("config.toml"), folder.path().join("dotfiles.toml"));
        std::fs::write(&elsewhere, "[ui]\ntheme = 'light'\n").expect("the folder is writable");
        std::os::unix::fs::symlink(&elsewhere, &path).expect("the folder is writable");
        let mut file = ConfigFile::read(&path);
        file.set(row("ui.theme"), Some(&Value::Text("dark".into()))).expect("a group");
        file.write().expect("the folder is writable");
        assert!(path.is_symlink(), "the link is kept");
        let text = std::fs::read_to_string(&elsewhere).expect("the target exists");
        assert_eq!(text, "[ui]\ntheme = \"dark\"\n", "the target is changed");
    }

    #[test]
    fn config_file_that_cannot_be_parsed_has_no_values() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("config.toml");
        for wrong in ["cache = [", "\u{0}", "[cache]\nram = 1\nram = 2\n"] {
            std::fs::write(&path, wrong).expect("the folder is writable");
            let file = ConfigFile::read(&path);
            assert!(file.problem.is_some() && file.text(row("cache.ram")).is_none(), "{wrong:?}: {file:?}");
        }
        std::fs::write(&path, b"\xff").expect("the folder is writable");
        assert_eq!(ConfigFile::read(&path).problem.as_deref(), Some("the file is not UTF-8"), "invalid UTF-8");
        std::fs::create_dir(folder.path().join("folder")).expect("the folder is writable");
        assert!(ConfigFile::read(&folder.path().join("folder")).problem.is_some(), "a folder");
    }

    #[test]
    fn config_file_reads_lists_and_reports_unknown_keys() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("config.toml");
        let text = "odd = 1\n[server]\norigins = ['http://a', 'http://b']\nhots = 1\nhost = 5\n[cache]\nram = -1\n";
        std::fs::write(&path, text).expect("the folder is writable");
        let file = ConfigFile::read(&path);
        assert_eq!(file.text(row("server.origins")), Some(Ok("http://a,http://b".into())), "a list");
        assert!(matches!(file.text(row("server.host")), Some(Err(_))), "a number as host");
        assert!(matches!(file.text(row("cache.ram")), Some(Err(_))), "a negative number");
        assert_eq!(file.unknown_keys(), ["odd", "server.hots"], "unknown keys");
    }
}

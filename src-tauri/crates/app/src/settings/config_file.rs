//! `config.toml`: what people write down for good, by hand or through a panel.
//!
//! A key is a group and a name, `[cache]` and `ram` for instance; the table says which there are. Whoever edits it by hand
//! finds comments, order and spelling as they were after a change through a panel, ends of lines as on Windows too, and a link where
//! there was one. A file that is no TOML is left alone: nothing of it holds, and nothing is written to it.

use std::io;
use std::path::{Path, PathBuf};

use cairn_disk::{Disk, Mode, RealDisk};
use toml_edit::{Document, DocumentMut, Item, TableLike};

use super::row::Row;
use super::table::TABLE;
use super::value::{self, Value};

/// What a new file begins with.
const HEAD: &str = "# Cairn's settings. What the environment says goes before them.\n\n";
/// A file that is longer is none of ours.
const MAX_BYTES: usize = 1 << 20;
/// What an editor on Windows may put before the text.
const MARK: char = '\u{feff}';

/// The file as it was read.
#[derive(Debug, Clone, Default)]
pub(super) struct ConfigFile {
    path: PathBuf,
    document: DocumentMut,
    /// Whether it begins with [`MARK`].
    is_marked: bool,
    /// Whether all of its lines end as on Windows; the document has plain ends.
    is_of_windows: bool,
    /// Why it cannot be read.
    pub(super) trouble: Option<String>,
}

impl ConfigFile {
    /// Reads it; one that is not there says nothing.
    pub(super) fn read(path: &Path) -> Self {
        let read = || match RealDisk.read(path) {
            Ok(bytes) => Self::parsed(bytes),
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error.to_string()),
        };
        let read = if may_be_endless(path) { Err("it is a pipe or a device".to_owned()) } else { read() };
        let file = read.unwrap_or_else(|trouble| Self { trouble: Some(trouble), ..Self::default() });
        Self { path: path.to_owned(), ..file }
    }

    fn parsed(bytes: Vec<u8>) -> Result<Self, String> {
        if bytes.len() > MAX_BYTES {
            return Err(too_long());
        }
        let text = String::from_utf8(bytes).map_err(|_| "it is no UTF-8".to_owned())?;
        let plain = text.strip_prefix(MARK).unwrap_or(&text);
        let document = plain.parse().map_err(|error: toml_edit::TomlError| {
            let before = error.span().and_then(|span| plain.get(..span.start)).unwrap_or_default();
            format!("line {}: {}", before.matches('\n').count() + 1, error.message().replace('\n', ", "))
        })?;
        let ends = plain.matches('\n').count();
        let is_of_windows = ends > 0 && plain.matches("\r\n").count() == ends;
        Ok(Self { document, is_marked: text.starts_with(MARK), is_of_windows, ..Self::default() })
    }

    /// What it says of a row, as the environment would; none where it says nothing, and why where that cannot be.
    pub(super) fn text(&self, row: &Row) -> Option<Result<String, String>> {
        let (group, name) = row.key?.split_once('.')?;
        let item = self.document.get(group)?.as_table_like()?.get(name)?;
        Some(value_of(row, item).and_then(|value| value::text(row, &value)))
    }

    /// Keys that no row has, with what else is there that is no setting.
    pub(super) fn strange(&self) -> Vec<String> {
        let mut strange = Vec::new();
        for (group, item) in self.document.iter() {
            let Some(table) = item.as_table_like() else {
                strange.push(group.to_owned());
                continue;
            };
            let keys = table.iter().map(|(name, _)| format!("{group}.{name}"));
            strange.extend(keys.filter(|key| TABLE.iter().all(|row| row.key != Some(key))));
        }
        strange
    }

    /// Sets what a row has, or takes it out; says why where something else stands in its place.
    pub(super) fn set(&mut self, row: &Row, value: Option<&Value>) -> Result<(), String> {
        let Some((group, name)) = row.key.and_then(|key| key.split_once('.')) else { return Ok(()) };
        let is_new = self.document.is_empty() && self.document.to_string().is_empty();
        let Some(value) = value else {
            self.remove(group, name);
            return Ok(());
        };
        let value = match value {
            Value::Bool(on) => toml_edit::Value::from(*on),
            // The kinds of rows keep numbers below what TOML can say.
            Value::Number(number) => toml_edit::Value::from(i64::try_from(*number).unwrap_or(i64::MAX)),
            Value::Text(text) => toml_edit::Value::from(text.as_str()),
        };
        let item = self.document.entry(group).or_insert_with(toml_edit::table);
        if let Some(first) = item.as_table_mut().filter(|_| is_new) {
            first.decor_mut().set_prefix(HEAD);
        }
        let table: &mut dyn TableLike = item
            .as_table_like_mut()
            .ok_or_else(|| format!("config.toml has {group} as something else than a group"))?;
        match table.get_mut(name).and_then(Item::as_value_mut) {
            Some(old) => {
                // A comment behind a value belongs to the key.
                let decor = old.decor().clone();
                *old = value;
                *old.decor_mut() = decor;
            }
            None => drop(table.insert(name, Item::Value(value))),
        }
        Ok(())
    }

    fn remove(&mut self, group: &str, name: &str) {
        // Comments go with a value in the document, and may be about more than it.
        let rest = without(&self.document.to_string(), group, name).and_then(|text| text.parse().ok());
        if let Some(rest) = rest {
            self.document = rest;
        } else if let Some(table) = self.document.get_mut(group).and_then(Item::as_table_like_mut) {
            table.remove(name);
        }
    }

    /// What it is as a file; why that cannot be one.
    fn contents(&self) -> Result<String, String> {
        let mut text = self.document.to_string();
        if self.is_of_windows {
            text = text.replace("\r\n", "\n").replace('\n', "\r\n");
        }
        if self.is_marked {
            text.insert(0, MARK);
        }
        // It could not be read again.
        if text.len() > MAX_BYTES { Err(too_long()) } else { Ok(text) }
    }

    /// Writes it, whole or not at all.
    pub(super) fn write(&self) -> Result<(), String> {
        if let Some(folder) = self.path.parent() {
            RealDisk.create_dir_all(folder).map_err(|error| error.to_string())?;
        }
        // Who keeps it elsewhere has a link here, which would be replaced.
        let path = std::fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        RealDisk.write_atomic(&path, self.contents()?.as_bytes(), Mode::Private).map_err(|error| error.to_string())
    }
}

/// Whether reading it might wait for ever or never end: pipes and devices, but for the one that is empty.
fn may_be_endless(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
        && path.canonicalize().is_ok_and(|path| path != Path::new("/dev/null"))
}

fn too_long() -> String {
    format!("it has more than {MAX_BYTES} bytes")
}

/// A text without a value, and with what is said of it; none where the value does not stand on lines of its own.
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

/// What is there, in the form that the other places have. A list is its parts between the list's separators.
fn value_of(row: &Row, item: &Item) -> Result<Value, String> {
    match item.as_value() {
        Some(toml_edit::Value::Boolean(on)) => Ok(Value::Bool(*on.value())),
        Some(toml_edit::Value::String(text)) => Ok(Value::Text(text.value().clone())),
        Some(toml_edit::Value::Integer(number)) => {
            u64::try_from(*number.value()).map(Value::Number).map_err(|_| "it is 0 or more".to_owned())
        }
        Some(toml_edit::Value::Array(items)) => {
            let parts: Option<Vec<&str>> = items.iter().map(|item| item.as_str()).collect();
            let parts = parts.ok_or("it is a list of texts")?;
            match row.unit {
                Some("list") => Ok(Value::Text(parts.join(","))),
                Some("paths") => {
                    let joined = std::env::join_paths(parts).map_err(|error| error.to_string())?;
                    joined.into_string().map(Value::Text).map_err(|_| "it is text".to_owned())
                }
                _ => Err("it is one value".to_owned()),
            }
        }
        _ => Err("it is text, a whole number, true or false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str) -> &'static Row {
        TABLE.iter().find(|row| row.key == Some(key)).expect("there is such a setting")
    }

    fn check(before: &str, key: &str, value: Option<Value>, after: &str) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("config/config.toml");
        if !before.is_empty() {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is writable");
            std::fs::write(&path, before).expect("the folder is writable");
        }
        let mut file = ConfigFile::read(&path);
        assert_eq!(file.trouble, None, "{before}");
        file.set(row(key), value.as_ref()).expect("its group is one");
        file.write().expect("the folder is writable");
        assert_eq!(std::fs::read_to_string(&path).expect("it was written"), after, "{key} = {value:?} in {before:?}");
    }

    #[test]
    fn a_change_leaves_all_else_as_it_was() {
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
    fn comments_outlive_the_values_that_they_stand_at() {
        let by_hand = "[ui]\n# mine\n# zoom = 2\ntheme = 'dark' # for the night\nlanguage = 'en'\n";
        check(by_hand, "ui.theme", None, "[ui]\n# mine\n# zoom = 2\n# for the night\nlanguage = 'en'\n");
        let last = "# top\n[ui]\n# mine\ntheme = 'dark'\n\n# cache\n[cache]\nram = 1\n";
        check(last, "ui.theme", None, "# top\n[ui]\n# mine\n\n# cache\n[cache]\nram = 1\n");
        check("[ui]\n# mine\ntheme = 'dark'\n# end\n", "ui.theme", None, "[ui]\n# mine\n# end\n");
        check("# mine\nui.theme = 'dark'\n", "ui.theme", None, "# mine\n");
        check("ui = { theme = 'dark', language = 'en' }\n", "ui.theme", None, "ui = { language = 'en' }\n");
    }

    #[test]
    fn a_file_of_windows_stays_one() {
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
    fn a_link_to_a_file_elsewhere_stays_one() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (path, elsewhere) = (folder.path().join("config.toml"), folder.path().join("dotfiles.toml"));
        std::fs::write(&elsewhere, "[ui]\ntheme = 'light'\n").expect("the folder is writable");
        std::os::unix::fs::symlink(&elsewhere, &path).expect("the folder is writable");
        let mut file = ConfigFile::read(&path);
        file.set(row("ui.theme"), Some(&Value::Text("dark".into()))).expect("its group is one");
        file.write().expect("the folder is writable");
        assert!(path.is_symlink(), "the link is there");
        let text = std::fs::read_to_string(&elsewhere).expect("the file is there");
        assert_eq!(text, "[ui]\ntheme = \"dark\"\n", "and what it leads to is changed");
    }

    #[test]
    fn what_cannot_be_read_is_said_and_left_alone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("config.toml");
        for wrong in ["cache = [", "\u{0}", "[cache]\nram = 1\nram = 2\n"] {
            std::fs::write(&path, wrong).expect("the folder is writable");
            let file = ConfigFile::read(&path);
            assert!(file.trouble.is_some() && file.text(row("cache.ram")).is_none(), "{wrong:?}: {file:?}");
        }
        std::fs::write(&path, b"\xff").expect("the folder is writable");
        assert_eq!(ConfigFile::read(&path).trouble.as_deref(), Some("it is no UTF-8"), "bytes");
        std::fs::create_dir(folder.path().join("folder")).expect("the folder is writable");
        assert!(ConfigFile::read(&folder.path().join("folder")).trouble.is_some(), "a folder is no file");
    }

    #[test]
    fn lists_and_strange_keys() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("config.toml");
        let text = "odd = 1\n[server]\norigins = ['http://a', 'http://b']\nhots = 1\nhost = 5\n[cache]\nram = -1\n";
        std::fs::write(&path, text).expect("the folder is writable");
        let file = ConfigFile::read(&path);
        assert_eq!(file.text(row("server.origins")), Some(Ok("http://a,http://b".into())), "a list");
        assert!(matches!(file.text(row("server.host")), Some(Err(_))), "a number is no host");
        assert!(matches!(file.text(row("cache.ram")), Some(Err(_))), "less than nothing");
        assert_eq!(file.strange(), ["odd", "server.hots"], "what nobody reads");
    }
}

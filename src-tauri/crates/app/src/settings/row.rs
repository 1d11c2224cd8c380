//! A row of the settings table, and the macro that declares a group of rows together with its struct.

use super::problem::SettingProblem;

/// Description of one setting, for `--help`, the loader, `config.toml` and the settings panel.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The key in `config.toml`, `group.name`; `None` for settings of the environment only.
    pub key: Option<&'static str>,
    /// The environment variable; `None` for settings of `config.toml` only.
    pub variable: Option<&'static str>,
    /// Another variable that is read if the first is not set.
    pub fallback_variable: Option<&'static str>,
    /// The kind of its value.
    pub kind: Kind,
    /// The unit of a number, or the format of a text.
    pub unit: Option<&'static str>,
    /// The default, as a value or in words.
    pub default: &'static str,
    /// Whether `default` describes the value in words.
    pub has_default_in_words: bool,
    /// Whether an empty variable differs from an unset one.
    pub can_be_blank: bool,
    /// When a change takes effect.
    pub applies: Applies,
    /// Description in one line.
    pub about: &'static str,
    /// Validates a value beyond its kind: bounds, or that a file exists.
    pub check: fn(&str) -> Result<(), SettingProblem>,
}

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// True or false.
    Bool,
    /// A whole number.
    Number,
    /// Bytes. The environment gives them in units of this many bytes.
    Bytes(u64),
    /// Text.
    Text,
    /// The absolute path of a folder or a file.
    Path,
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// When a change takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applies {
    /// At once.
    Now,
    /// For models that are loaded after it.
    NextLoad,
    /// At the next start of the daemon.
    Restart,
}

/// Kind of settings that the environment gives in bytes.
pub(super) const BYTES: Kind = Kind::Bytes(1);
/// Kind of settings that the environment gives in GiB.
pub(super) const GIB: Kind = Kind::Bytes(1 << 30);

fn no_check(_: &str) -> Result<(), SettingProblem> {
    Ok(())
}

/// A setting of `config.toml` and of the environment.
pub(super) const fn row(key: &'static str, variable: &'static str, kind: Kind, default: &'static str) -> Row {
    Row { key: Some(key), kind, ..environment(variable, default) }
}

/// A setting of the environment only: it determines where `config.toml` is, or is not specific to Cairn.
pub(super) const fn environment(variable: &'static str, default: &'static str) -> Row {
    Row {
        key: None,
        variable: Some(variable),
        fallback_variable: None,
        kind: Kind::Text,
        unit: None,
        default,
        has_default_in_words: false,
        can_be_blank: false,
        applies: Applies::Restart,
        about: "",
        check: no_check,
    }
}

/// A setting of `config.toml` only. Clients with a window store it there to share it.
pub(super) const fn interface(key: &'static str, kind: Kind, default: &'static str) -> Row {
    Row { key: Some(key), variable: None, kind, applies: Applies::Now, ..environment("", default) }
}

impl Row {
    /// Marks the default as words, because it depends on the machine.
    pub(super) const fn words(self) -> Self {
        Self { has_default_in_words: true, ..self }
    }

    /// Marks an empty variable as different from an unset one.
    pub(super) const fn blank(self) -> Self {
        Self { can_be_blank: true, ..self }
    }

    pub(super) const fn unit(self, unit: &'static str) -> Self {
        Self { unit: Some(unit), ..self }
    }

    pub(super) const fn fallback(self, variable: &'static str) -> Self {
        Self { fallback_variable: Some(variable), ..self }
    }

    pub(super) const fn applies(self, applies: Applies) -> Self {
        Self { applies, ..self }
    }

    pub(super) const fn checked(self, check: fn(&str) -> Result<(), SettingProblem>) -> Self {
        Self { check, ..self }
    }

    pub(super) const fn about(self, about: &'static str) -> Self {
        Self { about: about.trim_ascii_start(), ..self }
    }

    /// The part of the key before the dot.
    #[must_use]
    pub fn group(&self) -> &'static str {
        self.key.and_then(|key| key.split_once('.')).map_or("", |(group, _)| group)
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        (self.key, self.variable) == (other.key, other.variable)
    }
}

impl Eq for Row {}

/// Declares the settings of a group. Each line is a row of the table and a field of the struct. Its doc comment is the
/// text for users. The closure reads the value from a [`Slot`](super::reader::Slot).
macro_rules! group {
    ($(#[$meta:meta])* $name:ident { $(#[doc = $about:literal] $field:ident: $type:ty = $row:expr, $read:expr;)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        pub struct $name {
            $(#[doc = $about] pub $field: $type,)*
        }

        impl $name {
            pub(super) const ROWS: &[Row] = &[$($row.about($about)),*];

            pub(super) fn read(reader: &mut Reader<'_>) -> Self {
                $(let $field: fn(&mut Slot<'_>) -> $type = $read;)*
                let mut rows = Self::ROWS.iter();
                Self { $($field: $field(&mut reader.slot(rows.next().expect("a row for each field"))),)* }
            }
        }
    };
}
pub(super) use group;

//! What the attributes of a type, a variant or a field say about its JSON.

use anyhow::{Context, bail};
use syn::{Attribute, Expr, ExprLit, Lit, LitStr, Meta};

/// How an enum says which variant it is (<https://serde.rs/enum-representations.html>).
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Tag {
    /// By the name of the only field.
    #[default]
    External,
    /// By a field of this name beside the others.
    Internal(String),
    /// Not at all.
    Untagged,
}

/// Case of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Snake,
    Lower,
}

/// What attributes say, as far as the wire uses it.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    pub(super) doc: Vec<String>,
    pub(super) rename: Option<String>,
    pub(super) rename_all: Option<Case>,
    pub(super) tag: Tag,
    pub(super) flatten: bool,
    /// It may be missing when it is read.
    pub(super) default: bool,
    /// It may be left out when it is written.
    pub(super) skipped: bool,
    /// Serde derives how it is read or written.
    pub(super) serialised: bool,
}

impl Attributes {
    pub(super) fn of(attributes: &[Attribute]) -> anyhow::Result<Self> {
        let mut found = Self::default();
        for attribute in attributes {
            let path = attribute.path();
            if path.is_ident("doc") {
                found.doc.push(text_of(&attribute.meta).context("a comment is a text")?);
            } else if path.is_ident("derive") {
                attribute.parse_nested_meta(|meta| {
                    found.serialised |= meta.path.is_ident("Serialize") || meta.path.is_ident("Deserialize");
                    Ok(())
                })?;
            } else if path.is_ident("serde") {
                found.read(attribute)?;
            }
        }
        Ok(found)
    }

    fn read(&mut self, attribute: &Attribute) -> anyhow::Result<()> {
        let mut strange = None;
        attribute.parse_nested_meta(|meta| {
            let word = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
            let text = match meta.input.peek(syn::Token![=]) {
                true => Some(meta.value()?.parse::<LitStr>()?.value()),
                false => None,
            };
            match (&*word, text) {
                ("default", _) => self.default = true,
                ("skip_serializing_if", Some(_)) => self.skipped = true,
                ("flatten", None) => self.flatten = true,
                ("rename", Some(name)) => self.rename = Some(name),
                ("rename_all", Some(case)) if case == "snake_case" => self.rename_all = Some(Case::Snake),
                ("rename_all", Some(case)) if case == "lowercase" => self.rename_all = Some(Case::Lower),
                ("tag", Some(name)) => self.tag = Tag::Internal(name),
                ("untagged", None) => self.tag = Tag::Untagged,
                // These change what is taken, and nothing of what is meant.
                ("expecting" | "deserialize_with", Some(_)) | ("deny_unknown_fields", None) => {}
                (_, text) => strange = Some(text.map_or(word.clone(), |text| format!("{word} = {text:?}"))),
            }
            Ok(())
        })?;
        match strange {
            Some(word) => bail!("nobody taught `cargo xtask gen` what #[serde({word})] means in TypeScript"),
            None => Ok(()),
        }
    }

    /// Its name on the wire.
    pub(super) fn name(&self, rust: &str, case: Option<Case>) -> String {
        if let Some(name) = &self.rename {
            return name.clone();
        }
        let rust = rust.strip_prefix("r#").unwrap_or(rust);
        match case {
            None => rust.to_owned(),
            Some(Case::Lower) => rust.to_ascii_lowercase(),
            Some(Case::Snake) => snake(rust),
        }
    }

    /// Its comment, set in by `indent`.
    pub(super) fn doc(&self, indent: &str) -> String {
        // A comment of a comment must not end it.
        let lines: Vec<String> = self.doc.iter().map(|line| line.replace("*/", "* /")).collect();
        match &*lines {
            [] => String::new(),
            [line] => format!("{indent}/**{} */\n", line.trim_end()),
            lines => {
                let lines: String = lines.iter().map(|line| format!("{indent} *{}\n", line.trim_end())).collect();
                format!("{indent}/**\n{lines}{indent} */\n")
            }
        }
    }
}

fn text_of(meta: &Meta) -> Option<String> {
    match meta {
        Meta::NameValue(pair) => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// `HuggingFace` as `hugging_face`, as serde does it.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_uppercase() && at > 0 {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

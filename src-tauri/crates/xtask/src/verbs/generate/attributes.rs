//! Serde attributes of types, variants and fields.

use anyhow::{Context, bail};
use syn::{Attribute, Expr, ExprLit, Lit, LitStr, Meta};

/// How the JSON of an enum names its variant (<https://serde.rs/enum-representations.html>).
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Tag {
    /// The name is the only key of an object, and the variant its value.
    #[default]
    External,
    /// The name is the value of the field with this name.
    Internal(String),
    /// The JSON does not name the variant.
    Untagged,
}

/// Case of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Snake,
    Lower,
}

/// The attributes that wire types use.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    pub(super) doc: Vec<String>,
    pub(super) rename: Option<String>,
    pub(super) rename_all: Option<Case>,
    pub(super) tag: Tag,
    pub(super) flatten: bool,
    /// Whether the field may be missing in requests.
    pub(super) default: bool,
    /// Whether the field may be omitted in responses.
    pub(super) skipped: bool,
    /// The function that reads the field.
    pub(super) deserialize_with: Option<String>,
    /// Whether a request may have no other fields.
    pub(super) deny_unknown_fields: bool,
    /// Whether the type derives `Serialize` or `Deserialize`.
    pub(super) serialised: bool,
}

impl Attributes {
    pub(super) fn of(attributes: &[Attribute]) -> anyhow::Result<Self> {
        let mut found = Self::default();
        for attribute in attributes {
            let path = attribute.path();
            if path.is_ident("doc") {
                found.doc.push(text_of(&attribute.meta).context("a doc attribute needs a string")?);
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
        let mut unsupported = None;
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
                ("deserialize_with", Some(function)) => self.deserialize_with = Some(function),
                ("deny_unknown_fields", None) => self.deny_unknown_fields = true,
                // These do not change the documented JSON.
                ("alias" | "expecting", Some(_)) => {}
                // A duration is a number.
                ("with", Some(unit)) if matches!(&*unit, "millis" | "nanos") => {}
                (_, text) => unsupported = Some(text.map_or(word.clone(), |text| format!("{word} = {text:?}"))),
            }
            Ok(())
        })?;
        match unsupported {
            Some(word) => bail!("`cargo xtask gen` does not support #[serde({word})]"),
            None => Ok(()),
        }
    }

    /// The name in JSON.
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

    /// The comment, indented by `indent`.
    pub(super) fn doc(&self, indent: &str) -> String {
        // The text must not end the comment.
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

/// `HuggingFace` as `hugging_face`, with the rules of serde.
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

//! TypeScript declarations of the wire types, generated from the source of `cairn-wire`.
//!
//! Parsing the source instead of using a derive macro keeps the types free of annotations, includes all of them, and
//! copies their comments. The serde attributes that wire types use are supported ([`super::attributes`]); others are errors,
//! so that a declaration always matches the JSON.
//!
//! A field is optional if serde may omit it, or in a request if it may be missing. 64-bit numbers are `number`, because
//! no value of the wire types reaches 2^53.

mod types;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use syn::{Fields, Item, ItemEnum, ItemStruct, Visibility};

use self::types::typescript;
use super::attributes::{Attributes, Tag};
use super::{WIRE, files};
use crate::Repo;

const HEADER: &str = "// Requests and responses of the daemon. Generated from src-tauri/crates/wire by `cargo xtask gen`: do \
                      not edit.\n/* eslint-disable */\n";

/// Types that implement serde by hand, with their TypeScript.
const BY_HAND: &[(&str, &str)] = &[
    // An RFC 3339 time.
    ("Timestamp", "string"),
    ("KeepAlive", "string | number"),
    ("Think", r#"boolean | "low" | "medium" | "high" | "max""#),
];
/// Types without serde derives that are part of an object in JSON.
const PLAIN: &[&str] = &["Options"];

/// Modules of APIs that our interface does not use. Their types have common names such as `Message`.
const NOT_USED: &[&str] = &["anthropic", "openai"];

/// The text of the whole file.
pub(super) fn types(repo: &Repo) -> anyhow::Result<String> {
    let mut text = HEADER.to_owned();
    let mut names = BTreeSet::new();
    let folder = repo.root().join(WIRE);
    for path in files(&folder)? {
        let module = path.strip_prefix(&folder).ok().and_then(|path| path.iter().next());
        if module
            .and_then(|module| Path::new(module).file_stem()?.to_str())
            .is_some_and(|name| NOT_USED.contains(&name))
        {
            continue;
        }
        let source = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let parts = declarations(&source).with_context(|| format!("{}", path.display()))?;
        for (name, declaration) in parts {
            if !names.insert(name.clone()) {
                bail!("two wire types have the name {name}, but TypeScript has one namespace for all");
            }
            text.push('\n');
            text.push_str(&declaration);
        }
    }
    Ok(text)
}

/// The declarations of a file, by name.
fn declarations(source: &str) -> anyhow::Result<Vec<(String, String)>> {
    let file = syn::parse_file(source).context("invalid Rust")?;
    let mut declared = Vec::new();
    for item in &file.items {
        let (name, text) = match item {
            Item::Struct(item) => (item.ident.to_string(), structure(item)),
            Item::Enum(item) => (item.ident.to_string(), choice(item)),
            Item::Type(item) if matches!(item.vis, Visibility::Public(_)) => {
                let attributes = Attributes::of(&item.attrs)?;
                let text = typescript(&item.ty)
                    .map(|ty| format!("{}export type {} = {ty};\n", attributes.doc(""), item.ident));
                (item.ident.to_string(), text.map(Some))
            }
            _ => continue,
        };
        if let Some(text) = text.with_context(|| name.clone())? {
            declared.push((name, text));
        }
    }
    Ok(declared)
}

/// The declaration of a type in [`BY_HAND`].
fn by_hand(name: &str, attributes: &Attributes) -> Option<String> {
    let (_, ty) = BY_HAND.iter().find(|(row, _)| *row == name)?;
    Some(format!("{}export type {name} = {ty};\n", attributes.doc("")))
}

fn structure(item: &ItemStruct) -> anyhow::Result<Option<String>> {
    let attributes = Attributes::of(&item.attrs)?;
    let name = item.ident.to_string();
    if let Some(text) = by_hand(&name, &attributes) {
        return Ok(Some(text));
    }
    if !attributes.serialised && !PLAIN.contains(&&*name) {
        return Ok(None);
    }
    let generics: Vec<String> = item.generics.type_params().map(|param| param.ident.to_string()).collect();
    let generics = if generics.is_empty() { String::new() } else { format!("<{}>", generics.join(", ")) };
    let body = Body::of(&item.fields, &attributes, name.ends_with("Request") || PLAIN.contains(&&*name))?;
    Ok(Some(format!("{}export type {name}{generics} = {};\n", attributes.doc(""), body.text("  "))))
}

fn choice(item: &ItemEnum) -> anyhow::Result<Option<String>> {
    let attributes = Attributes::of(&item.attrs)?;
    let name = item.ident.to_string();
    if let Some(text) = by_hand(&name, &attributes) {
        return Ok(Some(text));
    }
    if !attributes.serialised {
        return Ok(None);
    }
    let mut text = format!("{}export type {name} =", attributes.doc(""));
    for variant in &item.variants {
        let of = Attributes::of(&variant.attrs)?;
        let word = of.name(&variant.ident.to_string(), attributes.rename_all);
        let inner = Attributes { rename_all: of.rename_all, ..Attributes::default() };
        let body = Body::of(&variant.fields, &inner, false)?;
        let shape = match (&attributes.tag, &variant.fields) {
            (Tag::External, Fields::Unit) => format!("{word:?}"),
            (Tag::External, _) => format!("{{ {word}: {} }}", body.text("      ")),
            (Tag::Untagged, Fields::Unit) => "null".to_owned(),
            (Tag::Untagged, _) => body.text("      "),
            (Tag::Internal(tag), Fields::Unit) => format!("{{ {tag}: {word:?} }}"),
            (Tag::Internal(tag), _) => format!("({{ {tag}: {word:?} }} & {})", body.text("      ")),
        };
        write!(text, "\n{}  | {shape}", of.doc("  ")).expect("writing into a string does not fail");
    }
    text.push_str(";\n");
    Ok(Some(text))
}

/// The content of a struct or a variant.
enum Body {
    /// Another type.
    Newtype(String),
    /// Fields, and types with flattened fields.
    Fields { lines: Vec<(String, String)>, flattened: Vec<String> },
}

impl Body {
    fn of(fields: &Fields, container: &Attributes, is_request: bool) -> anyhow::Result<Self> {
        if let Fields::Unnamed(unnamed) = fields {
            let mut unnamed = unnamed.unnamed.iter();
            let (Some(only), None) = (unnamed.next(), unnamed.next()) else {
                bail!("at most one field may be without a name")
            };
            return Ok(Self::Newtype(typescript(&only.ty)?));
        }
        let (mut lines, mut flattened) = (Vec::new(), Vec::new());
        for field in fields {
            let of = Attributes::of(&field.attrs)?;
            let name = field.ident.as_ref().context("a field has a name")?.to_string();
            if of.flatten {
                flattened.push(typescript(&field.ty)?);
                continue;
            }
            let name = of.name(&name, container.rename_all);
            let optional = of.skipped || is_request && (of.default || container.default || types::is_option(&field.ty));
            let ty = if optional { types::inside_option(&field.ty) } else { typescript(&field.ty) };
            let ty = ty.with_context(|| name.clone())?;
            lines.push((of.doc("  "), format!("{name}{}: {ty};", if optional { "?" } else { "" })));
        }
        Ok(Self::Fields { lines, flattened })
    }

    /// Returns the TypeScript text of the type, with its lines indented by `indent`.
    fn text(&self, indent: &str) -> String {
        match self {
            Self::Newtype(ty) => ty.clone(),
            Self::Fields { lines, flattened } => {
                let end = &indent[2..];
                let lines: String = lines
                    .iter()
                    .map(|(doc, line)| {
                        let doc: String = doc.lines().map(|doc| format!("{}{doc}\n", &indent[2..])).collect();
                        format!("{doc}{indent}{line}\n")
                    })
                    .collect();
                let rest: String = flattened.iter().map(|ty| format!(" & {ty}")).collect();
                if lines.is_empty() && !flattened.is_empty() {
                    flattened.join(" & ")
                } else if lines.is_empty() {
                    "Record<string, never>".to_owned()
                } else {
                    format!("{{\n{lines}{end}}}{rest}")
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! The declarations of `cairn-wire` by name: `ollama.ChatRequest`, or `ErrorBody` for a type of the crate's root.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use syn::{Item, UseTree, Visibility};

use super::super::attributes::Attributes;
use super::super::{WIRE, files};
use crate::Repo;

/// All types of the crate.
#[derive(Default)]
pub(super) struct Declarations {
    by_name: BTreeMap<String, Declared>,
}

/// A type with the names that its file imports.
pub(super) struct Declared {
    pub(super) item: Item,
    /// The module of an API; empty for the crate's root.
    module: String,
    imports: BTreeMap<String, String>,
}

impl Declarations {
    pub(super) fn read(repo: &Repo) -> anyhow::Result<Self> {
        let folder = repo.root().join(WIRE);
        let read = |path: &Path| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
        let root = syn::parse_file(&read(&folder.join("lib.rs"))?).context("lib.rs")?;
        let modules: Vec<String> = root.items.iter().filter_map(public_module).collect();
        let mut all = Self::default();
        for path in files(&folder)? {
            let first = path.strip_prefix(&folder).ok().and_then(|path| Path::new(path.iter().next()?).file_stem());
            let first = first.and_then(|name| name.to_str()).unwrap_or_default();
            let module = if modules.iter().any(|module| module == first) { first } else { "" };
            all.add(module, &read(&path)?).with_context(|| format!("{}", path.display()))?;
        }
        Ok(all)
    }

    /// Adds the types of a file.
    pub(super) fn add(&mut self, module: &str, source: &str) -> anyhow::Result<()> {
        let file = syn::parse_file(source).context("invalid Rust")?;
        let mut imports = BTreeMap::new();
        for item in &file.items {
            if let Item::Use(item) = item {
                import(&item.tree, &mut Vec::new(), &mut imports);
            }
        }
        for item in file.items {
            let (ident, is_public) = match &item {
                Item::Struct(item) => (&item.ident, true),
                Item::Enum(item) => (&item.ident, true),
                Item::Type(item) => (&item.ident, matches!(item.vis, Visibility::Public(_))),
                _ => continue,
            };
            let name = qualified(module, &ident.to_string());
            let declared = Declared { item, module: module.to_owned(), imports: imports.clone() };
            if is_public && self.by_name.insert(name.clone(), declared).is_some() {
                bail!("two wire types have the name {name}");
            }
        }
        Ok(())
    }

    /// Returns the declaration of a type.
    pub(super) fn get(&self, name: &str) -> anyhow::Result<&Declared> {
        self.by_name.get(name).with_context(|| format!("`cairn-wire` has no type {name}"))
    }

    /// Returns the full name of a type that `from` names.
    pub(super) fn resolve(&self, from: &Declared, ident: &str) -> anyhow::Result<String> {
        let candidates =
            [from.imports.get(ident).cloned(), Some(qualified(&from.module, ident)), Some(ident.to_owned())];
        let found = candidates.into_iter().flatten().find(|name| self.by_name.contains_key(name));
        found.with_context(|| format!("`cairn-wire` has no type {ident}"))
    }
}

impl Declared {
    pub(super) fn attributes(&self) -> anyhow::Result<Attributes> {
        Attributes::of(match &self.item {
            Item::Struct(item) => &item.attrs,
            Item::Enum(item) => &item.attrs,
            Item::Type(item) => &item.attrs,
            _ => bail!("only structs, enums and aliases are types"),
        })
    }
}

fn qualified(module: &str, ident: &str) -> String {
    if module.is_empty() { ident.to_owned() } else { format!("{module}.{ident}") }
}

fn public_module(item: &Item) -> Option<String> {
    match item {
        Item::Mod(item) if matches!(item.vis, Visibility::Public(_)) => Some(item.ident.to_string()),
        _ => None,
    }
}

/// Collects imports of `crate::MODULE::...::Type` and `crate::Type`.
fn import(tree: &UseTree, path: &mut Vec<String>, imports: &mut BTreeMap<String, String>) {
    match tree {
        UseTree::Path(inner) => {
            path.push(inner.ident.to_string());
            import(&inner.tree, path, imports);
            path.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| import(tree, path, imports)),
        UseTree::Name(name) if path.first().is_some_and(|first| first == "crate") => {
            let ident = name.ident.to_string();
            let module = path.get(1).map_or("", String::as_str);
            imports.insert(ident.clone(), qualified(module, &ident));
        }
        _ => {}
    }
}

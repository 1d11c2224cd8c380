//! The adapters of a loaded model, and those that a request uses.
//!
//! Rows that are computed with adapters differ from those without, and from those with another scale. So each selection of
//! adapters has scopes of its own, in pages and in tiers: a cached prefix is only used by requests with the same selection.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_models::{Adapter, ModelFile};
use cairn_tensor::AdapterUse;

use crate::error::LoadError;
use crate::request::GenerateError;

/// Source of an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterSource {
    /// A GGUF file.
    pub path: PathBuf,
    /// SHA-256 of the file, if available. Without it, no tier stores the model's rows.
    pub digest: Option<[u8; 32]>,
}

/// Separates the name of a scope from the selection of adapters. No name has it.
const SEPARATOR: char = '\u{1f}';

/// Opens adapters, in this order.
pub(crate) fn open(sources: &[AdapterSource]) -> Result<Vec<Adapter>, LoadError> {
    let open = |source: &AdapterSource| {
        let adapter = Adapter::new(ModelFile::open(&source.path)?);
        adapter.map_err(|error| LoadError::Model(error.into()))
    };
    sources.iter().map(open).collect()
}

/// Checks by the shapes of tensors that an adapter fits a model.
pub(crate) fn check(model: &Path, adapter: &Path) -> Result<(), LoadError> {
    let file = ModelFile::open(model)?;
    let adapters = open(&[AdapterSource { path: adapter.to_owned(), digest: None }])?;
    // The context size does not matter: all sizes need the same tensors.
    Ok(cairn_models::check_adapters(&file, &adapters, 1)?)
}

/// Returns the adapters that a request uses, in ascending order. Without a selection, it uses all with the scale 1. An adapter
/// with the scale 0 changes nothing, so it is left out.
pub(crate) fn resolve(selected: Option<Vec<AdapterUse>>, adapters: usize) -> Result<Vec<AdapterUse>, GenerateError> {
    let all = || (0..adapters as u32).map(|adapter| AdapterUse { adapter, scale: 1.0 }).collect();
    let mut uses: Vec<AdapterUse> = selected.unwrap_or_else(all);
    uses.sort_by_key(|one| one.adapter);
    let is_twice = uses.windows(2).any(|pair| pair[0].adapter == pair[1].adapter);
    // A backend rejects the whole batch, and with it the answers of all other requests.
    let is_invalid = |one: &AdapterUse| one.adapter as usize >= adapters || !one.scale.is_finite();
    if is_twice || uses.iter().any(is_invalid) {
        return Err(GenerateError::Backend(format!("the request uses adapters {uses:?}, the model has {adapters}")));
    }
    uses.retain(|one| one.scale != 0.0);
    Ok(uses)
}

/// Returns the name of the scope of sequences that share rows of these adapters.
pub(crate) fn scope_name(name: Option<Arc<str>>, uses: &[AdapterUse]) -> Option<Arc<str>> {
    if uses.is_empty() {
        return name;
    }
    // The default scope and one with an empty name are different.
    let mut text = name.map_or_else(String::new, |name| format!("{SEPARATOR}{name}"));
    for AdapterUse { adapter, scale } in uses {
        let _ = write!(text, "{SEPARATOR}{adapter}={:08x}", scale.to_bits());
    }
    Some(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(uses: &[(u32, f32)]) -> Vec<AdapterUse> {
        uses.iter().map(|&(adapter, scale)| AdapterUse { adapter, scale }).collect()
    }

    #[test]
    fn request_uses_all_adapters_unless_it_selects_some() {
        let check = |selected: Option<&[(u32, f32)]>, expected: &[(u32, f32)]| {
            let resolved = resolve(selected.map(uses), 2).expect("a valid selection");
            assert_eq!(resolved, uses(expected), "{selected:?}");
        };
        check(None, &[(0, 1.0), (1, 1.0)]);
        check(Some(&[]), &[]);
        check(Some(&[(1, 0.5), (0, -1.0)]), &[(0, -1.0), (1, 0.5)]);
        check(Some(&[(1, 0.5), (0, 0.0)]), &[(1, 0.5)]);
        for invalid in [&[(2, 1.0)][..], &[(0, f32::NAN)], &[(0, 1.0), (0, 2.0)]] {
            let error = resolve(Some(uses(invalid)), 2).expect_err("an invalid selection").to_string();
            assert!(error.contains("the model has 2"), "{error}");
        }
    }

    #[test]
    fn scopes_of_different_adapters_differ() {
        let names: [Option<Arc<str>>; 3] = [None, Some("".into()), Some("key".into())];
        let selections = [&[][..], &[(0, 1.0)], &[(0, 0.5)], &[(0, 0.25)], &[(1, 1.0)], &[(0, 1.0), (1, 1.0)]];
        let all = names.iter().flat_map(|name| selections.map(|one| scope_name(name.clone(), &uses(one))));
        let distinct: std::collections::HashSet<_> = all.collect();
        assert_eq!(distinct.len(), 18, "{distinct:?}");
        assert_eq!(scope_name(Some("key".into()), &[]), Some("key".into()), "no adapter changes no name");
    }
}

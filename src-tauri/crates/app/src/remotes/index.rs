//! The servers of each model, by a spelling of its name that is the same for all spellings.

use std::collections::HashMap;
use std::sync::Arc;

use cairn_store::ModelRef;
use cairn_upstream::{Target, Upstream};

/// Servers by model. It is built after each check, because parsing thousands of names takes too long for a request.
#[derive(Debug, Default)]
pub(super) struct Index(HashMap<String, Vec<Target>>);

impl Index {
    pub(super) fn of<'a>(upstreams: impl IntoIterator<Item = &'a Arc<Upstream>>) -> Self {
        let mut index: HashMap<String, Vec<Target>> = HashMap::new();
        for upstream in upstreams {
            for model in upstream.models().iter() {
                let targets = index.entry(canonical(&model.name)).or_default();
                if targets.last().is_none_or(|last| !Arc::ptr_eq(&last.upstream, upstream)) {
                    targets.push(Target { upstream: Arc::clone(upstream), model: model.name.clone() });
                }
            }
        }
        Self(index)
    }

    /// The servers that have a model.
    pub(super) fn targets(&self, name: &str) -> Option<&[Target]> {
        self.0.get(&canonical(name)).map(Vec::as_slice)
    }
}

/// A spelling that is the same for all spellings of a name: with host, namespace and tag, in lower case. Servers of OpenAI's API may
/// have models with names that no registry has; only case is ignored there.
pub(crate) fn canonical(name: &str) -> String {
    let full = name.parse::<ModelRef>().map(|name| name.full());
    full.unwrap_or_else(|_| name.to_owned()).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_name_are_equal() {
        let is_same = |a: &str, b: &str| canonical(a) == canonical(b);
        assert!(is_same("llama3", "Llama3:latest") && is_same("library/llama3", "llama3"));
        assert!(is_same("Qwen/Qwen2.5-7B", "qwen/qwen2.5-7b:latest"));
        assert!(is_same("a/b/c/d/e", "A/b/c/d/e"), "not a name of a registry");
        assert!(!is_same("llama3", "llama3:8b") && !is_same("a/llama3", "llama3"));
    }
}

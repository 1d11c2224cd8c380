//! Content of an encoder with the scope of its request.
//!
//! A scope never uses what an encoder computes for another one, in progress or complete: how long a request takes would show what other
//! clients have sent. An incognito request leaves nothing for requests that are not, also while it runs.

use std::sync::Arc;

use cairn_kv::CacheScope;

/// Identity of a picture or an input, and the scope of the sequences that may share its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScopedContent<T> {
    pub(crate) content: T,
    scope: Option<Arc<str>>,
    is_incognito: bool,
}

impl<T> ScopedContent<T> {
    pub(crate) fn new(content: T, scope: &CacheScope) -> Self {
        Self { content, scope: scope.name.clone(), is_incognito: scope.incognito }
    }

    /// The same content for requests of the scope that are not incognito. All requests of the scope may use its kept rows.
    pub(crate) fn shared(&self) -> Self
    where
        T: Clone,
    {
        Self { content: self.content.clone(), scope: self.scope.clone(), is_incognito: false }
    }

    /// Whether rows may be kept for later requests.
    pub(crate) fn can_be_kept(&self) -> bool {
        !self.is_incognito
    }

    /// Whether a request of this scope may share rows with those of this identity.
    pub(crate) fn is_in(&self, scope: &CacheScope) -> bool {
        self.scope == scope.name && self.is_incognito == scope.incognito
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_shared_within_a_scope_only() {
        let scope = |name: Option<&str>, incognito| CacheScope { name: name.map(Arc::from), incognito, owner: None };
        let scopes = [(None, false), (None, true), (Some(""), false), (Some("key"), false), (Some("key"), true)];
        let scopes = scopes.map(|(name, incognito)| scope(name, incognito));
        for (a, one) in scopes.iter().enumerate() {
            let id = ScopedContent::new(7, one);
            assert_eq!(id.can_be_kept(), !one.incognito, "{one:?}");
            assert_ne!(id, ScopedContent::new(8, one), "other content");
            for (b, other) in scopes.iter().enumerate() {
                assert_eq!(id == ScopedContent::new(7, other), a == b, "{one:?} and {other:?}");
                assert_eq!(id.is_in(other), a == b, "{one:?} in {other:?}");
                assert_eq!(
                    id.shared() == ScopedContent::new(7, other).shared(),
                    one.name == other.name,
                    "{one:?}, {other:?}"
                );
            }
        }
    }
}

//! The tiers of one model: how its chunks are named, looked up and built.

use std::sync::Arc;

use cairn_tier::identity::CHUNK_TOKENS;
use cairn_tier::{
    Chain, Chunk, ChunkHash, ChunkHead, ChunkId, Fingerprint, Flags, Group, Groups, Key, Namespace, NumericClass,
    Prefix, RowTypes, SectionShape, Tiers,
};

/// The tiers of one model, and what identifies the model's chunks in them.
#[derive(Clone)]
pub struct ModelTiers {
    /// The tiers.
    pub tiers: Arc<Tiers>,
    /// Namespace of the chunks.
    pub namespace: Namespace,
    /// Digest of the model and how it is computed.
    pub fingerprint: Fingerprint,
    /// Arithmetic of the backend.
    pub class: NumericClass,
    /// Types of keys and values.
    pub rows: RowTypes,
    /// Layer groups of the model, see [`groups`](crate::groups).
    pub groups: Groups,
}

impl std::fmt::Debug for ModelTiers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelTiers")
            .field("fingerprint", &self.fingerprint)
            .field("class", &self.class)
            .finish_non_exhaustive()
    }
}

impl ModelTiers {
    /// The same tiers for a scope. Chunks of one scope are not found from another.
    #[must_use]
    pub fn in_scope(&self, scope: Option<&str>) -> Self {
        let namespace = scope.map_or_else(|| self.namespace.clone(), |name| self.namespace.within(name));
        Self { namespace, ..self.clone() }
    }

    /// The lookup of these keys.
    pub fn prefix(&self, keys: Arc<[Key]>) -> Prefix {
        Prefix {
            namespace: self.namespace.clone(),
            fingerprint: self.fingerprint,
            keys,
            class: Some(self.class.clone()),
            allow_lossy: self.tiers.allows_lossy(),
            groups: self.groups,
        }
    }

    /// The id of the last chunk of these keys in a layer group, and the hash of the chunk before it.
    pub(crate) fn chunk_id(&self, group: Group, keys: &[Key]) -> (ChunkId, ChunkHash) {
        let mut chain = Chain::new(&self.namespace, &self.fingerprint);
        let (before, last) = keys.split_at(last_chunk_start(keys.len()));
        before.chunks(CHUNK_TOKENS).for_each(|chunk| {
            chain.push(chunk);
        });
        let parent = chain.last();
        (ChunkId { fingerprint: self.fingerprint, hash: chain.peek(last), group }, parent)
    }

    /// The ids of all chunks of these keys.
    pub(crate) fn chunk_ids(&self, keys: &[Key]) -> Vec<ChunkId> {
        let mut chain = Chain::new(&self.namespace, &self.fingerprint);
        let id = |chunk: &[Key]| ChunkId { fingerprint: self.fingerprint, hash: chain.push(chunk), group: Group::Full };
        keys.chunks(CHUNK_TOKENS).map(id).collect()
    }

    /// Builds the last chunk of the prefix `keys`. `id` and `parent` are the result of [`ModelTiers::chunk_id`], and `payload`
    /// has the chunk's rows.
    pub(crate) fn chunk(
        &self,
        (id, parent): (ChunkId, ChunkHash),
        keys: &[Key],
        sections: Arc<[SectionShape]>,
        payload: Vec<u8>,
        created_unix_s: u64,
    ) -> Chunk {
        let first = last_chunk_start(keys.len());
        let head = ChunkHead {
            id,
            parent,
            first_position: first as u64,
            keys: Arc::from(&keys[first..]),
            class: self.class.clone(),
            rows: self.rows,
            flags: Flags { tail: keys.len() - first < CHUNK_TOKENS, ..Flags::default() },
            created_unix_s,
            sections,
        };
        Chunk { head: Arc::new(head), payload: Arc::new(payload) }
    }
}

/// Returns the start of the last chunk of a prefix of `tokens` tokens, which must not be 0.
pub(crate) fn last_chunk_start(tokens: usize) -> usize {
    (tokens - 1) / CHUNK_TOKENS * CHUNK_TOKENS
}

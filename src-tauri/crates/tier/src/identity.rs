//! Ids of chunks: hashes of everything that determines a chunk's rows.
//!
//! ```text
//! fp  = BLAKE3(format revision, weights, shape and types of the state, RoPE, adapters)
//! h0  = keyed BLAKE3(namespace key, fp)
//! h_i = keyed BLAKE3(namespace key, h_(i-1), number of keys, keys)
//! ```
//!
//! Because of the chain, a chunk's hash covers all preceding tokens. The namespace key is derived from a secret of
//! this installation. Hashes therefore reveal no text, and namespaces share no chunks. Context length, threads, slots
//! and offloading do not affect rows and are not hashed.
//!
//! **Invariant:** storing and looking up use these same functions.

use crate::key::Key;

/// Revision of the fingerprint's inputs and of the chunk layout. Raise it with any change of either.
const REVISION: u32 = 2;
/// Tokens of a whole chunk. A chunk starts at a multiple of this.
pub const CHUNK_TOKENS: usize = 256;

/// Digest of a model's weights: the SHA-256 of its blob, or an equally strong digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeightsDigest(pub [u8; 32]);

/// Digest of everything except tokens that determines a chunk's rows. Chunks of different fingerprints share nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Computes the fingerprint of weights used in one way. `facts` are names and values of everything else that
    /// determines rows: architecture, heads and dimensions per layer, windows, RoPE frequencies, K and V types,
    /// adapters. Their order matters.
    pub fn new<'a>(weights: WeightsDigest, facts: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("cairn 2026-11 kv fingerprint");
        hasher.update(&REVISION.to_le_bytes());
        hasher.update(&weights.0);
        for (name, value) in facts {
            for part in [name.as_bytes(), value] {
                // The lengths make the encoding unambiguous.
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// Wraps stored bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Key of a set of chunks that requests may share, such as a profile or an API key. Two namespaces share nothing, even
/// for equal tokens.
#[derive(Clone)]
pub struct Namespace([u8; 32]);

impl Namespace {
    /// Derives the namespace `name` from a secret of at least 32 random bytes. The secret never leaves this
    /// installation, or is known only to the installations that share a remote tier.
    pub fn new(secret: &[u8], name: &str) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("cairn 2026-11 kv namespace");
        hasher.update(&(secret.len() as u64).to_le_bytes());
        hasher.update(secret);
        hasher.update(name.as_bytes());
        Self(*hasher.finalize().as_bytes())
    }

    /// Derives a nested namespace. It shares nothing with this one or with its siblings.
    #[must_use]
    pub fn within(&self, name: &str) -> Self {
        Self::new(&self.derive("namespace within"), name)
    }

    /// Derives a key for another purpose, such as encrypting stored chunks.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(b"derive");
        hasher.update(purpose.as_bytes());
        *hasher.finalize().as_bytes()
    }
}

impl std::fmt::Debug for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Namespace(secret)")
    }
}

/// Hash of a chunk and of all chunks before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkHash([u8; 32]);

impl ChunkHash {
    /// Wraps stored bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Display for ChunkHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// Computes the hashes of one sequence's chunks, from its first token.
#[derive(Clone, Debug)]
pub struct Chain {
    namespace: Namespace,
    last: ChunkHash,
}

impl Chain {
    /// Returns the chain of an empty sequence.
    pub fn new(namespace: &Namespace, fingerprint: &Fingerprint) -> Self {
        let root = blake3::keyed_hash(&namespace.0, &fingerprint.0);
        Self { namespace: namespace.clone(), last: ChunkHash(*root.as_bytes()) }
    }

    /// Returns the hash of the last chunk: the parent of the next one.
    pub fn last(&self) -> ChunkHash {
        self.last
    }

    /// Returns the hash of a chunk with these keys after the last chunk.
    pub fn peek(&self, keys: &[Key]) -> ChunkHash {
        let mut hasher = blake3::Hasher::new_keyed(&self.namespace.0);
        hasher.update(&self.last.0);
        hasher.update(&(keys.len() as u64).to_le_bytes());
        for key in keys {
            hasher.update(&key.to_le_bytes());
        }
        ChunkHash(*hasher.finalize().as_bytes())
    }

    /// Appends a chunk and returns its hash.
    pub fn push(&mut self, keys: &[Key]) -> ChunkHash {
        self.last = self.peek(keys);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(ids: &[u32]) -> Vec<Key> {
        ids.iter().copied().map(Key::token).collect()
    }

    fn name(secret: &[u8], space: &str, weights: u8, chunks: &[&[u32]]) -> ChunkHash {
        let fingerprint = Fingerprint::new(WeightsDigest([weights; 32]), [("arch", b"llama".as_slice())]);
        let mut chain = Chain::new(&Namespace::new(secret, space), &fingerprint);
        for chunk in chunks {
            chain.push(&keys(chunk));
        }
        chain.last()
    }

    /// Returns the hash of the last chunk of `[1, 2], [3]` in the namespace `inner` nested in `outer`.
    fn within(outer: &str, inner: &str) -> ChunkHash {
        let fingerprint = Fingerprint::new(WeightsDigest([1; 32]), [("arch", b"llama".as_slice())]);
        let mut chain = Chain::new(&Namespace::new(b"s", outer).within(inner), &fingerprint);
        chain.push(&keys(&[1, 2]));
        chain.push(&keys(&[3]))
    }

    #[test]
    fn chunk_hash_covers_secret_namespace_weights_and_tokens() {
        let same = name(b"s", "me", 1, &[&[1, 2], &[3]]);
        assert_eq!(same, name(b"s", "me", 1, &[&[1, 2], &[3]]), "equal inputs give equal hashes");
        for (other, why) in [
            (name(b"t", "me", 1, &[&[1, 2], &[3]]), "another installation"),
            (name(b"s", "you", 1, &[&[1, 2], &[3]]), "another namespace"),
            (within("me", "you"), "a nested namespace"),
            (within("me", "me"), "a nested namespace of the same name"),
            (name(b"s", "me", 2, &[&[1, 2], &[3]]), "other weights"),
            (name(b"s", "me", 1, &[&[1, 2], &[4]]), "another token"),
            (name(b"s", "me", 1, &[&[1], &[2, 3]]), "other chunk borders"),
            (name(b"s", "me", 1, &[&[7, 2], &[3]]), "another token in an earlier chunk"),
            (name(b"s", "me", 1, &[&[3]]), "no earlier chunk"),
            (name(b"s", "me", 1, &[]), "the empty prefix"),
        ] {
            assert_ne!(same, other, "the hash changes with {why}");
        }
    }

    #[test]
    fn fingerprint_separates_fact_names_from_values() {
        let weights = WeightsDigest([0; 32]);
        let one = Fingerprint::new(weights, [("ab", b"c".as_slice())]);
        let other = Fingerprint::new(weights, [("a", b"bc".as_slice())]);
        assert_ne!(one, other, "name and value are delimited");
    }

    #[test]
    fn namespace_debug_hides_key() {
        assert_eq!(format!("{:?}", Namespace::new(b"secret", "me")), "Namespace(secret)", "the key is not printed");
    }
}

//! Names of chunks: hashes over everything that decides what a chunk's rows are.
//!
//! ```text
//! fp  = BLAKE3(format revision, weights, shape and types of the state, RoPE, adapters)
//! h0  = keyed BLAKE3(namespace key, fp)
//! h_i = keyed BLAKE3(namespace key, h_(i-1), number of keys, keys)
//! ```
//!
//! A chain makes a chunk's name stand for all tokens before it too. The namespace key comes from a secret of this installation, so
//! that names tell nobody what was said, and one client's chunks are not another's. Context length, threads, slots and offloading
//! decide nothing, so they are not in it.
//!
//! **Invariant:** whoever stores and whoever looks up call the same functions, here.

use crate::key::Key;

/// Revision of what a fingerprint covers and of how chunks are laid out. Raised with any change of either.
const REVISION: u32 = 2;
/// Tokens of a whole chunk, which begins at a multiple of this.
pub const CHUNK_TOKENS: usize = 256;

/// What decides a model's weights: the SHA-256 of its blob, or another digest as strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeightsDigest(pub [u8; 32]);

/// Everything but the tokens that decides what rows are. Chunks of different fingerprints have nothing in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of these weights used in this way. `facts` are name and value of all else that decides rows: architecture,
    /// heads and dimensions per layer, windows, RoPE frequencies, types of K and V, adapters. Order counts.
    pub fn new<'a>(weights: WeightsDigest, facts: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("cairn 2026-11 kv fingerprint");
        hasher.update(&REVISION.to_le_bytes());
        hasher.update(&weights.0);
        for (name, value) in facts {
            for part in [name.as_bytes(), value] {
                // Lengths keep the borders of neighbours from moving.
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// One that was stored.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Whose chunks: a profile, or an API key's. Two namespaces share nothing, even of the same tokens.
#[derive(Clone)]
pub struct Namespace([u8; 32]);

impl Namespace {
    /// The namespace of this name under a secret of at least 32 random bytes, which never leaves this installation (or is shared by
    /// those who share a remote tier).
    pub fn new(secret: &[u8], name: &str) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("cairn 2026-11 kv namespace");
        hasher.update(&(secret.len() as u64).to_le_bytes());
        hasher.update(secret);
        hasher.update(name.as_bytes());
        Self(*hasher.finalize().as_bytes())
    }

    /// The namespace of this name inside of this one. It shares nothing with it, nor with those of other names.
    #[must_use]
    pub fn within(&self, name: &str) -> Self {
        Self::new(&self.derive("namespace within"), name)
    }

    /// A key for another use in this namespace, such as sealing what is stored.
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

/// A link of a chain: the name of a chunk, given all that came before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkHash([u8; 32]);

impl ChunkHash {
    /// One that was stored.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Display for ChunkHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Names the chunks of one sequence, from its first token on.
#[derive(Clone, Debug)]
pub struct Chain {
    namespace: Namespace,
    last: ChunkHash,
}

impl Chain {
    /// The chain of an empty sequence.
    pub fn new(namespace: &Namespace, fingerprint: &Fingerprint) -> Self {
        let root = blake3::keyed_hash(&namespace.0, &fingerprint.0);
        Self { namespace: namespace.clone(), last: ChunkHash(*root.as_bytes()) }
    }

    /// The name of what came last: the parent of the next chunk.
    pub fn last(&self) -> ChunkHash {
        self.last
    }

    /// The name that a chunk of these keys has after the last one.
    pub fn peek(&self, keys: &[Key]) -> ChunkHash {
        let mut hasher = blake3::Hasher::new_keyed(&self.namespace.0);
        hasher.update(&self.last.0);
        hasher.update(&(keys.len() as u64).to_le_bytes());
        for key in keys {
            hasher.update(&key.to_le_bytes());
        }
        ChunkHash(*hasher.finalize().as_bytes())
    }

    /// Goes on by a chunk and returns its name.
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

    /// The chain of the test below, in a namespace within another.
    fn within(outer: &str, inner: &str) -> ChunkHash {
        let fingerprint = Fingerprint::new(WeightsDigest([1; 32]), [("arch", b"llama".as_slice())]);
        let mut chain = Chain::new(&Namespace::new(b"s", outer).within(inner), &fingerprint);
        chain.push(&keys(&[1, 2]));
        chain.push(&keys(&[3]))
    }

    #[test]
    fn a_name_depends_on_all_that_decides_the_rows() {
        let same = name(b"s", "me", 1, &[&[1, 2], &[3]]);
        assert_eq!(same, name(b"s", "me", 1, &[&[1, 2], &[3]]), "the same facts give the same name");
        for (other, why) in [
            (name(b"t", "me", 1, &[&[1, 2], &[3]]), "another installation"),
            (name(b"s", "you", 1, &[&[1, 2], &[3]]), "another namespace"),
            (within("me", "you"), "a namespace within"),
            (within("me", "me"), "a namespace of the same name within"),
            (name(b"s", "me", 2, &[&[1, 2], &[3]]), "other weights"),
            (name(b"s", "me", 1, &[&[1, 2], &[4]]), "another token"),
            (name(b"s", "me", 1, &[&[1], &[2, 3]]), "other borders"),
            (name(b"s", "me", 1, &[&[7, 2], &[3]]), "another token before"),
            (name(b"s", "me", 1, &[&[3]]), "nothing before"),
            (name(b"s", "me", 1, &[]), "the empty prefix"),
        ] {
            assert_ne!(same, other, "{why} gives another name");
        }
    }

    #[test]
    fn borders_between_facts_do_not_move() {
        let weights = WeightsDigest([0; 32]);
        let one = Fingerprint::new(weights, [("ab", b"c".as_slice())]);
        let other = Fingerprint::new(weights, [("a", b"bc".as_slice())]);
        assert_ne!(one, other, "name and value are told apart");
    }

    #[test]
    fn a_namespace_does_not_show_its_key() {
        assert_eq!(
            format!("{:?}", Namespace::new(b"secret", "me")),
            "Namespace(secret)",
            "nothing of the key is printed"
        );
    }
}

//! A fast hash of short byte strings and of pairs: multiplications of 64 by 64 bits with the halves of the product
//! folded together, the scheme of wyhash (github.com/wangyi-fudan/wyhash). Tables with content of a file use a random
//! seed, so that a file cannot force collisions.

use std::hash::{BuildHasher, RandomState};

/// Odd numbers with equally many ones and zeros.
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
const END: u64 = 0xD6E8_FEB8_6659_FD93;

/// Returns a seed that is different in each process.
pub(crate) fn random_seed() -> u64 {
    RandomState::new().hash_one(0)
}

/// Hashes a number.
#[inline]
pub(crate) fn of_number(number: u64, seed: u64) -> u64 {
    fold(number ^ seed, MIX)
}

/// Hashes bytes.
#[inline]
pub(crate) fn of_bytes(bytes: &[u8], seed: u64) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(seed, |hash, word| fold(hash ^ u64::from_le_bytes(*word), MIX));
    let last = rest.iter().rev().fold(0, |last, &byte| last << 8 | u64::from(byte));
    fold(hash ^ last, END ^ bytes.len() as u64)
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn hashes_of_similar_inputs_differ() {
        let texts: Vec<String> = (0..20_000).map(|n| format!("{n}{}", "x".repeat(n % 19))).collect();
        let hashes: HashSet<u64> = texts.iter().map(|text| of_bytes(text.as_bytes(), 1) >> 24).collect();
        assert!(hashes.len() > 19_990, "{} different of {}", hashes.len(), texts.len());
        let hashes: HashSet<u64> = (0..20_000).map(|n| of_number((n << 32) | (n % 7), 1) >> 24).collect();
        assert!(hashes.len() > 19_990, "{} different of 20000 pairs", hashes.len());
    }

    #[test]
    fn hash_depends_on_seed_and_length() {
        assert_ne!(of_bytes(b"a", 1), of_bytes(b"a", 2), "the seed");
        assert_ne!(of_bytes(b"a", 1), of_bytes(b"a\0", 1), "the length");
        assert_ne!(of_number(5, 1), of_number(5, 2), "the seed, for numbers");
    }
}

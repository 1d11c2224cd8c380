//! Vocabularies of tiktoken, `tiktoken.model`: a line for each token, with its bytes in base64 and its rank.
//!
//! tiktoken merges the two parts of a word of which the joined token has the lowest rank. GGUF has the parts of each token
//! instead: those that are left when only tokens of lower ranks are merged.

use std::collections::HashMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rayon::prelude::*;

use super::tokenizer::MAX_TOKENS;

pub(super) const TIKTOKEN: &str = "tiktoken.model";
/// Longer than in any vocabulary. Finding the parts of a token takes time that grows with the square of its length.
const MAX_TOKEN_BYTES: usize = 512;

/// Tokens by rank, in the byte alphabet of GPT-2, and the parts of those that are merged, lowest rank first.
#[derive(Debug)]
pub(super) struct Vocabulary {
    pub(super) tokens: Vec<String>,
    pub(super) merges: Vec<String>,
}

/// Reads a vocabulary.
pub(super) fn read(text: &str) -> Result<Vocabulary, String> {
    let tokens = by_rank(text)?;
    let ranks: HashMap<&[u8], u32> = tokens.iter().map(Vec::as_slice).zip(0..).collect();
    if ranks.len() < tokens.len() {
        return Err("two tokens have the same bytes".to_owned());
    }
    let merge = |(rank, token): (usize, &Vec<u8>)| {
        let at = parts(token, rank as u32, &ranks)?;
        let (left, right) = token.split_at(at);
        Some(format!("{} {}", alphabet(left), alphabet(right)))
    };
    let merges = tokens.par_iter().enumerate().filter_map(merge).collect();
    Ok(Vocabulary { tokens: tokens.iter().map(|token| alphabet(token)).collect(), merges })
}

/// Returns the bytes of tokens, by rank.
fn by_rank(text: &str) -> Result<Vec<Vec<u8>>, String> {
    let lines = || text.lines().filter(|line| !line.is_empty());
    let count = lines().take(MAX_TOKENS + 1).count();
    if count > MAX_TOKENS {
        return Err(format!("it has more than {MAX_TOKENS} tokens"));
    }
    let mut tokens = vec![Vec::new(); count];
    for (number, line) in (1..).zip(lines()) {
        let refused = |reason: &str| format!("token {number}: {reason}");
        let (bytes, rank) = line.split_once(' ').ok_or_else(|| refused("it has no rank"))?;
        let bytes = BASE64_STANDARD.decode(bytes).map_err(|error| refused(&error.to_string()))?;
        if bytes.is_empty() || bytes.len() > MAX_TOKEN_BYTES {
            return Err(refused(&format!("it has {} bytes, and 1 to {MAX_TOKEN_BYTES} are supported", bytes.len())));
        }
        let slot = rank.parse().ok().and_then(|rank: usize| tokens.get_mut(rank)).filter(|slot| slot.is_empty());
        *slot.ok_or_else(|| refused(&format!("the rank {rank:?} is not one of 0 to {} that is free", count - 1)))? =
            bytes;
    }
    if tokens.is_empty() { Err("it has no tokens".to_owned()) } else { Ok(tokens) }
}

/// Returns where a token is divided into its two last parts. `None` for a byte, and for a token that no merge makes.
fn parts(token: &[u8], rank: u32, ranks: &HashMap<&[u8], u32>) -> Option<usize> {
    // Starts of parts, and the rank of each part joined with the next one.
    let mut starts: Vec<usize> = (0..token.len()).collect();
    let joined = |starts: &[usize], at: usize| {
        let end = starts.get(at + 2).copied().unwrap_or(token.len());
        ranks.get(&token[starts[at]..end]).copied().filter(|&joined| joined < rank).unwrap_or(u32::MAX)
    };
    let mut pairs: Vec<u32> = (1..token.len()).map(|at| joined(&starts, at - 1)).collect();
    while starts.len() > 2 {
        let (at, &best) = pairs.iter().enumerate().min_by_key(|(_, rank)| **rank)?;
        if best == u32::MAX {
            return None;
        }
        starts.remove(at + 1);
        pairs.remove(at);
        for changed in [at.checked_sub(1), Some(at)].into_iter().flatten().filter(|&at| at + 1 < starts.len()) {
            pairs[changed] = joined(&starts, changed);
        }
    }
    // A token of which a part is none is not merged either.
    let &[_, at] = &starts[..] else { return None };
    let is_token = |part: &[u8]| ranks.get(part).is_some_and(|&of_part| of_part < rank);
    Some(at).filter(|_| is_token(&token[..at]) && is_token(&token[at..]))
}

/// Returns bytes in the alphabet of GPT-2: printable ones are themselves, others are characters from U+0100 on.
fn alphabet(bytes: &[u8]) -> String {
    let is_printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let letter = |&byte: &u8| {
        let others = (0..byte).filter(|&byte| !is_printable(byte)).count() as u32;
        if is_printable(byte) { char::from(byte) } else { char::from_u32(0x100 + others).expect("a character") }
    };
    bytes.iter().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(tokens: &[&[u8]]) -> String {
        let line = |(rank, token): (usize, &&[u8])| format!("{} {rank}\n", BASE64_STANDARD.encode(token));
        tokens.iter().enumerate().map(line).collect()
    }

    #[test]
    fn parts_of_tokens_follow_the_ranks() {
        let tokens: &[&[u8]] = &[b"a", b"b", b"c", b" ", b"bc", b"ab", b"abc", b"\xff", b" abc", b"c\xff", b"zz"];
        let vocabulary = read(&lines(tokens)).expect("a valid vocabulary");
        assert_eq!(vocabulary.tokens[7..9], ["\u{ff}", "\u{120}abc"]);
        // `bc` has a lower rank than `ab`, and `z` is no token.
        let expected = ["b c", "a b", "a bc", "\u{120} abc", "c \u{ff}"];
        assert_eq!(vocabulary.merges, expected);
    }

    #[test]
    fn token_that_no_merge_makes_has_no_parts() {
        let vocabulary = read(&lines(&[b"a", b"b", b"aba"])).expect("a valid vocabulary");
        assert_eq!(vocabulary.merges, [""; 0]);
    }

    #[test]
    fn damaged_vocabularies_are_refused() {
        let check = |text: &str, expected: &str| {
            let error = read(text).expect_err(expected);
            assert!(error.contains(expected), "{error:?} lacks {expected:?}");
        };
        check("", "it has no tokens");
        check("YQ==\n", "token 1: it has no rank");
        check("YQ== 0\n*** 1\n", "token 2: Invalid");
        check("YQ== 0\nYg== 0\n", "token 2: the rank \"0\" is not one of 0 to 1 that is free");
        check("YQ== 2\nYg== 0\n", "the rank \"2\" is not one of 0 to 1 that is free");
        check("YQ== -1\n", "the rank \"-1\"");
        check("YQ== 0\nYQ== 1\n", "two tokens have the same bytes");
        check(" 0\n", "token 1: it has 0 bytes");
        check(&lines(&[&[b'a'; 513]]), "token 1: it has 513 bytes, and 1 to 512 are supported");
        check(&"YQ== 0\n".repeat(MAX_TOKENS + 1), "it has more than 1048576 tokens");
    }
}

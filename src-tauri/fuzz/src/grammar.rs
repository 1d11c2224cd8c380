//! A constraint on an answer: a JSON Schema, a regular expression or a Lark grammar.
//!
//! Guarantees: no panic, also none that the compiler catches; errors have one line of text; each token of a mask is accepted; a complete
//! answer under a JSON Schema is JSON.

use std::sync::{Arc, LazyLock};

use cairn_grammar::{Constraint, Matcher, Vocabulary};

/// Longest answer.
const MAX_TOKENS: usize = 200;
/// The end token of a vocabulary of bytes.
const END: u32 = 256;

static BYTES: LazyLock<Arc<Vocabulary>> = LazyLock::new(|| {
    let bytes: Vec<u8> = (0..=255).collect();
    Vocabulary::new(bytes.chunks(1).chain([&[][..]]), &[END]).expect("the vocabulary is valid")
});

/// Runs this fuzz target on one input: the kind of the constraint, its text, a zero, and bytes that choose the tokens.
pub fn run(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else { return };
    let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
    let (text, choices) = rest.split_at(end);
    let Ok(text) = std::str::from_utf8(text) else { return };
    let constraint = match kind {
        b'r' => Constraint::Regex(text.to_owned()),
        b'l' => Constraint::Lark(text.to_owned()),
        _ => match serde_json::from_str(text) {
            Ok(schema) => Constraint::JsonSchema(schema),
            Err(_) => return,
        },
    };
    let is_json = matches!(constraint, Constraint::JsonSchema(_));
    let mut matcher = match Matcher::new(&BYTES, &constraint) {
        Ok(matcher) => matcher,
        Err(error) => return check_error(&error.to_string()),
    };
    let mut answer = Vec::new();
    for turn in 0..MAX_TOKENS {
        let allowed: Vec<u32> = match matcher.mask() {
            Ok(mask) => (0..=END).filter(|&token| mask.is_allowed(token)).collect(),
            Err(error) => return check_error(&error.to_string()),
        };
        // Without choices, the last allowed byte closes what is open soonest.
        let choice = choices.get(turn + 1).map_or(allowed.len() - 1, |&byte| usize::from(byte) % allowed.len());
        let Some(&token) = allowed.get(choice) else { return };
        let Ok(byte) = u8::try_from(token) else {
            assert!(matcher.is_accepting(), "only an answer that matches may end");
            match serde_json::from_slice::<serde_json::Value>(&answer) {
                // The parser limits numbers, which JSON does not.
                Err(error) if is_json && !error.to_string().contains("number out of range") => {
                    panic!("{error}: {}", String::from_utf8_lossy(&answer))
                }
                _ => return,
            }
        };
        answer.push(byte);
        if let Err(error) = matcher.accept(token) {
            return check_error(&error.to_string());
        }
    }
}

fn check_error(error: &str) {
    assert!(!error.is_empty() && !error.contains('\n') && !error.contains("panic"), "an error has one line: {error}");
}

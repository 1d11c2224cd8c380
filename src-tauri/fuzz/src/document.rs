//! A file of a document, as clients attach it. The first byte selects the extension of its name.
//!
//! Guarantees: no panic, and text without control characters within the limits, or an error.

use cairn_documents::{Limits, extract};

/// Small limits, so that inputs run fast.
const LIMITS: Limits =
    Limits { file_bytes: 1 << 20, inflated_bytes: 4 << 20, entries: 100, depth: 64, parts: 500, chars: 200_000 };

/// Runs this fuzz target on one input.
pub fn run(input: &[u8]) {
    let Some((&first, bytes)) = input.split_first() else { return };
    let extension = ["", "pdf", "docx", "html", "md", "txt"][usize::from(first) % 6];
    match extract(bytes, extension, &LIMITS) {
        Ok(extracted) => {
            assert!((1..=LIMITS.parts).contains(&extracted.parts.len()), "a document has parts, within the limit");
            let chars: usize = extracted.parts.iter().map(|part| part.text.chars().count()).sum();
            assert!((1..=LIMITS.chars).contains(&chars), "{chars} characters");
            let texts = extracted.parts.iter().map(|part| &part.text);
            let is_bad = |c: char| c.is_control() && c != '\n' && c != '\t';
            assert!(!texts.into_iter().any(|text| text.trim().is_empty() || text.contains(is_bad)), "texts are clean");
        }
        Err(error) => assert!(!error.to_string().is_empty(), "the error has a reason"),
    }
}

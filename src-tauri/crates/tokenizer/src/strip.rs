//! White space that a special token takes away around itself. Files do not say so; the vocabularies that do are known by name.

use crate::vocab::Vocab;

/// Which side's white space goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Strip {
    pub(crate) left: bool,
    pub(crate) right: bool,
}

/// Pre-tokenizers whose `<mask>` takes the blank in front of it.
const MASK_BY_PRE: [&str; 3] = ["jina-v2-de", "jina-v2-es", "jina-v2-code"];
/// Architectures of which the same holds.
const MASK_BY_ARCHITECTURE: [&str; 2] = ["nomic-bert-moe", "jina-bert-v3"];
/// The special tokens of Phi-3 that keep what follows them; all others take the white space.
const PHI_3_KEEPS: [&str; 3] = ["<unk>", "<s>", "<|endoftext|>"];

/// What the special tokens of a vocabulary do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StripRule {
    Nothing,
    /// The token of this text takes the white space in front of it.
    Mask(&'static str),
    Phi3,
}

impl StripRule {
    pub(crate) fn of(vocab: &Vocab) -> StripRule {
        let name = vocab.name.to_lowercase();
        let masks = MASK_BY_PRE.iter().any(|pre| vocab.pre.contains(pre))
            || MASK_BY_ARCHITECTURE.iter().any(|architecture| vocab.architecture.contains(architecture));
        if masks {
            StripRule::Mask("<mask>")
        } else if name.contains("phi-3") || name.contains("phi3") {
            StripRule::Phi3
        } else if name.contains("modern-bert") {
            StripRule::Mask("[MASK]")
        } else {
            StripRule::Nothing
        }
    }

    /// What the special token `text` does.
    pub(crate) fn strip(self, text: &str) -> Strip {
        match self {
            StripRule::Nothing => Strip::default(),
            StripRule::Mask(mask) => Strip { left: text == mask, right: false },
            StripRule::Phi3 => Strip { left: false, right: !PHI_3_KEEPS.contains(&text) },
        }
    }
}

/// White space as the C library's `isspace` has it.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(vocab: Vocab, text: &str, left: bool, right: bool) {
        let got = StripRule::of(&vocab).strip(text);
        assert_eq!(got, Strip { left, right }, "{text:?} of {vocab:?}");
    }

    #[test]
    fn vocabularies_by_name() {
        let phi = || Vocab { name: "Phi3 mini".to_owned(), ..Vocab::default() };
        check(phi(), "<|end|>", false, true);
        check(phi(), "<s>", false, false);
        let nomic = || Vocab { architecture: "nomic-bert-moe".to_owned(), ..Vocab::default() };
        check(nomic(), "<mask>", true, false);
        check(nomic(), "<s>", false, false);
        check(Vocab { pre: "jina-v2-code".to_owned(), ..Vocab::default() }, "<mask>", true, false);
        check(Vocab { name: "modern-bert-base".to_owned(), ..Vocab::default() }, "[MASK]", true, false);
        check(Vocab { name: "llama".to_owned(), ..Vocab::default() }, "<mask>", false, false);
    }
}

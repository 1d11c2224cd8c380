//! White space that special tokens strip. Files have no key for this; the vocabularies are recognised by name.

use crate::vocab::Vocab;

/// Sides whose white space is stripped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Strip {
    pub(crate) left: bool,
    pub(crate) right: bool,
}

/// Pre-tokenizers whose `<mask>` strips preceding white space.
const MASK_BY_PRE: [&str; 3] = ["jina-v2-de", "jina-v2-es", "jina-v2-code"];
/// Architectures whose `<mask>` strips preceding white space.
const MASK_BY_ARCHITECTURE: [&str; 2] = ["nomic-bert-moe", "jina-bert-v3"];
/// Special tokens of Phi-3 that do not strip following white space. All others do.
const PHI_3_KEEPS: [&str; 3] = ["<unk>", "<s>", "<|endoftext|>"];

/// Rule of a vocabulary for its special tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StripRule {
    Nothing,
    /// The token of this text strips preceding white space.
    Mask(&'static str),
    Phi3,
}

impl StripRule {
    pub(crate) fn for_vocab(vocab: &Vocab) -> StripRule {
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

    /// Returns the sides that the special token `text` strips.
    pub(crate) fn strip(self, text: &str) -> Strip {
        match self {
            StripRule::Nothing => Strip::default(),
            StripRule::Mask(mask) => Strip { left: text == mask, right: false },
            StripRule::Phi3 => Strip { left: false, right: !PHI_3_KEEPS.contains(&text) },
        }
    }
}

/// White space as in C's `isspace`.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(vocab: Vocab, text: &str, left: bool, right: bool) {
        let got = StripRule::for_vocab(&vocab).strip(text);
        assert_eq!(got, Strip { left, right }, "{text:?} of {vocab:?}");
    }

    #[test]
    fn white_space_strip_rule_is_chosen_by_name_architecture_or_pre_tokenizer() {
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

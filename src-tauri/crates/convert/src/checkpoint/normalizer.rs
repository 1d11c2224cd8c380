//! Normalizers of `tokenizer.json`: changes of a text before it is split into words.
//!
//! GGUF has no list of them. The engine changes a text as its kind of vocabulary implies, like llama.cpp. Other changes are
//! an error, because a text would get other tokens. NFC is the exception: the tokenizers of Qwen, GPT-NeoX and Command R have
//! it, llama.cpp leaves it out, and nearly all texts are in this form.

use super::description::TOKENIZER;
use super::error::{ConvertError, unsupported};
use super::tokenizer::{BLANK, Normalizer, TokenizerFile};

/// Composes characters.
const NFC: &str = "NFC";
/// Decomposes characters.
const NFD: &str = "NFD";
const LOWERCASE: &str = "Lowercase";
/// All changes of BERT together.
const BERT: &str = "BertNormalizer";
const STRIP_ACCENTS: &str = "StripAccents";

/// How the words of a WordPiece vocabulary are changed; `None` is the engine's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) lowercase: Option<bool>,
    pub(super) strip_accents: Option<bool>,
}

fn steps(tokenizer: &TokenizerFile) -> impl Iterator<Item = &Normalizer> {
    tokenizer.normalizer.iter().flat_map(Normalizer::steps)
}

fn refused(step: &Normalizer, vocabulary: &str) -> ConvertError {
    let kind = step.kind.as_deref().unwrap_or_default();
    unsupported(format!("the normalizer {kind:?} of a {vocabulary} vocabulary in {TOKENIZER}"))
}

/// Checks the steps of a byte-level vocabulary.
pub(super) fn check_bytes(tokenizer: &TokenizerFile) -> Result<(), ConvertError> {
    let other = steps(tokenizer).find(|step| step.kind.as_deref() != Some(NFC));
    other.map_or(Ok(()), |step| Err(refused(step, "byte-level BPE")))
}

/// Checks the steps of SentencePiece's BPE. They write blanks as U+2581, and one before a text.
pub(super) fn check_merges(tokenizer: &TokenizerFile) -> Result<(), ConvertError> {
    let is_blank = |text: Option<&str>| text.is_some_and(|text| text.chars().eq([BLANK]));
    let is_implied = |step: &&Normalizer| match step.kind.as_deref() {
        Some(NFC) => true,
        Some("Prepend") => is_blank(step.prepend.as_deref()),
        Some("Replace") => {
            let pattern = step.pattern.as_ref().and_then(|pattern| pattern.text.as_deref());
            pattern == Some(" ") && is_blank(step.content.as_deref())
        }
        _ => false,
    };
    let other = steps(tokenizer).find(|step| !is_implied(step));
    other.map_or(Ok(()), |step| Err(refused(step, "SentencePiece BPE")))
}

/// Returns the changes by the steps of a WordPiece vocabulary.
pub(super) fn of_words(tokenizer: &TokenizerFile) -> Result<Words, ConvertError> {
    let (mut words, mut decomposes) = (Words { lowercase: Some(false), strip_accents: Some(false) }, false);
    let is_alone = steps(tokenizer).count() == 1;
    for step in steps(tokenizer) {
        match step.kind.as_deref() {
            // Its flags may contradict the other steps.
            Some(BERT) if !is_alone => {
                return Err(unsupported(format!("the normalizer {BERT:?} beside others in {TOKENIZER}")));
            }
            // The engine always removes control characters, and separates Chinese characters.
            Some(BERT) if step.clean_text != Some(false) && step.handle_chinese_chars != Some(false) => {
                return Ok(Words { lowercase: step.lowercase, strip_accents: step.strip_accents });
            }
            Some(LOWERCASE) => words.lowercase = Some(true),
            Some(STRIP_ACCENTS) => words.strip_accents = Some(true),
            Some(NFD) => decomposes = true,
            Some(NFC) => {}
            _ => return Err(refused(step, "WordPiece")),
        }
    }
    // The engine decomposes characters to remove their accents, and never otherwise.
    if decomposes != (words.strip_accents == Some(true)) {
        let [one, other] = if decomposes { [NFD, STRIP_ACCENTS] } else { [STRIP_ACCENTS, NFD] };
        return Err(unsupported(format!("the normalizer {one:?} without {other:?} in {TOKENIZER}")));
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tokenizer(steps: &[Value]) -> TokenizerFile {
        let file = json!({"normalizer": {"type": "Sequence", "normalizers": steps}});
        serde_json::from_value(file).expect("a valid tokenizer")
    }

    #[track_caller]
    fn check(result: Result<(), ConvertError>, expected: Result<(), &str>) {
        match (result, expected) {
            (Ok(()), Ok(())) => {}
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (result, _) => panic!("{result:?}, not {expected:?}"),
        }
    }

    #[test]
    fn steps_that_the_engine_leaves_out_are_refused() {
        let nfc = json!({"type": "NFC"});
        check(check_bytes(&tokenizer(&[])), Ok(()));
        check(check_bytes(&tokenizer(std::slice::from_ref(&nfc))), Ok(()));
        for kind in ["NFKC", "NFD", "Lowercase", "Prepend", "Replace", "Strip", "Sequence"] {
            let expected = format!("the normalizer {kind:?} of a byte-level BPE vocabulary in tokenizer.json is not");
            check(check_bytes(&tokenizer(&[nfc.clone(), json!({"type": kind})])), Err(&expected));
        }
    }

    #[test]
    fn blanks_of_sentence_piece_are_the_only_replacement() {
        let prepend = |text: &str| json!({"type": "Prepend", "prepend": text});
        let replace =
            |text: &str, content: &str| json!({"type": "Replace", "pattern": {"String": text}, "content": content});
        let blanks = [prepend("\u{2581}"), replace(" ", "\u{2581}")];
        check(check_merges(&tokenizer(&blanks)), Ok(()));
        check(check_merges(&tokenizer(&blanks[1..])), Ok(()));
        for step in [prepend("_"), json!({"type": "Prepend"})] {
            check(
                check_merges(&tokenizer(&[step])),
                Err("the normalizer \"Prepend\" of a SentencePiece BPE vocabulary"),
            );
        }
        let runs = json!({"type": "Replace", "pattern": {"Regex": " "}, "content": "\u{2581}"});
        for step in [replace(" ", "_"), replace("  ", "\u{2581}"), runs] {
            check(
                check_merges(&tokenizer(&[step])),
                Err("the normalizer \"Replace\" of a SentencePiece BPE vocabulary"),
            );
        }
        check(check_merges(&tokenizer(&[json!({"type": "Lowercase"})])), Err("the normalizer \"Lowercase\" of a"));
    }

    #[test]
    fn words_are_changed_by_the_steps_of_the_file() {
        let of = |steps: &[Value]| of_words(&tokenizer(steps)).map_err(|error| error.to_string());
        let words = |lowercase, strip_accents| Ok(Words { lowercase, strip_accents });
        let step = |kind: &str| json!({"type": kind});
        assert_eq!(of(&[]), words(Some(false), Some(false)), "no changes");
        assert_eq!(of(&[json!({"type": "BertNormalizer", "lowercase": false})]), words(Some(false), None));
        assert_eq!(of(&[step("NFC"), step("Lowercase")]), words(Some(true), Some(false)));
        assert_eq!(of(&[step("NFD"), step("Lowercase"), step("StripAccents")]), words(Some(true), Some(true)));
        let refused = |steps: &[Value], part: &str| {
            let error = of(steps).expect_err(part);
            assert!(error.contains(part), "{error}");
        };
        refused(&[step("NFD")], "the normalizer \"NFD\" without \"StripAccents\"");
        refused(&[step("StripAccents")], "the normalizer \"StripAccents\" without \"NFD\"");
        refused(&[step("Replace")], "the normalizer \"Replace\" of a WordPiece vocabulary");
        let together = json!({"type": "BertNormalizer", "handle_chinese_chars": false});
        refused(&[together], "the normalizer \"BertNormalizer\" of a WordPiece vocabulary");
        let bert = || json!({"type": "BertNormalizer", "lowercase": false});
        for other in [step("Lowercase"), step("NFC"), step("Replace"), bert()] {
            refused(&[bert(), other], "the normalizer \"BertNormalizer\" beside others in tokenizer.json");
        }
        for other in [step("Lowercase"), step("NFD"), step("StripAccents")] {
            refused(&[other, bert()], "the normalizer \"BertNormalizer\" beside others in tokenizer.json");
        }
    }
}

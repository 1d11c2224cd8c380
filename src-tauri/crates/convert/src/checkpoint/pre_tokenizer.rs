//! Name of a pre-tokenizer (`tokenizer.ggml.pre`) by the steps in `tokenizer.json`.
//!
//! The names are llama.cpp's. Several of its names have the same steps; the first one is used, because files with either name
//! give the same tokens. Patterns that are not in the table are an error: with other words, a text would get other tokens.

use super::description::TOKENIZER;
use super::error::{ConvertError, invalid, unsupported};
use super::tokenizer::{PreTokenizer, TokenizerFile};

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step<'a> {
    /// The matches of a pattern are words.
    Split(&'a str),
    /// GPT-2's words, then bytes.
    Words,
    /// Each digit is a word.
    Digits,
    /// Runs of digits are words.
    DigitRuns,
    /// Runs of punctuation are words.
    Punctuation,
}

impl Step<'_> {
    /// Whether two steps split a text alike. Some files have line breaks in a pattern, others their escapes.
    fn equals(&self, other: &Step<'_>) -> bool {
        let escaped = |pattern: &str| pattern.replace('\r', "\\r").replace('\n', "\\n");
        match (self, other) {
            (Step::Split(pattern), Step::Split(other)) => escaped(pattern) == escaped(other),
            _ => self == other,
        }
    }
}

/// A row: steps, and whether a word that is a token is not merged.
struct Row {
    steps: &'static [Step<'static>],
    is_whole: bool,
    name: &'static str,
}

const fn row(name: &'static str, steps: &'static [Step<'static>]) -> Row {
    Row { steps, is_whole: false, name }
}

const fn whole(name: &'static str, steps: &'static [Step<'static>]) -> Row {
    Row { steps, is_whole: true, name }
}

const LLAMA_3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const SEED_CODER: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT_4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const DEEPSEEK_V3: &[Step<'static>] = &[
    Step::Split(r"\p{N}{1,3}"),
    Step::Split("[\u{4E00}-\u{9FA5}\u{3040}-\u{309F}\u{30A0}-\u{30FF}]+"),
    Step::Split(
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
    ),
];

/// Letters of alphabets with case, and a blank before them.
const CASED_WORD: &str = "\\s?[\
     A-Za-z\u{B5}\u{C0}-\u{D6}\u{D8}-\u{F6}\u{F8}-\u{1BA}\u{1BC}-\u{1BF}\u{1C4}-\u{293}\u{295}-\u{2AF}\
     \u{370}-\u{373}\u{376}\u{377}\u{37B}-\u{37D}\u{37F}\u{386}\u{388}-\u{38A}\u{38C}\u{38E}-\u{3A1}\
     \u{3A3}-\u{3F5}\u{3F7}-\u{481}\u{48A}-\u{52F}\u{531}-\u{556}\u{10A0}-\u{10C5}\u{13A0}-\u{13F5}\
     \u{13F8}-\u{13FD}\u{1C90}-\u{1CBA}\u{1CBD}-\u{1CBF}\u{1D00}-\u{1D2B}\u{1D6B}-\u{1D77}\u{1D79}-\u{1D9A}\
     \u{1E00}-\u{1F15}\u{1F18}-\u{1F1D}\u{1F20}-\u{1F45}\u{1F48}-\u{1F4D}\u{1F50}-\u{1F57}\u{1F59}\u{1F5B}\
     \u{1F5D}\u{1F5F}-\u{1F7D}\u{1F80}-\u{1FB4}\u{1FB6}-\u{1FBC}\u{1FBE}\u{1FC2}-\u{1FC4}\u{1FC6}-\u{1FCC}\
     \u{1FD0}-\u{1FD3}\u{1FD6}-\u{1FDB}\u{1FE0}-\u{1FEC}\u{1FF2}-\u{1FF4}\u{1FF6}-\u{1FFC}\u{2102}\u{2107}\
     \u{210A}-\u{2113}\u{2115}\u{2119}-\u{211D}\u{2124}\u{2126}\u{2128}\u{212A}-\u{212D}\u{212F}-\u{2134}\
     \u{2139}\u{213C}-\u{213F}\u{2145}-\u{2149}\u{214E}\u{2183}\u{2184}\u{2C00}-\u{2C7B}\u{2C7E}-\u{2CE4}\
     \u{2CEB}-\u{2CEE}\u{2CF2}\u{2CF3}\u{A640}-\u{A66D}\u{A680}-\u{A69B}\u{A722}-\u{A76F}\u{A771}-\u{A787}\
     \u{A78B}-\u{A78E}\u{AB70}-\u{ABBF}\u{FB00}-\u{FB06}\u{FB13}-\u{FB17}\u{FF21}-\u{FF3A}\u{FF41}-\u{FF5A}\
     \u{10400}-\u{1044F}\u{104B0}-\u{104D3}\u{104D8}-\u{104FB}\u{10C80}-\u{10CB2}\u{10CC0}-\u{10CF2}\
     \u{118A0}-\u{118DF}\u{1E900}-\u{1E943}\
     ]+";
const DEEPSEEK_LLM: &[Step<'static>] = &[
    Step::Split(r"[\r\n]"),
    Step::Split(CASED_WORD),
    Step::Split("\\s?[!-/:-~\u{FF01}-\u{FF0F}\u{FF1A}-\u{FF5E}\u{2018}-\u{201F}\u{3000}-\u{3002}]+"),
    Step::Split(r"\s+$"),
    Step::Split("[\u{4E00}-\u{9FA5}\u{800}-\u{4E00}\u{AC00}-\u{D7FF}]+"),
    Step::Digits,
];

const ROWS: &[Row] = &[
    whole("llama-bpe", &[Step::Split(LLAMA_3)]),
    row("dbrx", &[Step::Split(LLAMA_3)]),
    row("qwen2", &[Step::Split(QWEN_2)]),
    row("qwen35", &[Step::Split(QWEN_35)]),
    row("seed-coder", &[Step::Split(SEED_CODER)]),
    row("gpt-4o", &[Step::Split(GPT_4O)]),
    whole("tekken", &[Step::Split(TEKKEN)]),
    row("starcoder", &[Step::Digits, Step::Words]),
    row("gpt-2", &[Step::Words]),
    row("deepseek-llm", DEEPSEEK_LLM),
    row("deepseek-v3", DEEPSEEK_V3),
    row("falcon", &[Step::Punctuation, Step::Words, Step::DigitRuns, Step::Split("[0-9][0-9][0-9]")]),
];

/// Returns the name of the pre-tokenizer of a byte-level vocabulary.
pub(super) fn name(tokenizer: &TokenizerFile) -> Result<&'static str, ConvertError> {
    let Some(pre_tokenizer) = &tokenizer.pre_tokenizer else {
        return Err(invalid(TOKENIZER, "it has no pre_tokenizer, which splits a text into words"));
    };
    let steps = steps(pre_tokenizer)?;
    let is_whole = tokenizer.model.ignore_merges == Some(true);
    let equal = |row: &&Row| {
        row.steps.len() == steps.len() && row.steps.iter().zip(&steps).all(|(step, other)| step.equals(other))
    };
    let same_steps = || ROWS.iter().filter(equal);
    let row = same_steps().find(|row| row.is_whole == is_whole).or_else(|| same_steps().next());
    row.map(|row| row.name).ok_or_else(|| unsupported(format!("the pre_tokenizer of {TOKENIZER}: {steps:?}")))
}

/// Checks the steps of SentencePiece's BPE. They write blanks as U+2581, and separate words there.
pub(super) fn check_merges(tokenizer: &TokenizerFile) -> Result<(), ConvertError> {
    let is_blanks = |part: &&PreTokenizer| match part.kind.as_deref() {
        Some("Metaspace") => true,
        Some("Split") => {
            let text = part.pattern.as_ref().and_then(|pattern| pattern.text.as_deref());
            // The blanks are replaced before, so that nothing is split.
            text == Some(" ") && part.behavior.as_deref() == Some("MergedWithPrevious")
        }
        _ => false,
    };
    let mut steps = tokenizer.pre_tokenizer.iter().flat_map(PreTokenizer::steps);
    match steps.find(|part| !is_blanks(part)) {
        Some(part) => Err(refused(part)),
        None => Ok(()),
    }
}

/// Returns the steps without those that change nothing.
fn steps(pre_tokenizer: &PreTokenizer) -> Result<Vec<Step<'_>>, ConvertError> {
    pre_tokenizer.steps().iter().filter_map(|part| step(part).transpose()).collect()
}

/// Returns a step; `None` if it does not split the text.
fn step(part: &PreTokenizer) -> Result<Option<Step<'_>>, ConvertError> {
    let regex = part.pattern.as_ref().and_then(|pattern| pattern.regex.as_deref());
    match part.kind.as_deref() {
        // A space before the text is a token of its own in other vocabularies.
        Some("ByteLevel") if part.add_prefix_space == Some(true) => Err(refused(part)),
        Some("ByteLevel") if part.use_regex == Some(false) => Ok(None),
        Some("ByteLevel") => Ok(Some(Step::Words)),
        Some("Digits") if part.individual_digits == Some(true) => Ok(Some(Step::Digits)),
        Some("Digits") => Ok(Some(Step::DigitRuns)),
        Some("Punctuation") if part.behavior.as_deref() == Some("Contiguous") => Ok(Some(Step::Punctuation)),
        Some("Split") if matches!(part.behavior.as_deref(), Some("Isolated" | "Removed") | None) => {
            regex.map(|regex| Some(Step::Split(regex))).ok_or_else(|| refused(part))
        }
        _ => Err(refused(part)),
    }
}

fn refused(part: &PreTokenizer) -> ConvertError {
    let pattern = part.pattern.as_ref().and_then(|pattern| pattern.regex.as_deref().or(pattern.text.as_deref()));
    let (kind, pattern) = (part.kind.as_deref().unwrap_or_default(), pattern.unwrap_or_default());
    unsupported(format!("the pre_tokenizer {kind:?} {pattern} in {TOKENIZER}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(pre_tokenizer: Value, ignore_merges: bool, expected: Result<&str, &str>) {
        let file = json!({"pre_tokenizer": pre_tokenizer, "model": {"ignore_merges": ignore_merges}});
        let file: TokenizerFile = serde_json::from_value(file).expect("a valid tokenizer");
        match (name(&file), expected) {
            (Ok(name), Ok(expected)) => assert_eq!(name, expected),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (name, _) => panic!("{name:?}, not {expected:?}"),
        }
    }

    fn split(regex: &str) -> Value {
        let split = json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false});
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
        json!({"type": "Sequence", "pretokenizers": [split, bytes]})
    }

    #[test]
    fn steps_of_published_tokenizers_have_names() {
        check(split(LLAMA_3), true, Ok("llama-bpe"));
        check(split(LLAMA_3), false, Ok("dbrx"));
        check(split(QWEN_2), false, Ok("qwen2"));
        check(split(GPT_4O), false, Ok("gpt-4o"));
        check(split(TEKKEN), false, Ok("tekken"));
        check(json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}), false, Ok("gpt-2"));
        let digits = json!({"type": "Digits", "individual_digits": true});
        let digits = json!({"type": "Sequence", "pretokenizers": [digits, {"type": "ByteLevel"}]});
        check(digits, false, Ok("starcoder"));
        let splits = |patterns: &[&str]| -> Value {
            let split =
                |pattern: &&str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"});
            let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false});
            let steps = patterns.iter().map(split).chain([bytes]);
            json!({"type": "Sequence", "pretokenizers": steps.collect::<Vec<_>>()})
        };
        // The published file has line breaks in the last pattern.
        let words = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| \
                     ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
        check(
            splits(&[r"\p{N}{1,3}", "[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+", words]),
            false,
            Ok("deepseek-v3"),
        );
        let punctuation = json!({"type": "Punctuation", "behavior": "Contiguous"});
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true});
        let digits = json!({"type": "Digits", "individual_digits": false});
        let threes = json!({"type": "Split", "pattern": {"Regex": "[0-9][0-9][0-9]"}, "behavior": "Isolated"});
        let falcon = json!({"type": "Sequence", "pretokenizers": [punctuation, bytes, digits, threes]});
        check(falcon, false, Ok("falcon"));
    }

    #[test]
    fn other_steps_are_refused() {
        check(split(r"\d+"), false, Err(r"[Split("));
        check(json!(null), false, Err("it has no pre_tokenizer"));
        check(json!({"type": "Punctuation"}), false, Err("the pre_tokenizer \"Punctuation\"  in tokenizer.json"));
        check(json!({"type": "ByteLevel", "add_prefix_space": true}), false, Err("\"ByteLevel\""));
        let text = json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious"});
        check(text, false, Err("\"Split\""));
    }

    #[test]
    fn every_name_is_a_pre_tokenizer_of_the_engine() {
        for row in ROWS {
            let vocab = cairn_tokenizer::Vocab {
                model: "gpt2".to_owned(),
                pre: row.name.to_owned(),
                tokens: (0..=255u32).map(|byte| format!("{byte}")).collect(),
                ..Default::default()
            };
            let unknown = matches!(
                cairn_tokenizer::Tokenizer::new(vocab),
                Err(cairn_tokenizer::Error::UnknownPreTokenizer { .. })
            );
            assert!(!unknown, "{}", row.name);
        }
    }
}

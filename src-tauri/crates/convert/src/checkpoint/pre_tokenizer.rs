//! Name of a pre-tokenizer (`tokenizer.ggml.pre`) by the steps in `tokenizer.json`.
//!
//! The names are llama.cpp's. Several of its names have the same steps; the first one is used, because files with either name
//! give the same tokens. Patterns that are not in the table are an error: with other words, a text would get other tokens.

use super::description::TOKENIZER;
use super::error::{ConvertError, invalid, unsupported};
use super::tokenizer::{Pattern, PreTokenizer, PreTokenizerStep, TokenizerFile};

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

/// Returns the steps without those that change nothing.
fn steps(pre_tokenizer: &PreTokenizer) -> Result<Vec<Step<'_>>, ConvertError> {
    let steps = match &pre_tokenizer.pretokenizers {
        Some(steps) => steps.0.iter().map(step).collect::<Result<Vec<_>, _>>()?,
        None => vec![of(
            pre_tokenizer.kind.as_deref(),
            pre_tokenizer.pattern.as_ref(),
            pre_tokenizer.behavior.as_deref(),
            pre_tokenizer.individual_digits,
            (pre_tokenizer.use_regex, pre_tokenizer.add_prefix_space),
        )?],
    };
    Ok(steps.into_iter().flatten().collect())
}

fn step(step: &PreTokenizerStep) -> Result<Option<Step<'_>>, ConvertError> {
    let PreTokenizerStep { kind, pattern, behavior, use_regex, individual_digits, add_prefix_space } = step;
    let flags = (*use_regex, *add_prefix_space);
    of(kind.as_deref(), pattern.as_ref(), behavior.as_deref(), *individual_digits, flags)
}

/// Returns a step; `None` if it does not split the text. `flags` are `use_regex` and `add_prefix_space`.
fn of<'a>(
    kind: Option<&'a str>,
    pattern: Option<&'a Pattern>,
    behavior: Option<&'a str>,
    individual_digits: Option<bool>,
    flags: (Option<bool>, Option<bool>),
) -> Result<Option<Step<'a>>, ConvertError> {
    let refused = || {
        let pattern = pattern.and_then(|pattern| pattern.regex.as_deref().or(pattern.text.as_deref()));
        unsupported(format!(
            "the pre_tokenizer {:?} {} in {TOKENIZER}",
            kind.unwrap_or_default(),
            pattern.unwrap_or_default()
        ))
    };
    match kind {
        // A space before the text is a token of its own in other vocabularies.
        Some("ByteLevel") if flags.1 == Some(true) => Err(refused()),
        Some("ByteLevel") if flags.0 == Some(false) => Ok(None),
        Some("ByteLevel") => Ok(Some(Step::Words)),
        Some("Digits") if individual_digits == Some(true) => Ok(Some(Step::Digits)),
        Some("Digits") => Ok(Some(Step::DigitRuns)),
        Some("Punctuation") if behavior == Some("Contiguous") => Ok(Some(Step::Punctuation)),
        Some("Split") if matches!(behavior, Some("Isolated" | "Removed") | None) => {
            let regex = pattern.and_then(|pattern| pattern.regex.as_deref());
            regex.map(|regex| Some(Step::Split(regex))).ok_or_else(refused)
        }
        _ => Err(refused()),
    }
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

//! Pre-tokenizers: they split text into words before byte pairs are merged inside each word.
//!
//! A row of [`ROWS`] is a list of steps. Each step splits every piece of the previous step into its matches and the
//! text between them. The patterns are those of the models' `tokenizer.json` files. The most frequent ones have
//! hand-written splitters in [`scan`], which are several times faster; tests compare them with the patterns.

mod scan;

use std::iter;
use std::ops::Range;

use fancy_regex::Regex;

use crate::bpe::Start;
use crate::error::Error;
use scan::{Contractions, Style};

/// One step of a row.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A pattern whose matches become pieces.
    Pattern(&'static str),
    /// A hand-written splitter, which covers the text without gaps.
    Scan(Style),
}

/// Definition of a pre-tokenizer.
#[derive(Debug)]
struct Row {
    names: &'static [&'static str],
    steps: &'static [Step],
    whole_words: WholeWords,
    /// Default of `add_bos_token`.
    add_bos: bool,
    /// Initial units of words. For characters, blanks are written as `▁`.
    start: Start,
}

/// Words that map to the token of the same text without merging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WholeWords {
    None,
    LineFeeds,
    All,
}

const GPT2: Step = Step::Scan(Style::Gpt2);
const LLAMA3: Step = Step::Scan(Style::Words { digits: 3, marks: false, contractions: Contractions::AnyCase });
const QWEN2: Step = Step::Scan(Style::Words { digits: 1, marks: false, contractions: Contractions::AnyCase });
const QWEN35: Step = Step::Scan(Style::Words { digits: 1, marks: true, contractions: Contractions::AnyCase });
const LINES: Step = Step::Scan(Style::Lines);
const DIGIT: Step = Step::Pattern(r"\p{N}");
const DIGITS_3: Step = Step::Pattern(r"\p{N}{1,3}");
const LINE_BREAK: Step = Step::Pattern(r"[\r\n]");
const CJK_OLD: Step = Step::Pattern(r"[\u{4E00}-\u{9FA5}\u{800}-\u{4E00}\u{AC00}-\u{D7FF}]+");
const CJK_AND_KANA: Step = Step::Pattern(r"[\u{4E00}-\u{9FA5}\u{3040}-\u{309F}\u{30A0}-\u{30FF}]+");

/// CharSymbols of alphabets with case, as DeepSeek LLM lists them.
const CASED_WORD: &str = concat!(
    r"\s?[",
    r"A-Za-z\u{B5}\u{C0}-\u{D6}\u{D8}-\u{F6}\u{F8}-\u{1BA}\u{1BC}-\u{1BF}\u{1C4}-\u{293}\u{295}-\u{2AF}",
    r"\u{370}-\u{373}\u{376}\u{377}\u{37B}-\u{37D}\u{37F}\u{386}\u{388}-\u{38A}\u{38C}\u{38E}-\u{3A1}",
    r"\u{3A3}-\u{3F5}\u{3F7}-\u{481}\u{48A}-\u{52F}\u{531}-\u{556}\u{10A0}-\u{10C5}\u{13A0}-\u{13F5}",
    r"\u{13F8}-\u{13FD}\u{1C90}-\u{1CBA}\u{1CBD}-\u{1CBF}\u{1D00}-\u{1D2B}\u{1D6B}-\u{1D77}\u{1D79}-\u{1D9A}",
    r"\u{1E00}-\u{1F15}\u{1F18}-\u{1F1D}\u{1F20}-\u{1F45}\u{1F48}-\u{1F4D}\u{1F50}-\u{1F57}\u{1F59}\u{1F5B}",
    r"\u{1F5D}\u{1F5F}-\u{1F7D}\u{1F80}-\u{1FB4}\u{1FB6}-\u{1FBC}\u{1FBE}\u{1FC2}-\u{1FC4}\u{1FC6}-\u{1FCC}",
    r"\u{1FD0}-\u{1FD3}\u{1FD6}-\u{1FDB}\u{1FE0}-\u{1FEC}\u{1FF2}-\u{1FF4}\u{1FF6}-\u{1FFC}\u{2102}\u{2107}",
    r"\u{210A}-\u{2113}\u{2115}\u{2119}-\u{211D}\u{2124}\u{2126}\u{2128}\u{212A}-\u{212D}\u{212F}-\u{2134}\u{2139}",
    r"\u{213C}-\u{213F}\u{2145}-\u{2149}\u{214E}\u{2183}\u{2184}\u{2C00}-\u{2C7B}\u{2C7E}-\u{2CE4}",
    r"\u{2CEB}-\u{2CEE}\u{2CF2}\u{2CF3}\u{A640}-\u{A66D}\u{A680}-\u{A69B}\u{A722}-\u{A76F}\u{A771}-\u{A787}",
    r"\u{A78B}-\u{A78E}\u{AB70}-\u{ABBF}\u{FB00}-\u{FB06}\u{FB13}-\u{FB17}\u{FF21}-\u{FF3A}\u{FF41}-\u{FF5A}",
    r"\u{10400}-\u{1044F}\u{104B0}-\u{104D3}\u{104D8}-\u{104FB}\u{10C80}-\u{10CB2}\u{10CC0}-\u{10CF2}",
    r"\u{118A0}-\u{118DF}\u{1E900}-\u{1E943}",
    "]+",
);
const DEEPSEEK_V3: Step = Step::Pattern(
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*\
     |\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
);
const TEKKEN: Step = Step::Pattern(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const GPT_4O: Step = Step::Pattern(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const YOUTU: Step = Step::Pattern(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
/// Kimi K2 splits runs of Chinese characters from other letters.
const KIMI: Step = Step::Pattern(
    r"\p{Han}+|[^\r\n\p{L}\p{N}]?[[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]&&[^\p{Han}]]*[[\p{Ll}\p{Lm}\p{Lo}\p{M}]&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]&&[^\p{Han}]]+[[\p{Ll}\p{Lm}\p{Lo}\p{M}]&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
/// Llama 3's pattern with runs of blanks split into powers of two.
const JAIS2: Step = Step::Pattern(
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s",
);
/// Words of single letters with blanks between are one word.
const EXAONE_MOE: Step = Step::Pattern(
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
);
const MINICPM5: Step = Step::Pattern(
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const SPARK: Step = Step::Pattern(
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+|[\r\n]\
     |\\s+(?!\\S)|\\s+",
);
/// East and South-East Asian scripts, which Trinity splits off.
const ASIAN: Step = Step::Pattern(concat!(
    r"[\u{4E00}-\u{9FFF}\u{3400}-\u{4DBF}\u{F900}-\u{FAFF}\u{3040}-\u{309F}\u{30A0}-\u{30FF}\u{FF65}-\u{FF9F}\u{2F00}-\u{2FDF}",
    r"\u{E00}-\u{E7F}\u{E80}-\u{EFF}\u{1780}-\u{17FF}\u{1000}-\u{109F}\u{AA60}-\u{AA7F}\u{A9E0}-\u{A9FF}\u{AC00}-\u{D7AF}",
    r"\u{1100}-\u{11FF}]+",
));
const BLOOM: Step = Step::Pattern(r" ?[^(\s|.,!?\u{2026}\u{3002}\u{FF0C}\u{3001}\u{964}\u{6D4}\u{60C})]+");

/// A row with the default flags: no whole words, no BOS by default.
const fn row(names: &'static [&'static str], steps: &'static [Step]) -> Row {
    Row { names, steps, whole_words: WholeWords::None, add_bos: false, start: Start::Bytes }
}

/// A row where a word that is a token is not merged.
const fn whole(names: &'static [&'static str], steps: &'static [Step], add_bos: bool) -> Row {
    Row { names, steps, whole_words: WholeWords::All, add_bos, start: Start::Bytes }
}

/// A row that merges whole lines, with blanks written as `▁`.
const fn lines(names: &'static [&'static str], whole_words: WholeWords, add_bos: bool) -> Row {
    Row { names, steps: &[LINES], whole_words, add_bos, start: Start::Characters }
}

/// All supported pre-tokenizers, by the names that converters write.
const ROWS: &[Row] = &[
    row(
        &["", "default"],
        &[Step::Pattern(r"[\p{P}\$\+<=>\^~\|]+"), GPT2, Step::Pattern(r"\p{N}+"), Step::Pattern("[0-9][0-9][0-9]")],
    ),
    row(
        &[
            "gpt-2",
            "phi-2",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
            "exaone4",
            "gigachat",
            "mellum",
            "modern-bert",
            "a.x-4.0",
            "jina-es",
            "jina-de",
            "jina-v2-es",
            "jina-v2-de",
            "jina-v1-en",
            "jina-v2-code",
            "roberta-bpe",
        ],
        &[GPT2],
    ),
    whole(
        &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"],
        &[LLAMA3],
        true,
    ),
    row(&["dbrx", "smaug-bpe", "chatglm-bpe"], &[LLAMA3]),
    whole(&["glm4", "glm5"], &[LLAMA3], false),
    row(
        &["qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"],
        &[QWEN2],
    ),
    row(&["qwen35"], &[QWEN35]),
    row(&["ufakzeka"], &[Step::Scan(Style::Words { digits: 1, marks: false, contractions: Contractions::None })]),
    row(
        &["seed-coder"],
        &[Step::Pattern(
            r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
        )],
    ),
    row(
        &["bailingmoe", "bailingmoe2", "llada-moe"],
        &[Step::Pattern(
            r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
        )],
    ),
    row(
        &["starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"],
        &[DIGIT, GPT2],
    ),
    row(&["falcon"], &[Step::Pattern(r"[\p{P}\$\+<=>\^~\|`]+"), GPT2, Step::Pattern("[0-9][0-9][0-9]")]),
    row(
        &["deepseek-llm"],
        &[
            LINE_BREAK,
            Step::Pattern(CASED_WORD),
            Step::Pattern(r"\s?[!-/:-~\u{FF01}-\u{FF0F}\u{FF1A}-\u{FF5E}\u{2018}-\u{201F}\u{3000}-\u{3002}]+"),
            Step::Pattern(r"\s+$"),
            CJK_OLD,
            Step::Pattern(r"\p{N}+"),
        ],
    ),
    row(&["deepseek-coder"], &[LINE_BREAK, Step::Pattern(r"\s?\p{L}+"), Step::Pattern(r"\s?\p{P}+"), CJK_OLD, DIGIT]),
    row(&["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"], &[DIGITS_3, CJK_AND_KANA, DEEPSEEK_V3]),
    whole(&["tekken"], &[TEKKEN], true),
    row(&["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"], &[GPT_4O]),
    whole(&["granite-embed-multi-97m"], &[GPT_4O], false),
    row(&["tiny_aya", "cohere2moe"], &[Step::Scan(Style::Threes { at_word_ends: true }), GPT_4O]),
    whole(
        &["youtu"],
        &[
            Step::Pattern(concat!(
                r"[\u{AC00}-\u{D7A3}\u{3131}-\u{318E}]+",
                r"|[\u{FF01}\u{2026}\u{201C}\u{201D}\u{2018}\u{2019}\u{2014}\u{FF1A}\u{FF1B}\u{FF0C}\u{3001}-\u{303F}\u{FE30}-\u{FE4F}]+",
                r"|[\u{3105}-\u{312F}]+|[\u{4E00}-\u{9FA5}\u{3040}-\u{309F}\u{30A0}-\u{30FF}]+",
            )),
            YOUTU,
        ],
        false,
    ),
    row(&["kimi-k2"], &[KIMI]),
    row(&["jais-2"], &[JAIS2]),
    row(&["exaone-moe"], &[EXAONE_MOE]),
    whole(&["minicpm5"], &[DIGITS_3, MINICPM5], false),
    row(&["spark2_5"], &[DIGITS_3, CJK_AND_KANA, SPARK, DIGIT]),
    row(&["afmoe"], &[Step::Scan(Style::Threes { at_word_ends: false }), ASIAN, DEEPSEEK_V3]),
    row(&["superbpe"], &[Step::Pattern(r"\p{N}+"), Step::Scan(Style::Threes { at_word_ends: false })]),
    row(&["laguna"], &[LINES, QWEN2]),
    Row {
        add_bos: true,
        ..row(
            &["chameleon"],
            &[
                Step::Pattern("<sentinel:[0-9]+>"),
                Step::Pattern("IMGIMG[A-I]{1,4}Z"),
                Step::Pattern(r"[\t\n]|    |  "),
                DIGIT,
                Step::Pattern(r"[\p{P}!-/:-@\[-`{-~]"),
                GPT2,
            ],
        )
    },
    lines(&["gemma4", "granite-embed-multi-311m"], WholeWords::LineFeeds, true),
    lines(&["sarvam-moe"], WholeWords::None, false),
    row(&["poro-chat", "bloom", "gpt3-finnish"], &[BLOOM]),
    row(&["viking"], &[BLOOM, DIGIT]),
];

/// A compiled step.
#[derive(Debug)]
enum CompiledStep {
    Pattern(Box<Regex>),
    Scan(Style),
}

/// Compiled row of the table.
#[derive(Debug)]
pub(crate) struct PreTokenizer {
    steps: Vec<CompiledStep>,
    pub(crate) whole_words: WholeWords,
    pub(crate) add_bos: bool,
    pub(crate) start: Start,
}

impl PreTokenizer {
    /// Compiles the pre-tokenizer `name`. An empty name means the default of files without the key.
    pub(crate) fn from_name(name: &str) -> Result<PreTokenizer, Error> {
        let unknown = || Error::UnknownPreTokenizer { pre: name.to_owned() };
        let row = ROWS.iter().find(|row| row.names.contains(&name)).ok_or_else(unknown)?;
        let steps = row.steps.iter().map(|&step| match step {
            Step::Scan(style) => Ok(CompiledStep::Scan(style)),
            Step::Pattern(pattern) => compile(name, pattern).map(|regex| CompiledStep::Pattern(Box::new(regex))),
        });
        let &Row { whole_words, add_bos, start, .. } = row;
        Ok(PreTokenizer { steps: steps.collect::<Result<_, _>>()?, whole_words, add_bos, start })
    }

    /// Calls `word` with the range of each word in `text`, in order and without gaps.
    pub(crate) fn words(&self, text: &str, mut word: impl FnMut(Range<usize>)) {
        if let [CompiledStep::Scan(style)] = self.steps.as_slice() {
            return style.pieces(text, 0, &mut word);
        }
        let mut pieces: Vec<Range<usize>> = iter::once(0..text.len()).collect();
        for step in &self.steps {
            let mut finer = Vec::with_capacity(pieces.len());
            for piece in pieces {
                step.pieces(text, piece, &mut |range| finer.push(range));
            }
            pieces = finer;
        }
        pieces.into_iter().for_each(word);
    }
}

impl CompiledStep {
    /// Splits one piece of `text`.
    fn pieces(&self, text: &str, piece: Range<usize>, emit: &mut impl FnMut(Range<usize>)) {
        let Some(inside) = text.get(piece.clone()) else { return };
        match self {
            CompiledStep::Scan(style) => style.pieces(inside, piece.start, emit),
            CompiledStep::Pattern(regex) => {
                let mut done = piece.start;
                // If a pattern exceeds its step limit, the rest becomes one piece: worse ids, but no text is lost.
                for found in regex.find_iter(inside).map_while(Result::ok) {
                    let (start, end) = (piece.start + found.start(), piece.start + found.end());
                    if start > done {
                        emit(done..start);
                    }
                    if end > start {
                        emit(start..end);
                    }
                    done = end;
                }
                if done < piece.end {
                    emit(done..piece.end);
                }
            }
        }
    }
}

fn compile(name: &str, pattern: &str) -> Result<Regex, Error> {
    Regex::new(pattern).map_err(|error| Error::Pattern { pre: name.to_owned(), reason: error.to_string() })
}

#[cfg(test)]
mod tests;

//! Pre-tokenizers: how text is cut into words before byte pairs are merged inside each of them.
//!
//! A row of [`ROWS`] is a list of steps. Each step cuts every piece that the steps before it left: what it matches becomes a
//! piece of its own, and so does what lies between two matches. The patterns are those that the models' own `tokenizer.json`
//! files publish; the frequent ones are also written by hand in [`scan`], several times faster and held equal by its tests.

mod scan;

use std::iter;
use std::ops::Range;

use fancy_regex::Regex;

use crate::error::Error;
use scan::{Contractions, Style};

/// One cut of a row.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A pattern whose matches become pieces.
    Pattern(&'static str),
    /// A splitter written by hand, which covers the text without gaps.
    Scan(Style),
}

/// A pre-tokenizer as `tokenizer.ggml.pre` names it.
#[derive(Debug)]
struct Row {
    names: &'static [&'static str],
    steps: &'static [Step],
    /// A word that is a token as it stands is that token, even where merging would not arrive at it.
    whole_words: bool,
    /// What `add_bos_token` is taken for when the file does not say.
    add_bos: bool,
}

const GPT2: Step = Step::Scan(Style::Gpt2);
const LLAMA3: Step = Step::Scan(Style::Words { digits: 3, marks: false, contractions: Contractions::AnyCase });
const QWEN2: Step = Step::Scan(Style::Words { digits: 1, marks: false, contractions: Contractions::AnyCase });
const QWEN35: Step = Step::Scan(Style::Words { digits: 1, marks: true, contractions: Contractions::AnyCase });
const DIGIT: Step = Step::Pattern(r"\p{N}");
const DIGITS_3: Step = Step::Pattern(r"\p{N}{1,3}");
const LINE_BREAK: Step = Step::Pattern(r"[\r\n]");
const CJK_OLD: Step = Step::Pattern(r"[\u{4E00}-\u{9FA5}\u{800}-\u{4E00}\u{AC00}-\u{D7FF}]+");
const CJK_AND_KANA: Step = Step::Pattern(r"[\u{4E00}-\u{9FA5}\u{3040}-\u{309F}\u{30A0}-\u{30FF}]+");

/// Letters of alphabets with case, as DeepSeek LLM lists them.
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
const BLOOM: Step = Step::Pattern(r" ?[^(\s|.,!?\u{2026}\u{3002}\u{FF0C}\u{3001}\u{964}\u{6D4}\u{60C})]+");

/// A row with the usual flags: merges decide, no BOS unless the file asks for one.
const fn row(names: &'static [&'static str], steps: &'static [Step]) -> Row {
    Row { names, steps, whole_words: false, add_bos: false }
}

/// Every pre-tokenizer that is known, by the names that converters write.
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
    Row {
        names: &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ],
        steps: &[LLAMA3],
        whole_words: true,
        add_bos: true,
    },
    row(&["dbrx", "smaug-bpe", "chatglm-bpe"], &[LLAMA3]),
    Row { names: &["glm4", "glm5"], steps: &[LLAMA3], whole_words: true, add_bos: false },
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
    Row { names: &["tekken"], steps: &[TEKKEN], whole_words: true, add_bos: true },
    row(&["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"], &[GPT_4O]),
    row(&["poro-chat", "bloom", "gpt3-finnish"], &[BLOOM]),
    row(&["viking"], &[BLOOM, DIGIT]),
];

/// A step that is ready to run.
#[derive(Debug)]
enum Cut {
    Pattern(Box<Regex>),
    Scan(Style),
}

/// A row of the table with its patterns compiled.
#[derive(Debug)]
pub(crate) struct PreTokenizer {
    cuts: Vec<Cut>,
    pub(crate) whole_words: bool,
    pub(crate) add_bos: bool,
}

impl PreTokenizer {
    /// The pre-tokenizer that `name` stands for; an empty name is the default of files older than the key.
    pub(crate) fn named(name: &str) -> Result<PreTokenizer, Error> {
        let unknown = || Error::UnknownPreTokenizer { pre: name.to_owned() };
        let row = ROWS.iter().find(|row| row.names.contains(&name)).ok_or_else(unknown)?;
        let cuts = row.steps.iter().map(|&step| match step {
            Step::Scan(style) => Ok(Cut::Scan(style)),
            Step::Pattern(pattern) => compile(name, pattern).map(|regex| Cut::Pattern(Box::new(regex))),
        });
        Ok(PreTokenizer { cuts: cuts.collect::<Result<_, _>>()?, whole_words: row.whole_words, add_bos: row.add_bos })
    }

    /// Calls `word` with each word's place in `text`, in order and without gaps.
    pub(crate) fn words(&self, text: &str, mut word: impl FnMut(Range<usize>)) {
        if let [Cut::Scan(style)] = self.cuts.as_slice() {
            return style.pieces(text, 0, &mut word);
        }
        let mut pieces: Vec<Range<usize>> = iter::once(0..text.len()).collect();
        for cut in &self.cuts {
            let mut finer = Vec::with_capacity(pieces.len());
            for piece in pieces {
                cut.pieces(text, piece, &mut |range| finer.push(range));
            }
            pieces = finer;
        }
        pieces.into_iter().for_each(word);
    }
}

impl Cut {
    /// Cuts one piece of `text` into finer ones.
    fn pieces(&self, text: &str, piece: Range<usize>, emit: &mut impl FnMut(Range<usize>)) {
        let Some(inside) = text.get(piece.clone()) else { return };
        match self {
            Cut::Scan(style) => style.pieces(inside, piece.start, emit),
            Cut::Pattern(regex) => {
                let mut done = piece.start;
                // A pattern that gives up (its step limit is hit) leaves the rest in one piece: worse ids, but no text is lost.
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

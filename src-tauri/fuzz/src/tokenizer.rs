//! A vocabulary: metadata of a file become a tokenizer, which encodes and decodes a text.
//!
//! Arbitrary bytes are hardly ever a file with a token list. So the bytes select the kind of tokenizer, its tokens from
//! a small alphabet, and which keys are present, missing, of a wrong type or out of range. The metadata are written to
//! a file and parsed, as for a real model.
//!
//! Guarantees: no panic, ids below the vocabulary's size, and the same text from decoding at once and one by one,
//! except for the blank before the first word.

use arbitrary::{Result, Unstructured};
use cairn_gguf::{Array, Gguf, Value, Writer};
use cairn_tokenizer::{EncodeOptions, Tokenizer};

const MODELS: &[&str] = &["gpt2", "llama", "bert", "t5", "no_vocab", "rwkv", ""];
const PRE: &[&str] = &[
    "default",
    "llama-bpe",
    "qwen2",
    "gpt-2",
    "deepseek-llm",
    "deepseek-coder",
    "command-r",
    "falcon",
    "starcoder",
    "tekken",
    "smollm",
    "gpt-4o",
    "olmo",
    "refact",
    "mpt",
    "",
];
/// Parts that texts and tokens are put together from: letters that merge, what the pre-tokenizers and the special
/// tokens look for, blanks as each kind of tokenizer spells them, and characters of every length.
const PARTS: &[&str] = &[
    "a",
    "b",
    "ab",
    "t",
    "h",
    "e",
    "the",
    "##",
    "##a",
    "\u{2581}",
    "\u{2581}a",
    "\u{120}",
    "\u{120}t",
    " ",
    "  ",
    "\n",
    "\t",
    "0",
    "12",
    "'s",
    ".",
    "!",
    "<0x00>",
    "<0x61>",
    "<0xFF>",
    "<unk>",
    "<s>",
    "</s>",
    "<|im_end|>",
    "<|end|>",
    "[UNK]",
    "[CLS]",
    "\u{e9}",
    "e\u{301}",
    "\u{4e2d}",
    "\u{1f600}",
    "\u{200d}",
    "\u{fb01}",
    "\u{ad}",
    "\u{0}",
    "\u{fffd}",
    "A",
    "\u{c4}",
];
/// Keys with a number, most of them an id.
const IDS: &[&str] = &[
    "bos_token_id",
    "eos_token_id",
    "eot_token_id",
    "eom_token_id",
    "unknown_token_id",
    "separator_token_id",
    "padding_token_id",
    "cls_token_id",
    "mask_token_id",
    "seperator_token_id",
    "fim_pre_token_id",
    "fim_pad_token_id",
    "token_type_count",
];
const FLAGS: &[&str] = &[
    "add_bos_token",
    "add_eos_token",
    "add_sep_token",
    "add_space_prefix",
    "remove_extra_whitespaces",
    "escape_whitespaces",
    "ignore_merges",
];
const MOST_TOKENS: usize = 400;

/// Runs this fuzz target on one input.
pub fn run(input: &[u8]) {
    let mut input = Unstructured::new(input);
    let Ok(file) = vocabulary(&mut input) else { return };
    let gguf = Gguf::parse(&file).expect("what is written is read");
    match Tokenizer::from_metadata(gguf.metadata()) {
        Ok(tokenizer) => {
            let text = text(&mut input, 40).unwrap_or_default();
            let more = String::from_utf8_lossy(input.take_rest()).into_owned();
            encode_and_decode(&tokenizer, &(text + &more));
        }
        Err(error) => assert!(!error.to_string().is_empty(), "an error says what is wrong"),
    }
}

fn encode_and_decode(tokenizer: &Tokenizer, text: &str) {
    let size = tokenizer.vocab_size();
    for (add, parse) in [(false, false), (true, true)] {
        let ids = tokenizer.encode(text, EncodeOptions { add_special: add, parse_special: parse });
        assert!(ids.iter().all(|&id| (id as usize) < size), "ids {ids:?} are below {size}");
        check_decoding(tokenizer, &ids);
    }
    // A model may give any id, in any order, and one that is none.
    let all: Vec<u32> = (0..size as u32 + 2).rev().chain([u32::MAX]).collect();
    check_decoding(tokenizer, &all);
    for id in all {
        tokenizer.piece_with_special(id);
        assert!(!tokenizer.is_end(id) || (id as usize) < size, "{id} ends a text and is no token");
    }
}

fn check_decoding(tokenizer: &Tokenizer, ids: &[u32]) {
    let mut decoder = tokenizer.decoder();
    let mut streamed: String = ids.iter().map(|&id| decoder.push(id)).collect();
    streamed.push_str(&decoder.finish());
    // One by one, ids go on from a text, so that the blank in front of the first word is one.
    let decoded = tokenizer.decode(ids);
    let is_same = streamed == decoded || streamed.strip_prefix(' ') == Some(decoded.as_str());
    assert!(is_same, "one by one {streamed:?}, at once {decoded:?}");
}

/// Generates a file without tensors. Its metadata describes a tokenizer and may be invalid.
fn vocabulary(input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut writer = Writer::default();
    let mut set = |key: &str, value: Value| {
        writer.set(format!("tokenizer.ggml.{key}"), value);
    };
    set("model", input.choose(MODELS)?.to_owned().into());
    if input.ratio(3, 4)? {
        set("pre", input.choose(PRE)?.to_owned().into());
    }
    let tokens = tokens(input)?;
    if input.ratio(7, 8)? {
        set("merges", merges(input, &tokens)?.into());
    }
    if input.ratio(7, 8)? {
        let count = count(input, tokens.len())?;
        let scores = (0..count).map(|_| score(input)).collect::<Result<Vec<f32>>>()?;
        set("scores", scores.into());
    }
    if input.ratio(7, 8)? {
        let count = count(input, tokens.len())?;
        let types = (0..count).map(|_| input.int_in_range(-1..=7)).collect::<Result<Vec<i32>>>()?;
        set("token_type", types.into());
    }
    for key in IDS {
        if input.ratio(1, 4)? {
            // Up to three beyond the last token.
            set(key, input.int_in_range(0..=tokens.len() as u32 + 2)?.into());
        }
    }
    for key in FLAGS {
        if input.ratio(1, 4)? {
            set(key, input.arbitrary::<bool>()?.into());
        }
    }
    if input.ratio(1, 4)? {
        let bytes = input.arbitrary_len::<u8>()?.min(4096);
        set("precompiled_charsmap", Value::Array(Array::U8(input.bytes(bytes)?.to_vec())));
    }
    if input.ratio(1, 16)? {
        let key = input.choose(&["model", "pre", "merges", "scores", "token_type", "bos_token_id", "add_bos_token"])?;
        set(key, wrong(input)?);
    }
    set("tokens", tokens.into());
    Ok(writer.finish())
}

fn tokens(input: &mut Unstructured<'_>) -> Result<Vec<String>> {
    let mut tokens: Vec<String> = Vec::new();
    // Vocabularies of byte-level tokenizers begin with the bytes' letters, those of others with the bytes' names.
    match input.int_in_range(0..=3)? {
        0 => tokens.extend((0x21..0x7F_u8).map(|letter| char::from(letter).to_string())),
        1 => tokens.extend((0..=0xFF_u8).map(|byte| format!("<0x{byte:02X}>"))),
        _ => {}
    }
    let count = input.int_in_range(0..=60)?;
    for _ in 0..count {
        tokens.push(text(input, 4)?);
    }
    tokens.truncate(MOST_TOKENS);
    Ok(tokens)
}

/// Generates merges: mostly two tokens with a space between, sometimes any text.
fn merges(input: &mut Unstructured<'_>, tokens: &[String]) -> Result<Vec<String>> {
    let count = input.int_in_range(0..=60)?;
    let part = |input: &mut Unstructured<'_>| match tokens {
        [] => text(input, 2),
        tokens => Ok(input.choose(tokens)?.clone()),
    };
    (0..count)
        .map(|_| if input.ratio(15, 16)? { Ok(part(input)? + " " + &part(input)?) } else { text(input, 3) })
        .collect()
}

/// Generates the length of a list: mostly the number of tokens, sometimes another number.
fn count(input: &mut Unstructured<'_>, tokens: usize) -> Result<usize> {
    if input.ratio(15, 16)? { Ok(tokens) } else { input.int_in_range(0..=tokens + 3) }
}

fn score(input: &mut Unstructured<'_>) -> Result<f32> {
    if input.ratio(15, 16)? { Ok(-f32::from(input.arbitrary::<u8>()?) / 4.0) } else { input.arbitrary() }
}

fn text(input: &mut Unstructured<'_>, parts: usize) -> Result<String> {
    let count = input.int_in_range(0..=parts)?;
    (0..count)
        .map(|_| match input.ratio(15, 16)? {
            true => Ok((*input.choose(PARTS)?).to_owned()),
            false => Ok(input.arbitrary::<char>()?.to_string()),
        })
        .collect()
}

/// Generates a value with the wrong type or length for the key.
fn wrong(input: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match input.int_in_range(0..=6)? {
        0 => Value::F64(input.arbitrary()?),
        1 => Value::I64(input.arbitrary()?),
        2 => Value::String(text(input, 3)?),
        3 => vec![text(input, 3)?].into(),
        4 => Value::Array(Array::F32(vec![input.arbitrary()?])),
        5 => Value::Array(Array::Array(vec![Array::U8(Vec::new())])),
        _ => Value::Array(Array::I64(vec![input.arbitrary()?])),
    })
}

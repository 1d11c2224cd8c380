//! Vocabularies of checkpoints.

mod deepseek;
mod tiktoken;
mod unigram;
mod word_pieces;

use serde_json::{Map, Value, json};

use super::{CheckpointSpec, Vocabulary};
use crate::tower::TowerKind;
use crate::vocabulary::{CHAT_TEMPLATE, SPECIAL_TOKENS, Vocabulary as Bytes, WORDS};

/// Special tokens of SentencePiece, in the order of their ids, and their kinds.
const PIECES: [(&str, u8); 3] = [("<unk>", 2), ("<s>", 3), ("</s>", 3)];
const NORMAL: u8 = 1;
const UNUSED: u8 = 5;
const BYTE: u8 = 6;
/// Pieces of several letters.
const MAX_WORDS: usize = 200;

/// Returns the ids of the tokens that begin and end a text.
pub(super) fn ids(spec: &CheckpointSpec) -> [u32; 2] {
    match spec.vocabulary {
        Vocabulary::Bytes | Vocabulary::Tiktoken => {
            let first = Bytes::new(spec.model.vocab).first_special;
            [first, first + 2]
        }
        Vocabulary::Pieces | Vocabulary::Merges => [1, 2],
        Vocabulary::UnigramPieces | Vocabulary::Unigram => [0, 1],
        Vocabulary::WordPieces => [2, 3],
    }
}

/// Returns the id of the token behind a line of patches, in a vocabulary of this size.
pub(super) fn break_token(vocab: u64) -> u64 {
    vocab - 1
}

/// Returns the files of a vocabulary.
pub(super) fn files(spec: &CheckpointSpec) -> Vec<(String, Vec<u8>)> {
    let generation = json!({"temperature": 0.5, "top_k": 20, "top_p": 0.75, "do_sample": true});
    let (config, mut files) = match spec.vocabulary {
        Vocabulary::Bytes => (names(SPECIAL_TOKENS[0], SPECIAL_TOKENS[2], spec), vec![bytes(spec)]),
        Vocabulary::Pieces => (names("<s>", "</s>", spec), vec![pieces(spec)]),
        Vocabulary::Merges => (names("<s>", "</s>", spec), vec![merges(spec)]),
        Vocabulary::Tiktoken => (tiktoken::names(spec), vec![tiktoken::ranks(spec)]),
        Vocabulary::UnigramPieces => (unigram::names(), vec![unigram::pieces(spec)]),
        Vocabulary::Unigram => (unigram::names(), vec![unigram::json(spec)]),
        Vocabulary::WordPieces => (word_pieces::names(), vec![word_pieces::json(spec)]),
    };
    files.push(("tokenizer_config.json".to_owned(), config.to_string().into_bytes()));
    files.push(("generation_config.json".to_owned(), generation.to_string().into_bytes()));
    files
}

fn names(bos: &str, eos: &str, spec: &CheckpointSpec) -> Value {
    let mut config = json!({
        "bos_token": bos, "eos_token": {"__type": "AddedToken", "content": eos, "lstrip": false, "normalized": false, "rstrip": false, "single_word": false}, "pad_token": bos,
        "chat_template": CHAT_TEMPLATE, "model_max_length": spec.model.context, "clean_up_tokenization_spaces": false,
    });
    match spec.vocabulary {
        Vocabulary::Bytes if spec.model.family.name == "phi3" => config["tokenizer_class"] = json!("GPT2Tokenizer"),
        Vocabulary::Bytes | Vocabulary::Merges => config["tokenizer_class"] = json!("PreTrainedTokenizerFast"),
        Vocabulary::Tiktoken | Vocabulary::UnigramPieces | Vocabulary::Unigram | Vocabulary::WordPieces => {}
        Vocabulary::Pieces => {
            config["tokenizer_class"] = json!("LlamaTokenizer");
            config["add_bos_token"] = json!(true);
            config["add_eos_token"] = json!(false);
            config["unk_token"] = json!("<unk>");
            let added = PIECES.iter().enumerate().map(|(id, (text, _))| (id.to_string(), added(id, text)));
            config["added_tokens_decoder"] = added.collect::<Map<_, _>>().into();
        }
    }
    config
}

fn added(id: usize, text: &str) -> Value {
    json!({"id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
           "special": true})
}

/// Returns the steps of a pre-tokenizer, as published files have them.
fn pre_tokenizer(name: &str) -> Value {
    let split =
        |regex: &str| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false});
    let sequence = |steps: Vec<Value>| json!({"type": "Sequence", "pretokenizers": steps});
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let words = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let llama = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    let regex = match name {
        "llama-bpe" | "smaug-bpe" | "glm4" | "lfm2" | "pixtral" => llama.to_owned(),
        "seed-coder" => llama.replace("{1,3}", "{1}").replace(r"]+[\r\n]*|", r"\r\n]+|"),
        "qwen2" | "stablelm2" => llama.replace("{1,3}", ""),
        "qwen35" => {
            let marked = llama.replace("{1,3}", "").replace(r"?\p{L}+", r"?[\p{L}\p{M}]+");
            marked.replace(r"[^\s\p{L}\p{N}]+", r"[^\s\p{L}\p{M}\p{N}]+")
        }
        "tekken" => {
            let (capital, small) = (r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]");
            let (before, rest) = (r"[^\r\n\p{L}\p{N}]?", r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+");
            format!("{before}{capital}*{small}+|{before}{capital}+{small}*{rest}")
        }
        "gpt-4o" | "llama4" => {
            let (capital, small) = (r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]");
            let (before, after) = (r"[^\r\n\p{L}\p{N}]?", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?");
            let rest = r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
            format!("{before}{capital}*{small}+{after}|{before}{capital}+{small}*{after}{rest}")
        }
        "starcoder" | "command-r" | "exaone" => {
            return sequence(vec![json!({"type": "Digits", "individual_digits": true}), words]);
        }
        "gpt-2" | "exaone4" | "olmo" | "phi-2" => return words,
        "deepseek-llm" => return sequence(deepseek::steps()),
        "deepseek-v3" | "hunyuan-dense" => {
            let characters = "[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+";
            // The published file has line breaks in the pattern, not escapes of them.
            let others = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| \
                          ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
            return sequence(vec![split(r"\p{N}{1,3}"), split(characters), split(others), bytes]);
        }
        "falcon" => {
            let punctuation = json!({"type": "Punctuation", "behavior": "Contiguous"});
            let digits = json!({"type": "Digits", "individual_digits": false});
            return sequence(vec![punctuation, words, digits, split("[0-9][0-9][0-9]")]);
        }
        other => panic!("no checkpoint has the pre-tokenizer {other}"),
    };
    sequence(vec![split(&regex), bytes])
}

/// Returns a template that adds a token before each text.
fn with_bos(token: &str, id: u32) -> Value {
    let token_part = json!({"SpecialToken": {"id": token, "type_id": 0}});
    let text = |id: &str, kind: u32| json!({"Sequence": {"id": id, "type_id": kind}});
    let mut special = Map::new();
    special.insert(token.to_owned(), json!({"id": token, "ids": [id], "tokens": [token]}));
    json!({"type": "TemplateProcessing", "single": [token_part, text("A", 0)],
           "pair": [token_part, text("A", 0), text("B", 1)], "special_tokens": special})
}

fn bytes(spec: &CheckpointSpec) -> (String, Vec<u8>) {
    let Bytes { tokens, merges, first_special } = Bytes::new(spec.model.vocab);
    let special = first_special as usize..first_special as usize + SPECIAL_TOKENS.len();
    let mut vocab: Map<String, Value> = tokens
        .iter()
        .enumerate()
        .filter(|(id, _)| !special.contains(id))
        .map(|(id, token)| (token.clone(), id.into()))
        .collect();
    let mut added_tokens: Vec<Value> = special.map(|id| added(id, &tokens[id])).collect();
    let has_break = spec.tower.as_ref().is_some_and(|tower| matches!(tower.kind, TowerKind::Pixtral { .. }));
    let id = break_token(spec.model.vocab) as usize;
    if has_break {
        vocab.remove(&tokens[id]);
        vocab.insert("[IMG_BREAK]".to_owned(), id.into());
        added_tokens.push(added(id, "[IMG_BREAK]"));
    }
    let family = spec.model.family;
    let post_processor = match family.adds_bos {
        true => with_bos(SPECIAL_TOKENS[0], first_special),
        false => json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true}),
    };
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added_tokens, "normalizer": null,
        "pre_tokenizer": pre_tokenizer(family.pre_tokenizer), "post_processor": post_processor,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                  "ignore_merges": family.pre_tokenizer == "llama-bpe", "vocab": vocab, "merges": merges},
    });
    ("tokenizer.json".to_owned(), tokenizer.to_string().into_bytes())
}

/// Returns texts, scores and kinds of pieces: special tokens, bytes, characters, and the prefixes of words.
fn all_pieces(count: usize) -> (Vec<(String, f32, u8)>, Vec<String>) {
    let mut pieces: Vec<(String, f32, u8)> = PIECES.iter().map(|&(text, kind)| (text.to_owned(), 0.0, kind)).collect();
    pieces.extend((0..256).map(|byte| (format!("<0x{byte:02X}>"), 0.0, BYTE)));
    let (mut merges, mut words) = (Vec::new(), Vec::new());
    let letters: Vec<String> = "\u{2581}".chars().chain('a'..='z').map(String::from).collect();
    for word in WORDS.split_whitespace().map(|word| format!("\u{2581}{word}")) {
        let mut joined = String::new();
        for letter in word.chars() {
            let longer = format!("{joined}{letter}");
            if !joined.is_empty() && !words.contains(&longer) && words.len() < MAX_WORDS {
                merges.push(format!("{joined} {letter}"));
                words.push(longer.clone());
            }
            joined = longer;
        }
    }
    // A better piece has a higher score; letters are the worst.
    let scored = words.into_iter().chain(letters).enumerate().map(|(rank, text)| (text, -(rank as f32), NORMAL));
    pieces.extend(scored);
    let unused = pieces.len()..count;
    pieces.extend(unused.map(|id| (format!("<extra{id}>"), 0.0, UNUSED)));
    (pieces, merges)
}

/// Returns a field of a protocol buffer with bytes or a message.
fn message(number: u8, contents: &[u8]) -> Vec<u8> {
    let mut length = contents.len();
    let mut bytes = vec![number << 3 | 2];
    while length >= 0x80 {
        bytes.push(length as u8 & 0x7f | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    [&bytes, contents].concat()
}

/// Returns the field of a SentencePiece model with a piece.
fn piece(text: &str, score: f32, kind: u8) -> Vec<u8> {
    let score = [&[2 << 3 | 5][..], &score.to_le_bytes()].concat();
    message(1, &[message(1, text.as_bytes()), score, vec![3 << 3, kind]].concat())
}

fn pieces(spec: &CheckpointSpec) -> (String, Vec<u8>) {
    // The last rows of the table have no piece.
    let (pieces, _) = all_pieces(spec.model.vocab as usize - 7);
    let mut model: Vec<u8> = pieces.iter().flat_map(|(text, score, kind)| piece(text, *score, *kind)).collect();
    // The trainer: BPE (field 3), with bytes (field 35, with a tag of two bytes).
    model.extend(message(2, &[3 << 3, 2, 0x98, 0x02, 1]));
    ("tokenizer.model".to_owned(), model)
}

fn merges(spec: &CheckpointSpec) -> (String, Vec<u8>) {
    let (pieces, merges) = all_pieces(spec.model.vocab as usize);
    let vocab: Map<String, Value> =
        pieces.iter().enumerate().map(|(id, (text, ..))| (text.clone(), id.into())).collect();
    let added: Vec<Value> = PIECES.iter().enumerate().map(|(id, (text, _))| added(id, text)).collect();
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"});
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u{2581}"}, replace]},
        "pre_tokenizer": null, "post_processor": with_bos("<s>", 1),
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
                  "vocab": vocab, "merges": merges},
    });
    ("tokenizer.json".to_owned(), tokenizer.to_string().into_bytes())
}

//! Unigram vocabularies, as those of T5: special tokens, characters, prefixes of words, and sentinels.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::{CheckpointSpec, NORMAL, added, all_pieces, message, piece};

/// Special tokens in the order of their ids, and their kinds.
const SPECIAL: [(&str, u8); 3] = [("<pad>", 3), ("</s>", 3), ("<unk>", 2)];
const SENTINELS: usize = 5;
/// A table of characters without a key: a root without children, and an empty replacement.
const CHARSMAP: [u8; 9] = [4, 0, 0, 0, 0, 0, 0, 0, 0];

pub(super) fn names() -> Value {
    json!({"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "extra_ids": SENTINELS,
           "tokenizer_class": "T5Tokenizer", "model_max_length": 512})
}

/// Returns texts and scores of all pieces but the sentinels.
fn scored() -> Vec<(String, f32, u8)> {
    let special = SPECIAL.iter().map(|&(text, kind)| (text.to_owned(), 0.0, kind));
    let (all, _) = all_pieces(0);
    // Scores are logarithms of frequencies.
    let pieces = all.into_iter().filter(|(_, _, kind)| *kind == NORMAL);
    special.chain(pieces.map(|(text, score, kind)| (text, -2.0 + score / 64.0, kind))).collect()
}

/// Returns a SentencePiece model. The sentinels follow from the number of them in `tokenizer_config.json`.
pub(super) fn pieces(_: &CheckpointSpec) -> (String, Vec<u8>) {
    let mut model: Vec<u8> = scored().iter().flat_map(|(text, score, kind)| piece(text, *score, *kind)).collect();
    model.extend(message(2, &[3 << 3, 1]));
    model.extend(message(3, &[message(1, b"nmt_nfkc"), message(2, &CHARSMAP)].concat()));
    ("spiece.model".to_owned(), model)
}

/// Returns a `tokenizer.json`.
pub(super) fn json(_: &CheckpointSpec) -> (String, Vec<u8>) {
    let mut pieces: Vec<Value> = scored().into_iter().map(|(text, score, _)| json!([text, score])).collect();
    let first = pieces.len();
    let sentinels: Vec<String> = (0..SENTINELS).rev().map(|number| format!("<extra_id_{number}>")).collect();
    pieces.extend(sentinels.iter().map(|text| json!([text, 0.0])));
    let special = SPECIAL.iter().map(|(text, _)| *text).enumerate();
    let all = special.chain((first..).zip(sentinels.iter().map(String::as_str)));
    let added: Vec<Value> = all.map(|(id, text)| added(id, text)).collect();
    let mut ends = Map::new();
    ends.insert("</s>".to_owned(), json!({"id": "</s>", "ids": [1], "tokens": ["</s>"]}));
    let single = json!([{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}]);
    let blanks = json!({"type": "Metaspace", "replacement": "\u{2581}", "add_prefix_space": true});
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": BASE64_STANDARD.encode(CHARSMAP)},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, blanks]},
        "post_processor": {"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": ends},
        "decoder": blanks,
        "model": {"type": "Unigram", "unk_id": 2, "vocab": pieces},
    });
    ("tokenizer.json".to_owned(), tokenizer.to_string().into_bytes())
}

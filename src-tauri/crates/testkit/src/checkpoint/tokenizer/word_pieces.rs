//! WordPiece vocabularies, with the marks of BERT's published files.

use serde_json::{Map, Value, json};

use super::{CheckpointSpec, added};
use crate::word_pieces::{self, SPECIAL_TOKENS};

/// Rows of the embedding table without a token, as in tables of a multiple of 64 rows.
const PADDING: u64 = 6;

pub(super) fn names() -> Value {
    let [pad, unknown, cls, sep, mask] = SPECIAL_TOKENS;
    json!({"pad_token": pad, "unk_token": unknown, "cls_token": cls, "sep_token": sep, "mask_token": mask,
           "do_lower_case": true, "tokenizer_class": "BertTokenizer", "model_max_length": 512})
}

/// Returns a `tokenizer.json`.
pub(super) fn json(spec: &CheckpointSpec) -> (String, Vec<u8>) {
    let tokens = word_pieces::tokens(spec.model.vocab - PADDING);
    let published = |(id, token): (usize, &String)| match token.strip_prefix('\u{2581}') {
        _ if id < SPECIAL_TOKENS.len() => token.clone(),
        Some(start) => start.to_owned(),
        None => format!("##{token}"),
    };
    let vocab: Map<String, Value> =
        tokens.iter().enumerate().map(|(id, token)| (published((id, token)), id.into())).collect();
    let added: Vec<Value> = SPECIAL_TOKENS.iter().enumerate().map(|(id, text)| added(id, text)).collect();
    let special = |text: &str| json!({"SpecialToken": {"id": text, "type_id": 0}});
    let (cls, sep) = (SPECIAL_TOKENS[2], SPECIAL_TOKENS[3]);
    let text = |id: &str, kind: u32| json!({"Sequence": {"id": id, "type_id": kind}});
    let mut ids = Map::new();
    for (text, id) in [(cls, 2), (sep, 3)] {
        ids.insert(text.to_owned(), json!({"id": text, "ids": [id], "tokens": [text]}));
    }
    let pair = json!([special(cls), text("A", 0), special(sep), text("B", 1), special(sep)]);
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
                       "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": [special(cls), text("A", 0), special(sep)],
                           "pair": pair, "special_tokens": ids},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": SPECIAL_TOKENS[1], "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": vocab},
    });
    ("tokenizer.json".to_owned(), tokenizer.to_string().into_bytes())
}

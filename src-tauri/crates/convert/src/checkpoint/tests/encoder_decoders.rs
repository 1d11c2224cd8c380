//! Checkpoints of T5 with random weights, and Unigram vocabularies.

use cairn_gguf::{Array, Gguf, Value as Number};
use cairn_testkit::Family;
use cairn_testkit::checkpoint::{CheckpointSpec, Vocabulary, checkpoint};
use cairn_testkit::families::{T5, T5_PLAIN};
use serde_json::{Value, json};

use super::decoders::{check, check_keys, open, spec};
use super::hostile::{Files, changed, with_header};
use super::refused;
use super::vocabularies::ids;

pub(super) fn t5(family: &'static Family) -> CheckpointSpec {
    let mut spec = spec(family, "T5ForConditionalGeneration");
    spec.model.kv_heads = spec.model.heads;
    spec.vocabulary = Vocabulary::UnigramPieces;
    spec
}

fn files() -> Files {
    checkpoint(&t5(&T5)).files
}

#[test]
fn encoder_decoders_keep_tensors_and_keys() {
    check_keys(&t5(&T5), &[]);
    // The embedding is the output matrix, and the checkpoint has copies of it.
    check_keys(&t5(&T5_PLAIN), &[]);
}

#[test]
fn tied_embedding_divides_the_last_norm_by_the_root_of_the_width() {
    let norm = |key: &str, value: Value| {
        let files = changed(files(), "config.json", |config| config[key] = value);
        let converted = super::convert_to(&files, crate::FileType::F32).expect("a valid checkpoint");
        let gguf = Gguf::parse(&converted).unwrap();
        let first = gguf.tensor("dec.output_norm.weight").expect("the last norm").offset as usize;
        let is_tied = gguf.tensor("output.weight").is_none();
        (is_tied, f32::from_le_bytes(converted[first..first + 4].try_into().expect("four bytes")))
    };
    let (is_tied, plain) = norm("tie_word_embeddings", json!(false));
    assert!(!is_tied, "the checkpoint has an output matrix");
    assert_eq!(norm("tie_word_embeddings", json!(true)), (true, plain / 8.0));
    assert_eq!(norm("tie_word_embeddings", Value::Null), (true, plain / 8.0), "the default");
    assert_eq!(norm("scale_decoder_outputs", json!(true)), (true, plain / 8.0), "the key of newer configs");
}

#[test]
fn unigram_vocabularies_give_the_same_ids() {
    let of = |vocabulary| check(&CheckpointSpec { vocabulary, ..t5(&T5) }).1;
    let (pieces, json) = (of(Vocabulary::UnigramPieces), of(Vocabulary::Unigram));
    let (gguf, other) = (Gguf::parse(&pieces).unwrap(), Gguf::parse(&json).unwrap());
    for (key, value) in gguf.metadata().iter().filter(|(key, _)| key.starts_with("tokenizer.")) {
        assert_eq!(other.metadata().get(key), Some(value), "{key}");
    }
    for text in ["the river and the stone", " two  blanks ", "this is \u{fc}?", "the <extra_id_0> of <extra_id_4>"] {
        let ids = ids(&pieces, text);
        assert_eq!(ids, self::ids(&json, text), "{text:?}");
        assert_eq!(ids.last(), Some(&1), "{text:?}: the end of a text");
    }
    assert_eq!(ids(&pieces, "a   b "), ids(&pieces, "a b"), "blanks are merged");
    let texts = gguf.metadata().required_strings("tokenizer.ggml.tokens").expect("texts of tokens");
    let texts: Vec<&str> = texts.iter().collect();
    let kinds = gguf.metadata().i32s("tokenizer.ggml.token_type").unwrap().expect("kinds of tokens");
    assert_eq!((&texts[..3], &kinds[..3]), (&["<pad>", "</s>", "<unk>"][..], &[3, 3, 2][..]));
    let first = texts.iter().position(|text| *text == "<extra_id_4>").expect("sentinels follow the pieces");
    assert_eq!((texts[first + 4], &kinds[first..first + 6]), ("<extra_id_0>", &[4, 4, 4, 4, 4, 5][..]));
    let charsmap = gguf.metadata().get("tokenizer.ggml.precompiled_charsmap");
    assert_eq!(charsmap, Some(&Number::Array(Array::U8(vec![4, 0, 0, 0, 0, 0, 0, 0, 0]))));
    let number = |role: &str| gguf.metadata().u32(&format!("tokenizer.ggml.{role}_token_id")).unwrap();
    assert_eq!((number("eos"), number("padding"), number("unknown")), (Some(1), Some(0), Some(2)));
}

#[test]
fn encoder_decoders_that_cannot_be_computed_are_refused() {
    let with = |key: &str, value: Value| changed(files(), "config.json", |config| config[key] = value);
    refused(&with("feed_forward_proj", json!("gated-silu")), "t5 with the MLP \"gated-silu\" is not supported");
    refused(&with("feed_forward_proj", json!("relu")), "DenseReluDense.wi_1.weight` is not part of a t5 model");
    refused(&with("relative_attention_max_distance", json!(64)), "t5 with relative_attention_max_distance 64");
    refused(&with("relative_attention_num_buckets", json!(16)), "attn_rel_b.weight needs [16, 4] by the config");
    refused(&with("num_layers", json!(1)), "`encoder.block.1.layer.0.layer_norm.weight` is not part of a t5 model");
    refused(&with("num_decoder_layers", json!(1)), "`decoder.block.1.");
    refused(&with("d_kv", json!(8)), "needs [32, 64] by the config");
    refused(&with("d_model", json!(u64::MAX)), "d_model is 18446744073709551615, and the limit is 4194304");
    let encoder = with("architectures", json!(["T5EncoderModel"]));
    refused(&encoder, "unsupported architecture \"T5EncoderModel\"");
    const NORM: &str = "encoder.final_layer_norm.weight";
    let renamed = with_header(without_index(files()), NORM, |header| {
        let entry = header.as_object_mut().expect("an object").remove(NORM);
        header["encoder.final_layer_norm.bias"] = entry.expect("the norm");
    });
    refused(&renamed, "`encoder.final_layer_norm.bias` is not part of a t5 model");
}

pub(super) fn without_index(mut files: Files) -> Files {
    files.retain(|(name, _)| name != "model.safetensors.index.json");
    files
}

#[test]
fn damaged_unigram_vocabularies_are_refused() {
    let mut pieces = files();
    let model = pieces.iter_mut().find(|(name, _)| name == "spiece.model").expect("a vocabulary");
    model.1.truncate(model.1.len() - 3);
    refused(&open(&pieces), "spiece.model: a field ends beyond the end of the file");
    pieces.retain(|(name, _)| name != "spiece.model");
    refused(&open(&pieces), "tokenizer.json is missing");
    let with = |change: fn(&mut Value)| {
        let made = checkpoint(&CheckpointSpec { vocabulary: Vocabulary::Unigram, ..t5(&T5) }).files;
        changed(made, "tokenizer.json", change)
    };
    refused(&with(|file| file["model"]["type"] = json!("BPE")), "the model is \"BPE\", not Unigram");
    refused(&with(|file| file["model"]["vocab"] = json!({"a": 1})), "it has no vocabulary with scores");
    refused(&with(|file| file["model"]["vocab"] = json!([["a", 1e300]])), "the score of the token \"a\" is inf");
    refused(&with(|file| file["model"]["vocab"] = json!([["a"]])), "tokenizer.json: invalid length 1");
    refused(&with(|file| file["normalizer"]["precompiled_charsmap"] = json!("*")), "precompiled_charsmap: Invalid");
    refused(&with(|file| file["normalizer"] = json!({"type": "Lowercase"})), "the normalizer \"Lowercase\" of");
    let words: fn(&mut Value) = |file| file["pre_tokenizer"] = json!({"type": "ByteLevel"});
    refused(&with(words), "the pre_tokenizer \"ByteLevel\" of a Unigram vocabulary in tokenizer.json");
}

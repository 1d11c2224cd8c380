//! Checkpoints of encoders with random weights: rotary positions, and matrices behind the pooling.

use cairn_gguf::Gguf;
use cairn_testkit::checkpoint::{CheckpointSpec, Vocabulary, checkpoint};
use cairn_testkit::families::{GEMMA_EMBEDDING, NOMIC_BERT};
use serde_json::{Value, json};

use super::decoders::{check, check_keys, open, spec};
use super::hostile::{Files, changed, with_header};
use super::{convert_to, refused};
use crate::{CheckpointFile, FileType};

fn gemma() -> CheckpointSpec {
    CheckpointSpec { vocabulary: Vocabulary::Pieces, ..spec(&GEMMA_EMBEDDING, "Gemma3TextModel") }
}

fn nomic() -> CheckpointSpec {
    let mut spec = spec(&NOMIC_BERT, "NomicBertModel");
    (spec.model.kv_heads, spec.vocabulary) = (spec.model.heads, Vocabulary::WordPieces);
    spec
}

fn files(spec: &CheckpointSpec) -> Files {
    checkpoint(spec).files
}

#[test]
fn encoders_keep_tensors_and_keys() {
    // The pattern is a list of layers in the new file.
    check_keys(&gemma(), &[".sliding_window_pattern"]);
    check_keys(&nomic(), &[]);
}

#[test]
fn word_pieces_have_a_token_for_each_row() {
    let (made, converted) = check(&nomic());
    let (expected, found) = (Gguf::parse(&made.model).unwrap(), Gguf::parse(&converted).unwrap());
    let texts = |gguf: &Gguf| -> Vec<String> {
        let texts = gguf.metadata().required_strings("tokenizer.ggml.tokens").expect("texts of tokens");
        texts.iter().map(str::to_owned).collect()
    };
    let (expected, texts) = (texts(&expected), texts(&found));
    assert_eq!((texts.len(), &texts[..514]), (520, &expected[..514]), "the last rows have no token");
    assert_eq!(texts[514..516], ["\u{2581}[PAD514]", "\u{2581}[PAD515]"]);
    let kinds = found.metadata().i32s("tokenizer.ggml.token_type").unwrap().expect("kinds of tokens");
    assert_eq!((kinds[513], &kinds[514..]), (1, &[5; 6][..]));
    let few = changed(files(&nomic()), "config.json", |config| config["vocab_size"] = json!(500));
    refused(&few, "config.json: vocab_size is 500, and the vocabulary has 514 tokens");
}

#[test]
fn context_of_nomic_bert_is_that_of_its_training() {
    let context = |positions: u32, trained: Value| {
        let files = changed(files(&nomic()), "config.json", |config| {
            config["n_positions"] = json!(positions);
            config["max_trained_positions"] = trained;
        });
        let converted = convert_to(&files, FileType::F16).expect("a valid checkpoint");
        Gguf::parse(&converted).unwrap().metadata().u32("nomic-bert.context_length").unwrap()
    };
    assert_eq!(context(8192, json!(1024)), Some(1024));
    assert_eq!(context(8192, Value::Null), Some(2048), "the default");
    assert_eq!(context(512, json!(2048)), Some(512));
}

#[test]
fn encoders_that_are_computed_differently_are_refused() {
    let with = |key: &str, value: Value| changed(files(&nomic()), "config.json", |config| config[key] = value);
    for key in ["causal", "prenorm", "parallel_block", "use_rms_norm", "rotary_emb_interleaved", "qkv_proj_bias"] {
        refused(&with(key, json!(true)), &format!("nomic-bert with {key} is not supported"));
    }
    refused(&with("moe_every_n_layers", json!(2)), "nomic-bert with experts is not supported");
    refused(&with("rotary_emb_fraction", json!(0.5)), "nomic-bert with a rotation of a part of each head");
    refused(&with("rotary_emb_scale_base", json!(512)), "nomic-bert with rotary_emb_scale_base");
    refused(&with("rotary_emb_base", Value::Null), "rotary_emb_base is null");
    refused(&with("activation_function", json!("geglu")), "nomic-bert with the activation \"geglu\"");
    refused(&with("n_inner", json!(64)), "by the config");
    let causal = changed(files(&gemma()), "config.json", |config| config["use_bidirectional_attention"] = json!(false));
    refused(&causal, "gemma-embedding without use_bidirectional_attention is not supported");
}

/// The checkpoint of EmbeddingGemma with a changed description of its first matrix.
fn with_dense(key: &str, value: Value) -> Vec<CheckpointFile> {
    changed(files(&gemma()), "2_Dense/config.json", |config| config[key] = value)
}

#[test]
fn matrices_behind_the_pooling_that_do_not_fit_are_refused() {
    refused(&with_dense("bias", json!(true)), "a module Dense with a bias (2_Dense/config.json) is not supported");
    let activation = with_dense("activation_function", json!("torch.nn.modules.activation.Tanh"));
    refused(&activation, "a module Dense with the activation \"torch.nn.modules.activation.Tanh\"");
    refused(&with_dense("in_features", json!(-1)), "2_Dense/config.json: in_features is -1, not a count");
    refused(&with_dense("out_features", json!(47)), "dense_2.weight needs [47, 64] by the config");
    for name in ["2_Dense/config.json", "3_Dense/model.safetensors"] {
        let mut files = files(&gemma());
        files.retain(|(other, _)| other != name);
        refused(&open(&files), &format!("{name}: it is missing; a module Dense of modules.json needs it"));
    }
    let modules = |change: fn(&mut Vec<Value>)| {
        changed(files(&gemma()), "modules.json", |modules| change(modules.as_array_mut().expect("a list")))
    };
    let many = modules(|list| list.push(list[2].clone()));
    refused(&many, "the module \"sentence_transformers.models.Dense\" of modules.json is not supported");
    let twice = modules(|list| list[3]["path"] = list[2]["path"].clone());
    refused(&twice, "modules.json: two modules Dense have the path \"2_Dense\"");
    let late = modules(|list| list.swap(1, 2));
    refused(&late, "the module \"sentence_transformers.models.Pooling\" of modules.json is not supported");
    let renamed = with_header(files(&gemma()), "linear.weight", |header| {
        let entry = header.as_object_mut().expect("an object").remove("linear.weight");
        header["other.weight"] = entry.expect("the matrix");
    });
    refused(&renamed, "tensor `dense_2.other.weight` is not part of a gemma-embedding model");
    let empty = with_header(files(&gemma()), "linear.weight", |header| {
        header.as_object_mut().expect("an object").remove("linear.weight");
    });
    refused(&empty, "2_Dense/model.safetensors: it has no tensor `linear.weight`");
}

#[test]
fn files_without_matrices_have_none() {
    let mut files = files(&gemma());
    files.retain(|(name, _)| !name.contains("Dense"));
    let plain = changed(files, "modules.json", |modules| {
        modules.as_array_mut().expect("a list").retain(|module| !module["path"].as_str().unwrap().contains("Dense"));
    });
    let converted = convert_to(&plain, FileType::F16).expect("a valid checkpoint");
    let gguf = Gguf::parse(&converted).unwrap();
    assert!(
        gguf.tensor("dense_2.weight").is_none() && gguf.metadata().get("gemma-embedding.dense_2_feat_in").is_none()
    );
}

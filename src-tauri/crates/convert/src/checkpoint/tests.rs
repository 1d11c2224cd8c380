//! Small checkpoints of BERT: names, types and values of tensors, vocabularies, and damaged files.

mod contradictions;
pub(super) mod decoders;
mod encoder_decoders;
mod encoders;
mod hostile;
mod tower_settings;
mod towers;
mod vocabularies;

use std::io::Write;

use cairn_gguf::{DType, Gguf};
use serde_json::{Value, json};

use super::*;

fn file(name: &str, contents: &[u8]) -> CheckpointFile {
    let mut file = tempfile::tempfile().expect("temporary file");
    file.write_all(contents).expect("write succeeds");
    CheckpointFile { name: name.to_owned(), file }
}

/// Returns a safetensors file. The value of an element is its index.
pub(super) fn safetensors(tensors: &[(&str, &str, &[u64])]) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::<u8>::new());
    for (name, dtype, shape) in tensors {
        let start = data.len();
        for element in 0..shape.iter().product::<u64>() {
            let value = element as f32;
            match *dtype {
                "F32" => data.extend(value.to_le_bytes()),
                "BF16" => data.extend(&value.to_le_bytes()[2..]),
                _ => data.extend(element.to_le_bytes()),
            }
        }
        header.insert((*name).to_owned(), json!({"dtype": dtype, "shape": shape, "data_offsets": [start, data.len()]}));
    }
    let header = serde_json::to_vec(&header).expect("valid JSON");
    [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()
}

fn config() -> Value {
    json!({"architectures": ["BertModel"], "hidden_act": "gelu", "num_hidden_layers": 1, "hidden_size": 4,
           "max_position_embeddings": 3, "intermediate_size": 8, "num_attention_heads": 2, "layer_norm_eps": 1e-12,
           "type_vocab_size": 2, "_name_or_path": "someone/small"})
}

fn tokenizer() -> Value {
    json!({"normalizer": {"type": "BertNormalizer", "lowercase": true, "strip_accents": null},
           "added_tokens": [{"id": 0, "content": "[PAD]"}, {"id": 4, "content": "[SEP]"}],
           "model": {"type": "WordPiece", "vocab": {"[PAD]": 0, "a": 1, "##b": 2, "[CLS]": 3, "##": 5}}})
}

const TENSORS: &[(&str, &str, &[u64])] = &[
    ("embeddings.position_ids", "I64", &[1, 3]),
    ("embeddings.word_embeddings.weight", "F32", &[6, 4]),
    ("embeddings.position_embeddings.weight", "F32", &[3, 4]),
    ("embeddings.LayerNorm.gamma", "F32", &[4]),
    ("encoder.layer.0.attention.self.query.weight", "BF16", &[4, 4]),
    ("encoder.layer.0.output.LayerNorm.bias", "F32", &[4]),
    ("pooler.dense.weight", "F32", &[4, 4]),
];

fn checkpoint(config: &Value, tokenizer: &Value, weights: &[u8]) -> Vec<CheckpointFile> {
    let modules = json!([{"path": "", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.models.Pooling"}]);
    vec![
        file("config.json", config.to_string().as_bytes()),
        file("tokenizer.json", tokenizer.to_string().as_bytes()),
        file("modules.json", modules.to_string().as_bytes()),
        file("1_Pooling/config.json", json!({"pooling_mode_cls_token": true}).to_string().as_bytes()),
        file("model.safetensors", weights),
    ]
}

fn convert(files: &[CheckpointFile]) -> Result<Vec<u8>, String> {
    convert_to(files, FileType::F16)
}

pub(super) fn convert_to(files: &[CheckpointFile], target: FileType) -> Result<Vec<u8>, String> {
    let conversion = Conversion::new(files, target).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    let mut last = None;
    let written = conversion.write_to(&mut out, &mut |progress| last = Some(progress));
    written.map_err(|error| error.to_string())?;
    let last = last.expect("progress was reported");
    assert_eq!(last.done_bytes, last.total_bytes, "complete at the end");
    assert_eq!(out.len() as u64, conversion.head().expect("the plan is valid").1, "the planned size");
    Ok(out)
}

#[test]
fn tensors_and_metadata_are_converted() {
    let bytes = convert(&checkpoint(&config(), &tokenizer(), &safetensors(TENSORS))).expect("a valid checkpoint");
    let gguf = Gguf::parse(&bytes).expect("valid GGUF");
    let found: Vec<(&str, DType, &[u64])> =
        gguf.tensors().iter().map(|tensor| (tensor.name.as_str(), tensor.dtype, &tensor.dims[..])).collect();
    let expected: [(&str, DType, &[u64]); 5] = [
        ("token_embd.weight", DType::F16, &[4, 6]),
        ("position_embd.weight", DType::F32, &[4, 3]),
        ("token_embd_norm.weight", DType::F32, &[4]),
        ("blk.0.attn_q.weight", DType::F16, &[4, 4]),
        ("blk.0.layer_output_norm.bias", DType::F32, &[4]),
    ];
    assert_eq!(found, expected, "without positions and pooler");
    for tensor in gguf.tensors() {
        let mut values = vec![0.0; tensor.elements() as usize];
        tensor.dtype.decode(&bytes[tensor.offset as usize..][..tensor.bytes as usize], &mut values);
        assert!(values.iter().zip(0..).all(|(value, index)| *value == index as f32), "{}: {values:?}", tensor.name);
    }
    let metadata = gguf.metadata();
    let number = |key: &str| metadata.u32(key).expect("a number").unwrap_or_else(|| panic!("{key} is missing"));
    assert_eq!(metadata.required_str("general.name").expect("a text"), "small");
    assert_eq!((number("bert.block_count"), number("bert.context_length")), (1, 3));
    assert_eq!(number("bert.pooling_type"), 2, "that of the pooling module");
    assert_eq!(metadata.bool("bert.attention.causal").expect("a flag"), Some(false));
    assert_eq!(metadata.f32("bert.attention.layer_norm_epsilon").expect("a number"), Some(1e-12));
    let tokens = metadata.required_strings("tokenizer.ggml.tokens").expect("a list");
    assert_eq!(tokens.iter().collect::<Vec<_>>(), ["[PAD]", "\u{2581}a", "b", "[CLS]", "[SEP]", "\u{2581}##"]);
    assert_eq!(metadata.i32s("tokenizer.ggml.token_type").expect("a list"), Some(vec![3, 1, 1, 3, 3, 1]));
    assert_eq!((number("tokenizer.ggml.cls_token_id"), number("tokenizer.ggml.seperator_token_id")), (3, 4));
    assert_eq!(number("tokenizer.ggml.bos_token_id"), 3, "llama.cpp begins texts with it");
    assert_eq!(metadata.bool("tokenizer.ggml.normalizer.lowercase").expect("a flag"), Some(true));
}

#[test]
fn cross_encoder_keeps_its_classifier() {
    let mut config = config();
    config["architectures"] = json!(["BertForSequenceClassification"]);
    config["id2label"] = json!({"0": "LABEL_0"});
    let weights = safetensors(&[
        ("bert.embeddings.word_embeddings.weight", "F32", &[6, 4]),
        ("bert.pooler.dense.weight", "F32", &[4, 4]),
        ("classifier.weight", "F32", &[1, 4]),
        ("classifier.bias", "F32", &[1]),
    ]);
    let bytes = convert(&checkpoint(&config, &tokenizer(), &weights)).expect("a valid checkpoint");
    let gguf = Gguf::parse(&bytes).expect("valid GGUF");
    let names: Vec<&str> = gguf.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["token_embd.weight", "cls.weight", "cls.output.weight", "cls.output.bias"]);
    assert_eq!(gguf.metadata().u32("bert.pooling_type").expect("a number"), Some(4), "rank");
}

#[test]
fn activation_of_the_checkpoint_is_kept() {
    let activation = |name: &str| {
        let mut config = config();
        config["hidden_act"] = json!(name);
        let bytes = convert(&checkpoint(&config, &tokenizer(), &safetensors(TENSORS))).expect("a valid checkpoint");
        let gguf = Gguf::parse(&bytes).expect("valid GGUF");
        gguf.metadata().str("bert.hidden_activation").expect("a text").map(str::to_owned)
    };
    for name in ["gelu", "gelu_python"] {
        assert_eq!(activation(name), None, "{name} is computed with the error function, as by default");
    }
    for name in ["gelu_new", "gelu_fast", "gelu_pytorch_tanh"] {
        assert_eq!(activation(name).as_deref(), Some("gelu_pytorch_tanh"), "{name} is computed with tanh");
    }
}

#[track_caller]
fn refused(files: &[CheckpointFile], expected: &str) {
    let error = convert(files).expect_err(expected);
    assert!(error.contains(expected), "{error:?} lacks {expected:?}");
}

#[test]
fn checkpoint_that_cannot_be_converted_is_refused() {
    let weights = safetensors(TENSORS);
    let with = |key: &str, value: Value| {
        let mut config = config();
        config[key] = value;
        checkpoint(&config, &tokenizer(), &weights)
    };
    let unsupported = "unsupported architecture \"XForCausalLM\"; safetensors files of BertModel, Bert";
    refused(&with("architectures", json!(["XForCausalLM"])), unsupported);
    refused(&with("architectures", json!(null)), "config.json: it has no architectures");
    refused(&with("num_hidden_layers", json!(-1)), "config.json: num_hidden_layers is -1, not a count");
    for activation in ["relu", "gelu_10", "quick_gelu"] {
        let expected = format!("BERT with the activation {activation:?} is not supported");
        refused(&with("hidden_act", json!(activation)), &expected);
        refused(&with("hidden_act", json!([activation])), "a `hidden_act` that is not a text");
    }
    refused(&with("position_embedding_type", json!("relative_key")), "BERT with \"relative_key\" positions");
    refused(&[file("model.safetensors", &weights)], "config.json is missing");
    let mut gap = tokenizer();
    gap["model"]["vocab"]["c"] = json!(9);
    refused(&checkpoint(&config(), &gap, &weights), "tokenizer.json: the ids of its 7 tokens are not 0 and up");
    let mut pairs = tokenizer();
    pairs["model"]["type"] = json!("BPE");
    refused(&checkpoint(&config(), &pairs, &weights), "the model is \"BPE\", not WordPiece");
    let mut files = checkpoint(&config(), &tokenizer(), &weights);
    files[3] = file("1_Pooling/config.json", br#"{"pooling_mode_max_tokens": true}"#);
    refused(&files, "the pooling of 1_Pooling/config.json is not supported");
}

#[test]
fn modules_and_pooling_that_cannot_be_computed_are_refused() {
    let with = |at: usize, name: &str, contents: Value| {
        let mut files = checkpoint(&config(), &tokenizer(), &safetensors(TENSORS));
        files[at] = file(name, contents.to_string().as_bytes());
        files
    };
    let modules = |kinds: &[&str]| {
        let kinds = ["x.Transformer", "x.models.Pooling"].iter().chain(kinds);
        with(2, "modules.json", kinds.map(|kind| json!({"path": "1_Pooling", "type": kind})).collect())
    };
    assert!(convert(&modules(&["x.models.Normalize"])).is_ok(), "every vector is normalised");
    refused(&modules(&["x.models.Dense"]), "the module \"x.models.Dense\" of modules.json is not supported");
    refused(&modules(&["x.models.Pooling"]), "the module \"x.models.Pooling\" of modules.json is not supported");
    let pooling = |modes: Value| with(3, "1_Pooling/config.json", modes);
    let one = json!({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false, "pooling_mode": "mean"});
    assert!(convert(&pooling(one)).is_ok(), "one mode, in the names of two versions");
    for mode in ["cls_token", "max_tokens", "mean_sqrt_len_tokens"] {
        let two = json!({"pooling_mode_mean_tokens": true, format!("pooling_mode_{mode}"): true});
        refused(&pooling(two), "the pooling of 1_Pooling/config.json is not supported");
    }
    refused(&pooling(json!({"pooling_mode": ["mean", "cls"]})), "the pooling of 1_Pooling/config.json");
}

#[test]
fn case_of_a_plain_vocabulary_comes_from_the_tokenizer_config() {
    let lowercase = |flags: Option<Value>| {
        let mut files = checkpoint(&config(), &tokenizer(), &safetensors(TENSORS));
        files[1] = file("vocab.txt", b"[PAD]\na\n##b\n[CLS]\n[SEP]\n##");
        files.extend(flags.map(|flags| file("tokenizer_config.json", flags.to_string().as_bytes())));
        let bytes = convert(&files).expect("a valid checkpoint");
        let gguf = Gguf::parse(&bytes).expect("valid GGUF");
        let flag = |name: &str| gguf.metadata().bool(&format!("tokenizer.ggml.normalizer.{name}")).expect("a flag");
        (flag("lowercase"), flag("strip_accents"))
    };
    assert_eq!(lowercase(Some(json!({"do_lower_case": false}))), (Some(false), None), "a model with case");
    assert_eq!(lowercase(Some(json!({"strip_accents": true}))), (None, Some(true)), "the default case");
    assert_eq!(lowercase(None), (None, None), "the defaults");
}

#[test]
fn weights_are_found_by_their_ending_in_any_case() {
    let mut files = checkpoint(&config(), &tokenizer(), &safetensors(TENSORS));
    files[4].name = "MODEL.SAFETENSORS".to_owned();
    assert!(convert(&files).is_ok(), "upper case");
}

#[test]
fn repeated_and_overlapping_tensors_are_refused() {
    let of = |entries: &[(&str, [u64; 2])]| {
        let entry = |(name, [start, end]): &(&str, [u64; 2])| {
            let elements = (end - start) / 4;
            let dtype = r#""dtype": "F32""#;
            format!(
                r#""embeddings.LayerNorm.{name}": {{{dtype}, "shape": [{elements}], "data_offsets": [{start}, {end}]}}"#
            )
        };
        let header = format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "));
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 64]].concat();
        checkpoint(&config(), &tokenizer(), &bytes)
    };
    let twice = "model.safetensors: tensor `embeddings.LayerNorm.bias` occurs twice";
    refused(&of(&[("bias", [0, 4]), ("bias", [4, 8])]), twice);
    refused(&of(&[("beta", [0, 4]), ("bias", [4, 8])]), twice);
    let overlap = "the tensors `embeddings.LayerNorm.weight` and `embeddings.LayerNorm.bias` overlap";
    refused(&of(&[("bias", [4, 12]), ("weight", [0, 8])]), overlap);
    assert!(convert(&of(&[("bias", [8, 12]), ("weight", [0, 8])])).is_ok(), "one after the other");
    let mut files = of(&[("bias", [0, 4])]);
    files.push(file("model-2.safetensors", &safetensors(&[("embeddings.LayerNorm.bias", "F32", &[1])])));
    refused(&files, "model-2.safetensors: tensor `embeddings.LayerNorm.bias` occurs twice");
}

#[test]
fn damaged_safetensors_are_refused() {
    let of = |weights: &[u8]| checkpoint(&config(), &tokenizer(), weights);
    let valid = safetensors(TENSORS);
    for length in [0, 4, 8, 40, valid.len() - 1] {
        assert!(convert(&of(&valid[..length])).is_err(), "only {length} bytes");
    }
    let head = |json: &str| [&(json.len() as u64).to_le_bytes()[..], json.as_bytes(), &[0; 64]].concat();
    let entry = |entry: &str| head(&format!("{{\"embeddings.LayerNorm.bias\": {entry}}}"));
    let name = "model.safetensors: tensor `embeddings.LayerNorm.bias`: ";
    for (bytes, expected) in [
        (head("["), "invalid header: invalid type: sequence, expected a map of tensors"),
        (u64::MAX.to_le_bytes().to_vec(), "the header has 18446744073709551615 bytes"),
        (entry("3"), "invalid type: integer `3`"),
        (entry(&format!("{{\"dtype\": \"F32\", \"shape\": {:?}}}", [1; 9])), "a list has more than 8 numbers"),
        (entry(r#"{"dtype": "F8_E5M2", "shape": [1], "data_offsets": [0, 1]}"#), "\"F8_E5M2\" is not supported"),
        (entry(r#"{"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}"#), "4 bytes do not fit the shape [2]"),
        (entry(r#"{"dtype": "F32", "shape": [99], "data_offsets": [0, 396]}"#), "beyond the end of the file"),
        (entry(r#"{"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}"#), "data_offsets are [4, 0]"),
        (entry(r#"{"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}"#), "integer `-1`, expected u64"),
        (entry(r#"{"dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 0]}"#), "do not fit"),
        (head("{}"), "the files have no tensors of the model"),
    ] {
        refused(&of(&bytes), expected);
    }
    refused(&of(&entry("{}")), name);
    let mut infinite = safetensors(&[("embeddings.word_embeddings.weight", "F32", &[2, 2])]);
    let end = infinite.len();
    infinite[end - 4..].copy_from_slice(&f32::INFINITY.to_le_bytes());
    refused(&of(&infinite), "tensor `embeddings.word_embeddings.weight` has values that are not finite");
    infinite[end - 4..].copy_from_slice(&70_000f32.to_le_bytes());
    refused(&of(&infinite), "too large for F16");
}

#[test]
fn descriptions_beyond_limits_are_refused() {
    let weights = safetensors(TENSORS);
    let with = |at: usize, name: &str, contents: &[u8]| {
        let mut files = checkpoint(&config(), &tokenizer(), &weights);
        files[at] = file(name, contents);
        files
    };
    let list = |items: usize| format!("[{}0]", "0,".repeat(items)).into_bytes();
    refused(&with(0, "config.json", &list(1 << 20)), "config.json: it is longer than 1 MiB");
    refused(&with(2, "modules.json", &list(1 << 20)), "modules.json: it is longer than 1 MiB");
    refused(&with(1, "tokenizer.json", &vec![b' '; (64 << 20) + 1]), "tokenizer.json: it is longer than 64 MiB");
    let tokens: Vec<String> = (0..=1 << 20).map(|id| format!("\"{id}\":{id}")).collect();
    let many = format!("{{\"model\": {{\"vocab\": {{{}}}}}}}", tokens.join(","));
    refused(&with(1, "tokenizer.json", many.as_bytes()), "it has more than 1048576 tokens");
    refused(&with(1, "vocab.txt", &vec![b'\n'; (1 << 20) + 1]), "vocab.txt: it has more than 1048576 tokens");
    let header = format!("{{{}\"x\":{{}}}}", (0..1 << 16).map(|id| format!("\"{id}\":{{}},")).collect::<String>());
    let header = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    refused(&with(4, "model.safetensors", &header), "it has more than 65536 tensors");
}

#[test]
fn unknown_parts_of_descriptions_are_skipped() {
    let mut tokenizer = tokenizer();
    tokenizer["model"]["more"] = json!([["a", "b"], {"c": [1.5, null]}]);
    tokenizer["decoder"] = json!({"type": "WordPiece"});
    let mut weights = safetensors(TENSORS);
    let metadata = br#"{"__metadata__": {"format": [1, {"a": "b"}]}, "#;
    let length = u64::from_le_bytes(weights[..8].try_into().expect("eight bytes")) + metadata.len() as u64 - 1;
    drop(weights.splice(..9, length.to_le_bytes().into_iter().chain(*metadata)));
    assert!(convert(&checkpoint(&config(), &tokenizer, &weights)).is_ok(), "they are not needed");
}

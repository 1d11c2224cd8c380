//! Checkpoints of which one part contradicts another, or that declare what no file of the engine contains: each is refused, because
//! a model without that part would give other answers.

use cairn_gguf::Gguf;
use cairn_testkit::Family;
use cairn_testkit::checkpoint::{AdaptedCheckpoint, AdapterSpec, CheckpointSpec, Vocabulary, adapter, checkpoint};
use cairn_testkit::families::{GEMMA2, GEMMA3N, GEMMA4, LLAMA4, T5};
use serde_json::{Value, json};

use super::decoders::{llama, open, spec};
use super::encoder_decoders::{t5, without_index};
use super::hostile::{Files, changed, replace, with_header};
use super::{convert_to, refused};
use crate::{CheckpointFile, FileType};

fn of(vocabulary: Vocabulary) -> Files {
    checkpoint(&CheckpointSpec { vocabulary, ..llama() }).files
}

fn with_config(key: &str, value: Value) -> Vec<CheckpointFile> {
    changed(of(Vocabulary::Bytes), "config.json", |config| config[key] = value)
}

fn is_converted(files: &[CheckpointFile], why: &str) {
    assert_eq!(convert_to(files, FileType::F16).map(|_| ()), Ok(()), "{why}");
}

#[test]
fn normalizers_and_pre_tokenizers_that_the_engine_lacks_are_refused() {
    let with =
        |vocabulary, key: &str, value: Value| changed(of(vocabulary), "tokenizer.json", |file| file[key] = value);
    let step = |kind: &str| json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": kind}]});
    is_converted(&with(Vocabulary::Bytes, "normalizer", step("NFC")), "published vocabularies have NFC");
    let bytes = with(Vocabulary::Bytes, "normalizer", step("Lowercase"));
    refused(&bytes, "the normalizer \"Lowercase\" of a byte-level BPE vocabulary in tokenizer.json is not supported");
    let merges = with(Vocabulary::Merges, "normalizer", step("Lowercase"));
    refused(&merges, "the normalizer \"Lowercase\" of a SentencePiece BPE vocabulary in tokenizer.json");
    let splits = |value: Value| with(Vocabulary::Merges, "pre_tokenizer", value);
    let blanks = |text: &str| json!({"type": "Split", "pattern": {"String": text}, "behavior": "MergedWithPrevious"});
    is_converted(&splits(blanks(" ")), "Gemma has blanks that are replaced before");
    is_converted(&splits(json!({"type": "Metaspace", "prepend_scheme": "first"})), "Mistral writes blanks so");
    refused(&splits(blanks("a")), "the pre_tokenizer \"Split\" a in tokenizer.json");
    refused(&splits(json!({"type": "Digits", "individual_digits": true})), "the pre_tokenizer \"Digits\"");
    let fallback =
        changed(of(Vocabulary::Bytes), "tokenizer.json", |file| file["model"]["byte_fallback"] = json!(true));
    let converted = convert_to(&fallback, FileType::F16).expect("a byte-level vocabulary has all bytes");
    let gguf = Gguf::parse(&converted).unwrap();
    assert_eq!(gguf.metadata().str("tokenizer.ggml.model"), Ok(Some("gpt2")));
}

#[test]
fn rope_scaling_that_is_no_scaling_is_refused() {
    let with = |value: Value| with_config("rope_scaling", value);
    for value in [json!([]), json!("yarn"), json!(4.0), json!(false)] {
        refused(&with(value.clone()), &format!("config.json: rope_scaling is {value}, not an object"));
        refused(&with_config("rope_parameters", value.clone()), &format!("rope_parameters is {value}, not an object"));
    }
    let parts = |name: &str| with_config("rope_parameters", json!({ name: 3 }));
    refused(&parts("full_attention"), "full_attention is 3, not an object");
    refused(&parts("sliding_attention"), "sliding_attention is 3, not an object");
    refused(&with(json!({"factor": 2.0})), "the RoPE scaling has a factor, but no rope_type");
    refused(
        &with(json!({"rope_type": 1, "type": "linear", "factor": 2})),
        "rope_type of the RoPE scaling is 1, not a text",
    );
    refused(&with(json!({"type": "yarn2", "factor": 2})), "the RoPE scaling \"yarn2\" is not supported");
    for kind in ["linear", "yarn", "llama3", "dynamic"] {
        for factor in [json!(0), json!(-2.0), json!(1e300), json!("4"), json!([4])] {
            refused(&with(json!({"type": kind, "factor": factor})), &format!("factor is {factor}, not a number"));
        }
    }
    for key in ["attention_factor", "attn_factor", "beta_fast", "beta_slow", "extrapolation_factor"] {
        let scaling = json!({"type": "yarn", "factor": 4, key: 0});
        refused(&with(scaling), &format!("{key} is 0, not a number above 0"));
    }
    let context = json!({"type": "yarn", "factor": 4, "original_max_position_embeddings": -1});
    refused(&with(context), "original_max_position_embeddings is -1, not a count");
    for key in ["low_freq_factor", "high_freq_factor"] {
        refused(&with(json!({"type": "llama3", "factor": 8, key: 0})), &format!("{key} is 0, not a number above 0"));
    }
    let order = json!({"type": "llama3", "factor": 8, "low_freq_factor": 5});
    refused(&with(order), "low_freq_factor 5 of the RoPE scaling is above high_freq_factor 4");
    let long = json!({"type": "longrope", "original_max_position_embeddings": 256, "long_factor": vec![0; 8],
                      "short_factor": vec![1; 8]});
    refused(&with(long), "long_factor is 0, not a number above 0");
    for (key, value) in [("rope_theta", json!(0)), ("rope_theta", json!(-1.0)), ("rope_local_base_freq", json!(0))] {
        refused(&with_config(key, value), &format!("{key} is "));
    }
    for value in [json!(-0.5), json!(1.5), json!("a")] {
        refused(
            &with_config("partial_rotary_factor", value.clone()),
            &format!("partial_rotary_factor is {value}, not"),
        );
    }
    // Llama 4 has one border between fast and slow pairs.
    let border = json!({"rope_type": "llama3", "factor": 16, "low_freq_factor": 1, "high_freq_factor": 1});
    let files = checkpoint(&spec(&LLAMA4, "Llama4ForConditionalGeneration")).files;
    let bordered = changed(files, "config.json", |config| match config.get_mut("text_config") {
        Some(text) => text["rope_scaling"] = border,
        None => config["rope_scaling"] = border,
    });
    is_converted(&bordered, "the factors may be equal");
}

#[test]
fn rotation_of_two_objects_has_the_kind_of_one() {
    let with = |parameters: Value, scaling: Value| {
        changed(of(Vocabulary::Bytes), "config.json", |config| {
            config["rope_parameters"] = parameters;
            config["rope_scaling"] = scaling;
        })
    };
    let yarn = || json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128});
    let files = with(json!({"rope_theta": 5e5, "factor": 2.0, "beta_fast": 16.0}), yarn());
    let converted = convert_to(&files, FileType::F16).expect("one object has the kind");
    let gguf = Gguf::parse(&converted).unwrap();
    assert_eq!(gguf.metadata().str("llama.rope.scaling.type"), Ok(Some("yarn")));
    let number = |key: &str| gguf.metadata().f32(&format!("llama.rope.{key}")).unwrap();
    assert_eq!(number("freq_base"), Some(500_000.0), "the other object has the base");
    assert_eq!(number("scaling.factor"), Some(4.0), "that of the object with the kind");
    assert_eq!(number("scaling.yarn_beta_fast"), Some(16.0), "only the other object has it");
    is_converted(&with(yarn(), yarn()), "the same kind");
    is_converted(&with(json!({"rope_type": "default"}), json!({"type": "mrope"})), "neither is scaled");
    for kind in ["default", "linear"] {
        let other = with(json!({"rope_type": kind, "factor": 4.0}), yarn());
        let expected = format!("rope_parameters has the rope_type {kind:?}, and rope_scaling has \"yarn\"");
        refused(&other, &expected);
    }
    let full = json!({"full_attention": {"rope_type": "default"}, "sliding_attention": {"rope_type": "default"}});
    refused(&with(full, yarn()), "rope_parameters has the rope_type \"default\", and rope_scaling has \"yarn\"");
    let none = with(json!({"rope_theta": 5e5}), json!({"factor": 4.0}));
    refused(&none, "the RoPE scaling has a factor, but no rope_type");
}

#[test]
fn merges_of_missing_tokens_are_refused() {
    let with = |vocabulary, change: fn(&mut Value)| {
        changed(of(vocabulary), "tokenizer.json", |file| change(&mut file["model"]))
    };
    for vocabulary in [Vocabulary::Bytes, Vocabulary::Merges] {
        let none = with(vocabulary, |model| model["merges"] = json!([]));
        refused(&none, "tokenizer.json: the BPE model has no merges");
        let missing =
            with(vocabulary, |model| model["merges"].as_array_mut().expect("a list").push(json!(["e", "\u{416}"])));
        refused(&missing, "the merge of \"e\" and \"\u{416}\" needs the token \"\u{416}\", which is missing");
        let joined = with(vocabulary, |model| model["merges"].as_array_mut().expect("a list").push(json!("x q")));
        refused(&joined, "the merge of \"x\" and \"q\" needs the token \"xq\", which is missing");
        for key in ["continuing_subword_prefix", "end_of_word_suffix"] {
            let marks = changed(of(vocabulary), "tokenizer.json", |file| file["model"][key] = json!("</w>"));
            refused(&marks, &format!("the {key} \"</w>\" of tokenizer.json is not supported"));
            let empty = changed(of(vocabulary), "tokenizer.json", |file| file["model"][key] = json!(""));
            is_converted(&empty, "GPT-2 has an empty text");
        }
    }
}

/// The files of a tokenizer that names no special token.
fn unnamed() -> Files {
    let mut files = of(Vocabulary::Bytes);
    replace(&mut files, "tokenizer_config.json", |config| {
        for name in ["bos_token", "eos_token", "pad_token"] {
            config[name] = Value::Null;
        }
    });
    replace(&mut files, "tokenizer.json", |file| file["post_processor"] = Value::Null);
    files
}

#[test]
fn ids_beyond_the_vocabulary_are_refused() {
    for (role, name) in [("bos", "bos"), ("eos", "eos"), ("pad", "padding"), ("unk", "unknown")] {
        let key = format!("{role}_token_id");
        let with = |value: Value| changed(unnamed(), "config.json", |config| config[&key] = value);
        for value in [json!(520), json!(-2), json!("1"), json!(1.5), json!([1, 520]), json!([-1]), json!({"id": 1})] {
            let expected = format!("config.json: {key} is {value}, not one of the ids 0 to 519");
            refused(&with(value), &expected);
        }
        let id = |files: &[CheckpointFile]| {
            let converted = convert_to(files, FileType::F16).expect("a valid checkpoint");
            Gguf::parse(&converted).unwrap().metadata().u32(&format!("tokenizer.ggml.{name}_token_id")).unwrap()
        };
        assert_eq!(id(&with(json!([519, 1]))), Some(519), "{role}: the first of several tokens");
        for value in [Value::Null, json!(-1), json!([])] {
            assert_eq!(id(&with(value.clone())), None, "{role}: {value} is no token");
        }
        if role != "unk" {
            let named = id(&with_config(&key, Value::Null));
            assert!(named.is_some(), "the tokenizer has a name of {role}");
            for value in [json!(520), json!(-1), json!([])] {
                assert_eq!(id(&with_config(&key, value.clone())), named, "{role}: the name counts, not {value}");
            }
        }
    }
    let start = |value: Value| {
        let files = checkpoint(&t5(&T5)).files;
        changed(files, "config.json", |config| config["decoder_start_token_id"] = value)
    };
    refused(&start(json!(520)), "the decoder starts with the token 520, which is not one of the ids 0 to 519");
    refused(&start(json!("0")), "decoder_start_token_id is \"0\", not a count");
}

#[test]
fn names_of_missing_tokens_need_an_id() {
    for role in ["bos", "eos"] {
        let (name, key) = (format!("{role}_token"), format!("{role}_token_id"));
        let with = |token: Value, id: Value| {
            let mut files = of(Vocabulary::Bytes);
            replace(&mut files, "tokenizer_config.json", |config| config[&name] = token);
            changed(files, "config.json", |config| config[&key] = id)
        };
        let missing = format!(
            "tokenizer_config.json: the {name} \"<none>\" is not in the vocabulary, and config.json has no {key}"
        );
        for id in [Value::Null, json!(-1), json!([])] {
            refused(&with(json!("<none>"), id.clone()), &missing);
            refused(&with(json!({"content": "<none>"}), id), &missing);
        }
        refused(&with(json!("<none>"), json!(520)), &format!("{key} is 520, not one of the ids 0 to 519"));
        is_converted(&with(json!("<none>"), json!(1)), "the config has the id");
        is_converted(&with(json!(""), Value::Null), "an empty text names no token");
    }
}

/// Removes a tensor from the header of its file. Its data stay.
fn without(files: Files, tensor: &str) -> Vec<CheckpointFile> {
    with_header(without_index(files), tensor, |header| drop(header.as_object_mut().expect("an object").remove(tensor)))
}

#[test]
fn separate_output_matrix_that_is_missing_is_refused() {
    let missing = "config.json: tie_word_embeddings is false, but the files have no output matrix (lm_head)";
    let mut untied = llama();
    untied.model.tied = false;
    let files = checkpoint(&untied).files;
    is_converted(&open(&files), "the files have the matrix");
    refused(&without(files.clone(), "lm_head.weight"), missing);
    let mut embedding = files;
    let modules = json!([{"path": "", "type": "x.Transformer"}]);
    embedding.push(("modules.json".to_owned(), modules.to_string().into_bytes()));
    is_converted(&without(embedding, "lm_head.weight"), "an embedding model computes no logits");
    let of_images = |is_tied: bool| {
        let mut files = checkpoint(&untied).files;
        let (_, config) = files.iter_mut().find(|(name, _)| name == "config.json").expect("a config");
        let text: Value = serde_json::from_slice(config).expect("valid JSON");
        let all = json!({"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": is_tied, "text_config": text});
        *config = all.to_string().into_bytes();
        without(files, "lm_head.weight")
    };
    refused(&of_images(false), missing);
    is_converted(&of_images(true), "the model with images has no separate matrix");
    refused(&without(checkpoint(&t5(&T5)).files, "lm_head.weight"), missing);
    let mut gemma = spec(&GEMMA2, "Gemma2ForCausalLM");
    gemma.vocabulary = Vocabulary::Pieces;
    let gemma = changed(checkpoint(&gemma).files, "config.json", |config| config["tie_word_embeddings"] = json!(false));
    refused(&gemma, "gemma2 with tie_word_embeddings false is not supported");
}

#[test]
fn adapter_in_the_folder_of_a_model_is_refused() {
    let files = of(Vocabulary::Bytes);
    let adapted = AdapterSpec {
        config: json!({"r": 4, "lora_alpha": 4.0}),
        rank: |_| 4,
        scale: |_| 1.0,
        changes: |module| module.ends_with("q_proj"),
        seed: 1,
    };
    let AdaptedCheckpoint { adapter, .. } = adapter(&files, &adapted);
    let both = "the folder has a model (model-00001-of-00002.safetensors) and an adapter; move adapter_config.json and \
                adapter_model.safetensors to another folder, and name that folder with ADAPTER";
    for file in &adapter {
        let mut files = files.clone();
        files.push(file.clone());
        refused(&open(&files), &format!("{}: {both}", file.0));
    }
    refused(
        &open(&adapter),
        "the folder has an adapter and no model; name it with ADAPTER, and its base model with FROM",
    );
}

#[test]
fn copies_of_the_embedding_that_differ_are_refused() {
    const COPY: &str = "decoder.embed_tokens.weight";
    let files = || checkpoint(&t5(&T5)).files;
    is_converted(&open(&files()), "the copy is equal");
    let mut last = files();
    let (_, contents) = last
        .iter_mut()
        .find(|(name, contents)| {
            name.ends_with(".safetensors") && contents.windows(COPY.len()).any(|window| window == COPY.as_bytes())
        })
        .expect("a file with the copy");
    let header = u64::from_le_bytes(contents[..8].try_into().expect("eight bytes")) as usize;
    let entries: Value = serde_json::from_slice(&contents[8..8 + header]).expect("valid JSON");
    let end = entries[COPY]["data_offsets"][1].as_u64().expect("the end of the copy") as usize;
    contents[8 + header + end - 1] ^= 1;
    let value =
        "tensor `decoder.embed_tokens.weight` has another value than `shared.weight`, but the model has one matrix";
    refused(&open(&last), value);
    let turned = with_header(files(), COPY, |header| {
        header[COPY]["shape"].as_array_mut().expect("a shape").reverse();
    });
    refused(&turned, "tensor `decoder.embed_tokens.weight` has another type or shape than `shared.weight`");
}

#[test]
fn sizes_of_layers_of_gemma_4_may_be_a_list() {
    let files = |change: fn(&mut Value)| {
        let made = checkpoint(&spec(&GEMMA4, "Gemma4ForConditionalGeneration"));
        changed(made.files, "config.json", |config| {
            let text = &mut config["text_config"];
            let heads = text["num_global_key_value_heads"].take();
            let sizes = json!({"head_dim": text["global_head_dim"].take(), "num_key_value_heads": heads});
            text["per_layer_config"] = json!({"1": sizes});
            change(text);
        })
    };
    let expected =
        convert_to(&open(&checkpoint(&spec(&GEMMA4, "Gemma4ForConditionalGeneration")).files), FileType::F16);
    assert!(convert_to(&files(|_| ()), FileType::F16) == expected, "the same file as from an older config");
    let other = "gemma4 with a per_layer_config that is not one of all layers without a window";
    refused(&files(|text| text["per_layer_config"]["0"] = json!({})), other);
    refused(&files(|text| text["per_layer_config"] = json!({})), other);
    refused(&files(|text| text["per_layer_config"]["1"]["x"] = json!(1)), "gemma4 with \"x\" of single layers");
    refused(&files(|text| text["per_layer_config"] = json!(1)), "per_layer_config is 1, not an object");
}

#[test]
fn soft_caps_without_a_value_are_zero() {
    const FINAL: &str = "final_logit_softcapping";
    let cap = |family: &'static Family, architecture, key: &str, change: fn(&mut Value)| {
        let files = changed(checkpoint(&spec(family, architecture)).files, "config.json", |config| {
            let text = config.as_object_mut().expect("an object").get_mut("text_config");
            match text {
                Some(text) => change(text),
                None => change(config),
            }
        });
        let file = convert_to(&files, FileType::F16).expect("a valid checkpoint");
        let gguf = Gguf::parse(&file).expect("a valid file");
        gguf.metadata().f32(&format!("{}.{key}", family.name)).expect("a number")
    };
    let null: fn(&mut Value) = |config| config[FINAL] = Value::Null;
    let missing: fn(&mut Value) = |config| drop(config.as_object_mut().expect("an object").remove(FINAL));
    // Files without the key have a cap of 30. In `transformers`, Gemma 4 has none without the key, and the others have one.
    for (family, architecture, without) in [
        (&GEMMA2, "Gemma2ForCausalLM", None),
        (&GEMMA3N, "Gemma3nForConditionalGeneration", None),
        (&GEMMA4, "Gemma4ForConditionalGeneration", Some(0.0)),
    ] {
        let found = [null, missing].map(|change| cap(family, architecture, FINAL, change));
        assert_eq!(found, [Some(0.0), without], "{architecture}: null, and no key");
    }
    const SCORES: &str = "attn_logit_softcapping";
    let found = cap(&GEMMA2, "Gemma2ForCausalLM", SCORES, |config| config[SCORES] = Value::Null);
    assert_eq!(found, Some(0.0), "scores of Gemma 2");
}

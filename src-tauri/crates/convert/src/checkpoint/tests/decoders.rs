//! Checkpoints of decoders with random weights: the new file has the same weights, whatever layout, type and vocabulary the
//! checkpoint has.

use cairn_gguf::{DType, Gguf, Tensor};
use cairn_testkit::checkpoint::{Checkpoint, CheckpointSpec, Storage, Vocabulary, checkpoint};
use cairn_testkit::families::{
    self, GEMMA3, GPT_OSS, GRANITE_MOE, LLAMA, MIXTRAL, OLMOE, QWEN2, QWEN2MOE, QWEN3MOE, SEED_OSS, SMOLLM3,
};
use cairn_testkit::{Family, ModelSpec, RopeScaling, Types, tiny};
use serde_json::{Value, json};

use super::{convert_to, file};
use crate::{CheckpointFile, Conversion, FileType, Quantisation};

pub(in super::super) fn spec(family: &'static Family, architecture: &'static str) -> CheckpointSpec {
    let model = ModelSpec { width: 64, heads: 4, kv_heads: 2, head_dim: 16, ffn: 96, vocab: 520, ..tiny(family) };
    let (storage, vocabulary) = (Storage::Float(DType::F32), Vocabulary::Bytes);
    CheckpointSpec { model, architecture, model_type: "", storage, vocabulary, tower: None }
}

pub(super) fn llama() -> CheckpointSpec {
    spec(&LLAMA, "LlamaForCausalLM")
}

pub(in super::super) fn open(files: &[(String, Vec<u8>)]) -> Vec<CheckpointFile> {
    files.iter().map(|(name, contents)| file(name, contents)).collect()
}

fn bytes<'a>(bytes: &'a [u8], tensor: &Tensor) -> &'a [u8] {
    &bytes[tensor.offset as usize..][..tensor.bytes as usize]
}

/// Checks that all tensors of the model are in the converted file.
#[track_caller]
pub(super) fn check(spec: &CheckpointSpec) -> (Checkpoint, Vec<u8>) {
    let made = checkpoint(spec);
    let converted = convert_to(&open(&made.files), FileType::F32).expect("a valid checkpoint");
    let (expected, found) = (Gguf::parse(&made.model).unwrap(), Gguf::parse(&converted).unwrap());
    assert_eq!(found.tensors().len(), expected.tensors().len(), "number of tensors");
    for tensor in expected.tensors() {
        let other = found.tensor(&tensor.name).unwrap_or_else(|| panic!("{} is missing", tensor.name));
        // A matrix of one row is a vector.
        let [dims, expected] = [&other.dims, &tensor.dims].map(|dims| dims.strip_suffix(&[1]).unwrap_or(dims));
        assert_eq!((other.dtype, dims), (tensor.dtype, expected), "{}", tensor.name);
        assert!(bytes(&converted, other) == bytes(&made.model, tensor), "bytes of {}", tensor.name);
    }
    (made, converted)
}

#[test]
fn tensors_keep_their_values_in_every_type_of_weights() {
    for storage in [
        Storage::Float(DType::F32),
        Storage::Float(DType::F16),
        Storage::Float(DType::BF16),
        Storage::Float8Blocks([32, 48]),
        Storage::Float8Rows,
    ] {
        check(&CheckpointSpec { storage, ..llama() });
    }
}

/// Keys that follow from others, or that the family does not read.
const DERIVED: &[&str] = &[
    ".attention.head_count_kv",
    ".attention.key_length",
    ".attention.layer_norm_rms_epsilon",
    ".attention.value_length",
    ".rope.dimension_count",
    ".rope.freq_base",
    ".vocab_size",
];

/// Checks that the converted file has all tensors and keys of the model. Keys in `skipped` may differ.
#[track_caller]
pub(super) fn check_keys(spec: &CheckpointSpec, skipped: &[&str]) {
    let (made, converted) = check(spec);
    let (expected, found) = (Gguf::parse(&made.model).unwrap(), Gguf::parse(&converted).unwrap());
    let prefix = format!("{}.", spec.model.family.name);
    for (key, value) in expected.metadata().iter().filter(|(key, _)| key.starts_with(&prefix)) {
        match found.metadata().get(key) {
            _ if skipped.iter().any(|end| key.ends_with(end)) => {}
            None => assert!(DERIVED.iter().any(|end| key.ends_with(end)), "{key} is missing"),
            Some(other) => assert_eq!(other, value, "{key}"),
        }
    }
}

#[test]
fn dense_families_keep_tensors_and_keys() {
    for (family, architecture) in [
        (&families::COMMAND_R, "CohereForCausalLM"),
        (&families::COHERE2, "Cohere2ForCausalLM"),
        (&families::ERNIE4_5, "Ernie4_5ForCausalLM"),
        (&families::EXAONE, "ExaoneForCausalLM"),
        (&families::EXAONE4, "Exaone4ForCausalLM"),
        (&families::EXAONE4_WINDOWS, "Exaone4ForCausalLM"),
        (&families::FALCON, "FalconForCausalLM"),
        (&families::FALCON_40B, "FalconForCausalLM"),
        (&families::GEMMA, "GemmaForCausalLM"),
        (&families::GLM4, "Glm4ForCausalLM"),
        (&families::HUNYUAN_DENSE, "HunYuanDenseV1ForCausalLM"),
        (&families::PHI2, "PhiForCausalLM"),
        (&families::STABLELM, "StableLmForCausalLM"),
    ] {
        check_keys(&spec(family, architecture), &[]);
    }
    for family in [&families::GEMMA4, &families::GEMMA4_EXPERTS] {
        check_keys(&spec(family, "Gemma4ForCausalLM"), &[]);
    }
    let mut small = spec(&families::GEMMA4_SMALL, "Gemma4ForCausalLM");
    small.model.layers = 4;
    check_keys(&small, &[]);
    for (family, architecture) in [(&families::GPT2, "GPT2LMHeadModel"), (&families::GPTNEOX, "GPTNeoXForCausalLM")] {
        let mut spec = spec(family, architecture);
        spec.model.kv_heads = spec.model.heads;
        check_keys(&spec, &[]);
    }
    check_keys(&spec(&families::GEMMA3N, "Gemma3nForConditionalGeneration"), &[]);
    let mut mistral = spec(&families::MISTRAL3, "Mistral3ForConditionalGeneration");
    mistral.model.rope_scaling = RopeScaling::Yarn { factor: 4.0, original_context: 512 };
    check_keys(&mistral, &[]);
}

#[test]
fn families_with_experts_keep_tensors_and_keys() {
    for (family, architecture) in [
        (&families::DEEPSEEK2, "DeepseekV3ForCausalLM"),
        (&families::DEEPSEEK2_GROWTH, "DeepseekV3ForCausalLM"),
        (&families::DOTS1, "Dots1ForCausalLM"),
        (&families::GLM4MOE, "Glm4MoeForCausalLM"),
        (&families::LLAMA4, "Llama4ForConditionalGeneration"),
    ] {
        check_keys(&spec(family, architecture), &[]);
    }
    let mut ernie = spec(&families::ERNIE4_5_MOE, "Ernie4_5_MoeForCausalLM");
    ernie.model.ffn = 128;
    check_keys(&ernie, &[]);
    let storage = Storage::Float8Blocks([32, 48]);
    check(&CheckpointSpec { storage, ..spec(&families::DEEPSEEK2, "DeepseekV3ForCausalLM") });
}

#[test]
fn hybrid_families_keep_tensors_and_keys() {
    for (family, architecture) in [
        (&families::GRANITE_HYBRID, "GraniteMoeHybridForCausalLM"),
        (&families::GRANITE_HYBRID_MOE, "GraniteMoeHybridForCausalLM"),
        (&families::LFM2, "Lfm2ForCausalLM"),
        (&families::LFM2MOE, "Lfm2MoeForCausalLM"),
        (&families::NEMOTRON_H, "NemotronHForCausalLM"),
        (&families::QWEN3NEXT, "Qwen3NextForCausalLM"),
        (&families::QWEN35, "Qwen3_5ForConditionalGeneration"),
        (&families::QWEN35MOE, "Qwen3_5MoeForConditionalGeneration"),
    ] {
        check_keys(&spec(family, architecture), &[]);
    }
    // The width of each layer is that inside an expert, and files of the generator have that of MLPs.
    for family in [&families::NEMOTRON_H_MOE, &families::NEMOTRON_H_LATENT] {
        check_keys(&spec(family, "NemotronHForCausalLM"), &[".feed_forward_length"]);
    }
}

#[test]
fn text_parts_of_models_with_towers_keep_tensors_and_keys() {
    for (family, architecture) in [
        (&families::QWEN2VL, "Qwen2VLForConditionalGeneration"),
        (&families::QWEN2VL, "Qwen2_5_VLForConditionalGeneration"),
        (&families::QWEN3VL, "Qwen3VLForConditionalGeneration"),
        (&families::QWEN3VLMOE, "Qwen3VLMoeForConditionalGeneration"),
    ] {
        check_keys(&spec(family, architecture), &[]);
    }
    let files = open(&checkpoint(&spec(&families::GEMMA3N, "Gemma3nForConditionalGeneration")).files);
    let plan = Conversion::new(&files, FileType::F32).expect("a valid checkpoint");
    let left_out = plan.left_out().expect("its tower is left out");
    assert!(left_out.contains("only the text part of the folder was converted"), "{left_out}");
    let files = open(&checkpoint(&llama()).files);
    assert_eq!(Conversion::new(&files, FileType::F32).expect("a valid checkpoint").left_out(), None, "no tower");
}

#[test]
fn families_of_the_engine_have_a_converter() {
    let names: Vec<&str> = crate::checkpoint::families::ALL.iter().map(|family| family.name()).collect();
    for Family { name, .. } in families::ALL.iter().chain(families::ENCODERS).chain(families::ENCODER_DECODERS) {
        assert!(names.contains(name), "{name}");
    }
}

#[test]
fn families_without_a_recording_keep_tensors_and_keys() {
    for (family, architecture) in [
        (&GRANITE_MOE, "GraniteMoeSharedForCausalLM"),
        (&OLMOE, "OlmoeForCausalLM"),
        (&QWEN2MOE, "Qwen2MoeForCausalLM"),
        (&SEED_OSS, "SeedOssForCausalLM"),
        (&SMOLLM3, "SmolLM3ForCausalLM"),
    ] {
        check_keys(&spec(family, architecture), &[]);
    }
}

#[test]
fn experts_and_blocks_of_four_bits_are_joined() {
    check(&spec(&MIXTRAL, "MixtralForCausalLM"));
    check(&spec(&QWEN3MOE, "Qwen3MoeForCausalLM"));
    let mut gpt_oss = spec(&GPT_OSS, "GptOssForCausalLM");
    gpt_oss.model.ffn = 128;
    gpt_oss.model.types = Types::By(|name| if name.contains("_exps.weight") { DType::MXFP4 } else { DType::F32 });
    let (_, converted) = check(&gpt_oss);
    let gguf = Gguf::parse(&converted).unwrap();
    assert_eq!(gguf.metadata().u32("general.file_type").unwrap(), Some(FileType::MXFP4_MOE.number()));
}

#[test]
fn experts_without_blocks_are_transposed() {
    let mut gpt_oss = spec(&GPT_OSS, "GptOssForCausalLM");
    gpt_oss.model.types = Types::By(|name| if name.contains("_exps.weight") { DType::MXFP4 } else { DType::F32 });
    gpt_oss.model.ffn = 128;
    // The files here have one tensor.
    gpt_oss.model.tied = true;
    let made = checkpoint(&gpt_oss);
    let model = Gguf::parse(&made.model).unwrap();
    let values = |name: &str| {
        let tensor = model.tensor(name).unwrap();
        let mut values = vec![0.0; tensor.elements() as usize];
        tensor.dtype.decode(bytes(&made.model, tensor), &mut values);
        values
    };
    let (gate, up) = (values("blk.0.ffn_gate_exps.weight"), values("blk.0.ffn_up_exps.weight"));
    // [experts, width, 2 * inner] in the checkpoint, [experts, inner, width] in the model.
    let (experts, inner, width) = (8, 64, 64);
    let mut data = Vec::new();
    for (expert, row, column) in (0..experts)
        .flat_map(|expert| (0..width).flat_map(move |row| (0..2 * inner).map(move |column| (expert, row, column))))
    {
        let part = if column % 2 == 0 { &gate } else { &up };
        data.extend(part[(expert * inner + column / 2) * width + row].to_le_bytes());
    }
    let name = "model.layers.0.mlp.experts.gate_up_proj";
    let entry = json!({"dtype": "F32", "shape": [experts, width, 2 * inner], "data_offsets": [0, data.len()]});
    let header = json!({ (name): entry }).to_string().into_bytes();
    let weights = [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat();
    let mut files = made.files.clone();
    files.retain(|(name, _)| !name.contains("safetensors"));
    files.push(("model.safetensors".to_owned(), weights));
    let converted = convert_to(&open(&files), FileType::F32).expect("a valid checkpoint");
    let found = Gguf::parse(&converted).unwrap();
    for (name, expected) in [("blk.0.ffn_gate_exps.weight", gate), ("blk.0.ffn_up_exps.weight", up)] {
        let tensor = found.tensor(name).expect(name);
        assert_eq!(tensor.dims, [width as u64, inner as u64, experts as u64], "{name}");
        let expected: Vec<u8> = expected.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert!(bytes(&converted, tensor) == expected, "{name}");
    }
}

#[test]
fn weights_are_quantised_as_by_two_steps() {
    for target in [FileType::Q4_K_M, FileType::Q8_0, FileType::BF16] {
        let mut spec = llama();
        spec.model = ModelSpec { width: 256, heads: 4, head_dim: 64, ffn: 512, ..spec.model };
        let files = open(&checkpoint(&spec).files);
        let converted = convert_to(&files, target).expect("a valid checkpoint");
        let floats = convert_to(&files, FileType::F32).expect("a valid checkpoint");
        let head = Gguf::parse(&floats).unwrap();
        let plan = Quantisation::new(&head, target).expect("floats can be quantised");
        let mut quantised = Vec::new();
        plan.write_to(&[file("", &floats).file], &mut quantised, &mut |_| ()).expect("a vector takes all bytes");
        let (found, expected) = (Gguf::parse(&converted).unwrap(), Gguf::parse(&quantised).unwrap());
        for tensor in expected.tensors() {
            let other = found.tensor(&tensor.name).expect("the same tensors");
            assert_eq!(other.dtype, tensor.dtype, "{target}: {}", tensor.name);
            assert!(bytes(&converted, other) == bytes(&quantised, tensor), "{target}: {}", tensor.name);
        }
        let file_type = |gguf: &Gguf| gguf.metadata().u32("general.file_type").unwrap();
        assert_eq!(file_type(&found), file_type(&expected), "{target}");
    }
}

#[test]
fn config_of_a_model_with_images_is_that_of_its_text_part() {
    let mut gemma = spec(&GEMMA3, "Gemma3ForConditionalGeneration");
    gemma.vocabulary = Vocabulary::Pieces;
    let made = checkpoint(&gemma);
    let mut files = made.files.clone();
    let config = files.iter_mut().find(|(name, _)| name == "config.json").expect("a config");
    let text: Value = serde_json::from_slice(&config.1).unwrap();
    config.1 = json!({"architectures": [gemma.architecture], "text_config": text}).to_string().into_bytes();
    let converted = convert_to(&open(&files), FileType::F32).expect("a valid checkpoint");
    let plain = convert_to(&open(&made.files), FileType::F32).expect("a valid checkpoint");
    let tensors = |file: &[u8]| Gguf::parse(file).unwrap().tensors().to_vec();
    assert_eq!(tensors(&converted).len(), tensors(&plain).len(), "the same tensors");
}

#[test]
fn list_of_modules_makes_an_embedding_model() {
    let mut files = checkpoint(&spec(&QWEN2, "Qwen2ForCausalLM")).files;
    let modules = json!([{"path": "", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"}]);
    files.push(("modules.json".to_owned(), modules.to_string().into_bytes()));
    files.push(("1_Pooling/config.json".to_owned(), br#"{"pooling_mode_lasttoken": true}"#.to_vec()));
    let converted = convert_to(&open(&files), FileType::F16).expect("a valid checkpoint");
    assert_eq!(Gguf::parse(&converted).unwrap().metadata().u32("qwen2.pooling_type").unwrap(), Some(3));
}

//! Checkpoints with vision towers: the new file has the same weights and keys, and errors name damaged or missing parts.

use cairn_gguf::{DType, Gguf, Value as Key};
use cairn_testkit::checkpoint::{CheckpointSpec, checkpoint};
use cairn_testkit::families::{GEMMA3, GEMMA4, LLAMA, MISTRAL3, QWEN2VL, QWEN3VL, QWEN35};
use cairn_testkit::tower::{TowerKind, TowerSpec};
use cairn_testkit::{Family, RopeScaling};
use serde_json::{Value, json};

use super::decoders::{open, spec};
use super::hostile::{Files, changed, with_header};
use crate::{CheckpointFile, Conversion, FileType};

pub(super) const CONFIG: &str = "config.json";
pub(super) const PREPROCESSOR: &str = "preprocessor_config.json";
const INDEX: &str = "model.safetensors.index.json";

/// Keys that a converted file has with another value, or lacks because it is the default: pictures have any size.
const OTHERS: [&str; 2] = ["clip.vision.image_size", "clip.vision.projector.scale_factor"];

fn with_tower(
    family: &'static Family,
    architecture: &'static str,
    tower: impl FnOnce(u64) -> TowerSpec,
) -> CheckpointSpec {
    let spec = spec(family, architecture);
    CheckpointSpec { tower: Some(tower(spec.model.width)), ..spec }
}

pub(super) fn gemma3() -> CheckpointSpec {
    with_tower(&GEMMA3, "Gemma3ForConditionalGeneration", TowerSpec::tiny)
}

pub(super) fn qwen3() -> CheckpointSpec {
    with_tower(&QWEN3VL, "Qwen3VLForConditionalGeneration", TowerSpec::tiny_qwen3)
}

pub(super) fn qwen25() -> CheckpointSpec {
    with_tower(&QWEN2VL, "Qwen2_5_VLForConditionalGeneration", TowerSpec::tiny_qwen25)
}

pub(super) fn pixtral(group: u64) -> CheckpointSpec {
    let tower = |width| TowerSpec { kind: TowerKind::Pixtral { group }, ..TowerSpec::tiny_pixtral(width) };
    let mut spec = with_tower(&MISTRAL3, "Mistral3ForConditionalGeneration", tower);
    spec.model.rope_scaling = RopeScaling::Yarn { factor: 4.0, original_context: 512 };
    spec
}

pub(super) fn gemma4() -> CheckpointSpec {
    with_tower(&GEMMA4, "Gemma4ForConditionalGeneration", TowerSpec::tiny_gemma4)
}

/// LLaVA 1.5, or 1.6 with sizes of enlarged pictures.
pub(super) fn llava(sizes: &[u32]) -> CheckpointSpec {
    let is_next = !sizes.is_empty();
    let kind = TowerKind::Llava { has_class: true, sizes: sizes.to_vec(), has_norms: false, has_newline: is_next };
    let architecture = if is_next { "LlavaNextForConditionalGeneration" } else { "LlavaForConditionalGeneration" };
    with_tower(&LLAMA, architecture, |width| TowerSpec { kind, ..TowerSpec::tiny_llava(width) })
}

/// Returns the file of the tower.
pub(super) fn converted(files: &[CheckpointFile], target: FileType) -> Result<Vec<u8>, String> {
    let conversion = Conversion::new(files, target).map_err(|error| error.to_string())?;
    let tower = conversion.tower().ok_or_else(|| conversion.left_out().unwrap_or("there is no tower").to_owned())?;
    let mut out = Vec::new();
    tower.write_to(&mut out, &mut |_| ()).map_err(|error| error.to_string())?;
    assert_eq!(out.len() as u64, tower.head().expect("the plan is valid").1, "the planned size");
    Ok(out)
}

fn values(file: &[u8], name: &str) -> (DType, Vec<u64>, Vec<f32>) {
    let gguf = Gguf::parse(file).expect("a valid file");
    let tensor = gguf.tensor(name).unwrap_or_else(|| panic!("{name} is missing"));
    let mut values = vec![0.0; tensor.elements() as usize];
    tensor.dtype.decode(&file[tensor.offset as usize..][..tensor.bytes as usize], &mut values);
    (tensor.dtype, tensor.dims.clone(), values)
}

#[test]
fn towers_keep_tensors_and_keys() {
    let qwen35 = with_tower(&QWEN35, "Qwen3_5ForConditionalGeneration", |width| {
        let kind = TowerKind::Qwen3 { deepstack: Vec::new() };
        TowerSpec { kind, ..TowerSpec::tiny_qwen3(width) }
    });
    for spec in [gemma3(), gemma4(), pixtral(2), qwen25(), qwen3(), qwen35, llava(&[]), llava(&[24, 48, 48, 24])] {
        let made = checkpoint(&spec);
        let found = converted(&open(&made.files), FileType::F32).expect("a valid checkpoint");
        let expected = made.tower.expect("a checkpoint with a tower");
        let [found_head, expected_head] = [&found, &expected].map(|file| Gguf::parse(file).expect("a valid file"));
        let kind = spec.architecture;
        assert_eq!(found_head.tensors().len(), expected_head.tensors().len(), "{kind}: number of tensors");
        for tensor in expected_head.tensors() {
            let [(_, dims, values), (_, wanted_dims, wanted)] =
                [&found, &expected].map(|file| self::values(file, &tensor.name));
            assert_eq!(dims, wanted_dims, "{kind}: {}", tensor.name);
            assert!(values == wanted, "{kind}: values of {}", tensor.name);
        }
        for (key, value) in expected_head.metadata().iter().filter(|(key, _)| !OTHERS.contains(key)) {
            let other = found_head.metadata().get(key);
            assert!(
                other == Some(value) || other.is_none() && *value == Key::Bool(false),
                "{kind}: {key} is {other:?}"
            );
        }
    }
}

#[test]
fn towers_have_float_types_whatever_the_target() {
    let files = open(&checkpoint(&gemma3()).files);
    let of = |target: FileType, name: &str| values(&converted(&files, target).expect("a valid checkpoint"), name).0;
    for (target, expected) in [
        (FileType::F32, DType::F32),
        (FileType::F16, DType::F16),
        (FileType::BF16, DType::BF16),
        (FileType::Q8_0, DType::F16),
        (FileType::Q4_K_M, DType::F16),
    ] {
        assert_eq!(of(target, "v.blk.0.attn_q.weight"), expected, "{target}");
        assert_eq!(of(target, "v.blk.0.attn_q.bias"), DType::F32, "{target}");
        assert_eq!(of(target, "v.position_embd.weight"), DType::F32, "{target}");
        assert_eq!(of(target, "mm.input_projection.weight"), DType::F16, "{target}");
    }
    let files = open(&checkpoint(&qwen3()).files);
    let of =
        |target: FileType| values(&converted(&files, target).expect("a valid checkpoint"), "v.patch_embd.weight.1").0;
    assert_eq!([FileType::F16, FileType::BF16].map(of), [DType::F16, DType::F32], "a convolution");
}

#[test]
fn settings_of_pictures_are_read_from_both_files() {
    let mut files = checkpoint(&gemma3()).files;
    let (name, contents) = files.iter_mut().find(|(name, _)| name == PREPROCESSOR).expect("a preprocessor");
    let settings: Value = serde_json::from_slice(contents).expect("valid JSON");
    *name = "processor_config.json".to_owned();
    *contents = json!({"processor_class": "x", "image_processor": settings}).to_string().into_bytes();
    assert!(converted(&open(&files), FileType::F16).is_ok(), "the section of the newer file");
    files.push((PREPROCESSOR.to_owned(), json!({"image_mean": "x"}).to_string().into_bytes()));
    assert!(converted(&open(&files), FileType::F16).is_ok(), "the newer file has precedence");
}

#[test]
fn size_of_groups_of_gemma_3_is_a_key_if_it_is_unusual() {
    let group = |rows: u64| {
        let files = changed(checkpoint(&gemma3()).files, PREPROCESSOR, |all| all["image_seq_length"] = json!(rows));
        let file = converted(&files, FileType::F16).expect("a valid checkpoint");
        Gguf::parse(&file).expect("a valid file").metadata().u32("clip.vision.projector.scale_factor").expect("a count")
    };
    assert_eq!([4, 16, 64].map(group), [None, Some(2), Some(1)], "8 patches in a side");
}

#[test]
fn layers_with_attention_to_all_patches_are_an_interval() {
    let interval = |list: Value| {
        let files =
            changed(checkpoint(&qwen25()).files, CONFIG, |all| all["vision_config"]["fullatt_block_indexes"] = list);
        let file = converted(&files, FileType::F16).expect("a valid checkpoint");
        Gguf::parse(&file).expect("a valid file").metadata().u32("clip.vision.n_wa_pattern").expect("a count")
    };
    for (list, expected) in [
        (json!([1, 3]), 2),
        (json!([3, 1, 3]), 2),
        (json!([1, 3, 5, u64::MAX]), 2),
        (json!([2]), 3),
        (json!([3]), 4),
        (json!([0, 1, 2, 3]), 1),
        // No layer of four.
        (json!([]), 5),
        (json!([7, 15]), 5),
        (Value::Null, 5),
    ] {
        assert_eq!(interval(list.clone()), Some(expected), "{list}");
    }
}

#[test]
fn direction_of_rows_of_gemma_4_is_a_key() {
    let of = |direction: Value| {
        changed(checkpoint(&gemma4()).files, CONFIG, |all| {
            all["text_config"]["use_bidirectional_attention"] = direction
        })
    };
    let is_causal = |direction: Value| {
        let file = converted(&of(direction), FileType::F16).expect("a valid checkpoint");
        Gguf::parse(&file).expect("a valid file").metadata().bool("clip.vision.causal_rows").expect("a flag")
    };
    assert_eq!([json!("vision"), Value::Null].map(is_causal), [Some(false), Some(true)], "the model's config decides");
    refused(&of(json!("all")), "gemma4 with use_bidirectional_attention \"all\" is not supported");
    refused(&of(json!("some")), "a vision tower with use_bidirectional_attention \"some\" is not supported");
    refused(&of(json!(true)), "use_bidirectional_attention is true, not a text");
}

/// Checks the error, or the reason why the tower is left out.
#[track_caller]
pub(super) fn refused(files: &[CheckpointFile], expected: &str) {
    let error = converted(files, FileType::F16).expect_err(expected);
    assert!(error.contains(expected), "{error:?} lacks {expected:?}");
}

fn without(mut files: Files, name: &str) -> Vec<CheckpointFile> {
    files.retain(|(file, _)| file != INDEX);
    with_header(files, name, |header| drop(header.as_object_mut().expect("an object").remove(name)))
}

#[test]
fn damaged_towers_are_refused() {
    let of = |spec: CheckpointSpec| checkpoint(&spec).files;
    let mut files = of(gemma3());
    files.retain(|(name, _)| name != PREPROCESSOR);
    refused(&open(&files), "preprocessor_config.json is missing");
    let no_section =
        changed(of(gemma3()), CONFIG, |all| drop(all.as_object_mut().map(|all| all.remove("vision_config"))));
    refused(&no_section, "config.json: it has no vision_config, but the files have tensors of a vision tower");
    for (spec, name) in [
        (gemma3(), "vision_tower.vision_model.encoder.layers.2.mlp.fc1.bias"),
        (gemma3(), "multi_modal_projector.mm_soft_emb_norm.weight"),
        (qwen25(), "visual.blocks.0.attn.qkv.bias"),
        (pixtral(2), "multi_modal_projector.patch_merger.merging_layer.weight"),
    ] {
        refused(&without(of(spec), name), &format!("tensor `{name}` of the vision tower is missing"));
    }
    refused(
        &without(of(qwen3()), "model.visual.deepstack_merger_list.1.norm.weight"),
        "tensor `visual.deepstack_merger_list.1.norm.weight` of the vision tower is missing",
    );
    let turned = |spec, name: &str, shape: Value| with_header(of(spec), name, |all| all[name]["shape"] = shape);
    let name = "vision_tower.vision_model.embeddings.patch_embedding.weight";
    refused(&turned(gemma3(), name, json!([3, 24, 3, 3])), "v.patch_embd.weight needs [24, 3, 3, 3] by the config");
    refused(&turned(gemma3(), name, json!([648])), "v.patch_embd.weight needs [24, 3, 3, 3] by the config");
    let name = "model.visual.patch_embed.proj.weight";
    refused(
        &turned(qwen3(), name, json!([96, 3, 2, 2, 2])),
        "v.patch_embd.weight needs [24, 3, 2, 4, 4] by the config",
    );
    refused(&turned(qwen3(), name, json!([24, 96])), "has the shape [24, 96], but");
    let name = "visual.blocks.0.attn.qkv.weight";
    refused(&turned(qwen25(), name, json!([24, 72])), "needs rows 24 to 48 by the config");
}

#[test]
fn invalid_settings_of_towers_are_refused() {
    let set = |spec: CheckpointSpec, key: &str, value: Value| {
        changed(checkpoint(&spec).files, CONFIG, |all| all["vision_config"][key] = value)
    };
    let picture = |key: &str, value: Value| changed(checkpoint(&gemma3()).files, PREPROCESSOR, |all| all[key] = value);
    refused(
        &picture("image_mean", json!([0.5, 0.5])),
        "preprocessor_config.json: image_mean is [0.5,0.5], not 3 numbers",
    );
    refused(&picture("image_std", json!(null)), "preprocessor_config.json: image_std is null, not 3 numbers");
    refused(&picture("image_std", json!([1, "x", 1])), "not 3 numbers");
    let limit = "config.json: vision_config.num_hidden_layers is 5000, and the limit is 1024";
    refused(&set(gemma3(), "num_hidden_layers", json!(5000)), limit);
    refused(&set(gemma3(), "patch_size", json!(1 << 20)), "vision_config.patch_size is 1048576, and the limit is 256");
    refused(&set(gemma3(), "image_size", json!([24, 24])), "vision_config.image_size is [24,24], not a count");
    let default = "v.patch_embd.weight needs [768, 3, 3, 3] by the config";
    refused(&set(gemma3(), "hidden_size", json!(null)), default);
    let deep = |list: Value| set(qwen3(), "deepstack_visual_indexes", list);
    refused(&deep(json!([0, 4])), "vision_config.deepstack_visual_indexes has the layer 4, but the tower has 4");
    refused(&deep(json!([0, "x"])), "not a list of whole numbers");
    refused(&deep(json!([0, 2, 0])), "vision_config.deepstack_visual_indexes has the layer 0 twice");
    let positions = |count: u64| set(qwen3(), "num_position_embeddings", json!(count));
    refused(&positions(35), "num_position_embeddings is 35, not the square of a number of patches");
    refused(&positions(1 << 32), "num_position_embeddings is 4294967296, and the limit is 4294967295");
    refused(&set(qwen3(), "num_heads", json!(5)), "hidden_size is 24, not a multiple of 5 heads");
    refused(&set(llava(&[]), "image_size", json!(23)), "image_size is 23, not a multiple of patch_size 4");
    let list = changed(checkpoint(&gemma3()).files, PREPROCESSOR, |all| *all = json!([1]));
    refused(&list, "preprocessor_config.json: the settings of images are [1], not an object");
    let list = changed(checkpoint(&gemma3()).files, CONFIG, |all| all["vision_config"] = json!([1]));
    refused(&list, "config.json: vision_config is [1], not an object");
    refused(&deep(json!(vec![0; 5000])), "and the limit is 1024");
    let mut files = checkpoint(&pixtral(2)).files;
    let tokenizer = files.iter_mut().find(|(name, _)| name == "tokenizer.json").expect("a tokenizer");
    tokenizer.1 = String::from_utf8(tokenizer.1.clone()).expect("JSON").replace("[IMG_BREAK]", "[IMG]").into_bytes();
    refused(&open(&files), "the vision tower needs the token [IMG_BREAK] in the tokenizer");
}

#[test]
fn unsupported_towers_are_left_out_with_the_reason() {
    let left_out = |files: &[CheckpointFile], reason: &str| {
        let conversion = Conversion::new(files, FileType::F16).unwrap_or_else(|error| panic!("{reason}: {error}"));
        assert!(conversion.tower().is_none(), "{reason}");
        let warning = conversion.left_out().unwrap_or_default();
        assert!(warning.starts_with("only the text part of the folder was converted: "), "{warning}");
        assert!(warning.contains(reason), "{warning:?} lacks {reason:?}");
    };
    let set = |spec: CheckpointSpec, key: &str, value: Value| {
        changed(checkpoint(&spec).files, CONFIG, |all| all["vision_config"][key] = value)
    };
    let qwen2 = CheckpointSpec { architecture: "Qwen2VLForConditionalGeneration", ..qwen25() };
    left_out(&open(&checkpoint(&qwen2).files), "a vision tower of Qwen2VLForConditionalGeneration is not supported");
    left_out(&set(qwen25(), "window_size", json!(64)), "window_size 64 instead of 112");
    let full = |list: Value| set(qwen25(), "fullatt_block_indexes", list);
    for list in [json!([1, 2]), json!([1]), json!([0]), json!([0, 1, 2]), json!([0, 2]), json!([1, 2, 3])] {
        left_out(&full(list), "of 4 layers with fullatt_block_indexes that are not at equal intervals up to the last");
    }
    left_out(&set(qwen3(), "spatial_merge_size", json!(4)), "spatial_merge_size 4 instead of 2");
    left_out(&set(gemma4(), "head_dim", json!(16)), "head_dim 16 instead of 8");
    left_out(&set(gemma4(), "hidden_activation", json!("relu")), "the activation \"relu\"");
    left_out(&set(llava(&[]), "hidden_act", json!("relu")), "the activation \"relu\"");
    let of_llava =
        |key: &str, value: Value| changed(checkpoint(&llava(&[24, 48])).files, CONFIG, |all| all[key] = value);
    left_out(&of_llava("vision_feature_layer", json!([-2, -5])), "several layers in vision_feature_layer");
    left_out(&of_llava("vision_feature_select_strategy", json!("full")), "vision_feature_select_strategy \"full\"");
    refused(
        &of_llava("vision_feature_layer", json!(-6)),
        "vision_feature_layer is -6, but the vision tower has 4 layers",
    );
    refused(&of_llava("image_grid_pinpoints", json!([])), "is not a list of 1 to 64 pairs");
    refused(&of_llava("image_grid_pinpoints", json!([[1, 2, 3]])), "is not a list of 1 to 64 pairs");
    refused(&of_llava("image_grid_pinpoints", json!([[1, u64::MAX]])), "is not a list of 1 to 64 pairs");
    left_out(&set(pixtral(2), "model_type", json!("siglip")), "the model_type \"siglip\"");
    let encoder = "vision_tower.vision_model.encoder.layers";
    for (spec, name) in [
        (gemma3(), "vision_tower.vision_model.extra".to_owned()),
        (llava(&[]), format!("{encoder}.0.self_attn.q_norm.weight")),
        (llava(&[]), format!("{encoder}.3.ls1.gamma")),
        (llava(&[]), format!("{encoder}.4.mlp.fc1.bias")),
        (gemma3(), "visual.x".to_owned()),
        (gemma3(), "x.vision_tower.vision_model.post_layernorm.bias".to_owned()),
    ] {
        let files = with_tensor(checkpoint(&spec).files, &name);
        left_out(&open(&files), &format!("the tensor `{name}` "));
    }
    let of_depth = |layers: u32| set(llava(&[]), "num_hidden_layers", json!(layers));
    left_out(&of_depth(3), &format!("the tensor `{encoder}.3."));
    refused(&of_depth(5), &format!("tensor `{encoder}.4.layer_norm1.bias` of the vision tower is missing"));
}

/// Adds a file with a tensor of one element.
pub(super) fn with_tensor(mut files: Files, name: &str) -> Files {
    files.retain(|(file, _)| file != INDEX);
    let header = json!({ (name): {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} }).to_string();
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 4]].concat();
    files.push(("more.safetensors".to_owned(), bytes));
    files
}

#[test]
fn audio_tower_is_left_out_beside_a_vision_tower() {
    let files = open(&with_tensor(checkpoint(&gemma4()).files, "model.audio_tower.layers.0.weight"));
    let conversion = Conversion::new(&files, FileType::F16).expect("a valid checkpoint");
    assert!(conversion.tower().is_some(), "the tower of images");
    let warning = conversion.left_out().unwrap_or_default();
    assert!(warning.contains("the audio tower was not converted"), "{warning}");
}

#[test]
fn limits_of_values_may_be_infinite() {
    let name = "model.vision_tower.encoder.layers.0.self_attn.q_proj.input_max";
    let of = |value: f32| {
        let mut files = checkpoint(&gemma4()).files;
        for (_, contents) in files.iter_mut().filter(|(file, _)| file.ends_with(".safetensors")) {
            let length = u64::from_le_bytes(contents[..8].try_into().expect("eight bytes")) as usize;
            let header: Value = serde_json::from_slice(&contents[8..8 + length]).expect("valid JSON");
            if let Some(start) = header[name]["data_offsets"][0].as_u64() {
                let start = 8 + length + start as usize;
                contents[start..start + 4].copy_from_slice(&value.to_le_bytes());
            }
        }
        converted(&open(&files), FileType::F16)
    };
    let file = of(f32::INFINITY).expect("no limit");
    assert_eq!(values(&file, "v.blk.0.attn_q.input_max").2, [f32::INFINITY]);
    let error = of(f32::NAN).expect_err("not a number");
    assert!(error.contains("values that are not finite numbers"), "{error}");
}

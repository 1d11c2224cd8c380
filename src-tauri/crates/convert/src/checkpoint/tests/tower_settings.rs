//! Settings of vision towers and of their pictures that change the rows of a picture: each is read, or the tower is left out.

use cairn_gguf::Gguf;
use cairn_testkit::checkpoint::{CheckpointSpec, checkpoint};
use serde_json::{Value, json};

use super::decoders::open;
use super::hostile::{Files, changed};
use super::towers::{
    CONFIG, PREPROCESSOR, converted, gemma3, gemma4, llava, pixtral, qwen3, qwen25, refused, with_tensor,
};
use crate::{CheckpointFile, Conversion, FileType};

/// Where a setting is.
#[derive(Clone, Copy)]
enum Place {
    Root,
    Text,
    Vision,
    Pictures,
}
use Place::{Pictures, Root, Text, Vision};

/// Returns the files of a checkpoint with another value of a setting.
fn with(spec: CheckpointSpec, place: Place, key: &str, value: Value) -> Vec<CheckpointFile> {
    let files: Files = checkpoint(&spec).files;
    match place {
        Root => changed(files, CONFIG, |all| all[key] = value),
        Text => changed(files, CONFIG, |all| all["text_config"][key] = value),
        Vision => changed(files, CONFIG, |all| all["vision_config"][key] = value),
        Pictures => changed(files, PREPROCESSOR, |all| all[key] = value),
    }
}

#[test]
fn settings_that_files_lack_are_refused() {
    let tanh = json!("gelu_pytorch_tanh");
    for (spec, place, key, value, expected) in [
        (gemma3(), Vision, "hidden_act", json!("relu"), "hidden_act \"relu\" instead of \"gelu_pytorch_tanh\""),
        (gemma3(), Vision, "hidden_act", json!({"a": 1}), "vision_config.hidden_act is {\"a\":1}, not a text"),
        (gemma3(), Vision, "model_type", json!("clip_vision_model"), "the model_type \"clip_vision_model\""),
        (gemma3(), Pictures, "size", json!({"height": 24, "width": 48}), "of images instead of 24"),
        (gemma3(), Pictures, "do_rescale", json!(false), "do_rescale false"),
        (gemma3(), Pictures, "rescale_factor", json!(1.0 / 127.5), "rescale_factor 0.007843138 instead of 1/255"),
        (gemma3(), Pictures, "image_std", json!([1.0, 1e-40, 1.0]), "which nothing can be divided by"),
        (gemma3(), Pictures, "image_std", json!([1.0, 0.0, 1.0]), "image_std has the deviation 0"),
        (gemma3(), Root, "mm_tokens_per_image", json!(16), "mm_tokens_per_image 16 and image_seq_length 4"),
        (gemma3(), Pictures, "image_seq_length", json!(5), "5 rows of an image are not a square of groups of 8 x 8"),
        (gemma3(), Pictures, "image_seq_length", json!(9), "9 rows of an image are not a square of groups of 8 x 8"),
        (gemma3(), Pictures, "image_seq_length", json!(1_000_000), "1000000 rows of an image"),
        (
            gemma3(),
            Pictures,
            "image_seq_length",
            Value::Null,
            "256 rows of an image are not a square of groups of 8 x 8",
        ),
        (qwen25(), Vision, "hidden_act", json!("gelu"), "hidden_act \"gelu\" instead of \"silu\""),
        (qwen25(), Vision, "model_type", json!("qwen2_vl"), "the model_type \"qwen2_vl\""),
        (qwen25(), Pictures, "merge_size", json!(4), "merge_size 4 of images instead of 2"),
        (qwen25(), Pictures, "patch_size", json!(7), "patch_size 7 of images instead of 14"),
        (qwen3(), Vision, "hidden_act", json!("silu"), "hidden_act \"silu\" instead of \"gelu_pytorch_tanh\""),
        (qwen3(), Vision, "model_type", json!("siglip"), "the model_type \"siglip\""),
        (qwen3(), Pictures, "temporal_patch_size", json!(1), "temporal_patch_size 1 of images instead of 2"),
        (pixtral(2), Root, "projector_hidden_act", json!("relu"), "projector_hidden_act \"relu\" instead of \"gelu\""),
        (pixtral(2), Root, "projector_hidden_act", json!(5), "projector_hidden_act is 5, not a text"),
        (pixtral(2), Root, "vision_feature_layer", json!(-2), "features of layer 2 of 3"),
        (
            pixtral(2),
            Root,
            "vision_feature_layer",
            json!("x"),
            "vision_feature_layer is \"x\", not the number of a layer",
        ),
        (pixtral(2), Text, "rms_norm_eps", json!(0.01), "rms_norm_eps 0.01 instead of 0.00001"),
        (
            pixtral(2),
            Vision,
            "rope_parameters",
            json!({"rope_type": "linear", "factor": 4.0}),
            "of the kind \"linear\"",
        ),
        (
            pixtral(2),
            Vision,
            "rope_parameters",
            json!({"rope_theta": "x"}),
            "rope_parameters.rope_theta is \"x\", not a",
        ),
        (pixtral(2), Vision, "rope_parameters", json!([1]), "vision_config.rope_parameters is [1], not an object"),
        (pixtral(2), Vision, "rope_scaling", json!({"type": "yarn"}), "rope_scaling of the kind \"yarn\""),
        (pixtral(2), Pictures, "size", json!({"longest_edge": 48}), "of images instead of 96"),
        (pixtral(2), Pictures, "patch_size", json!({"height": 14, "width": 14}), "of images instead of 4"),
        (gemma4(), Vision, "rope_parameters", json!({"rope_theta": 1000.0}), "rope_theta 1000 instead of 100"),
        (gemma4(), Vision, "model_type", json!("siglip_vision_model"), "the model_type \"siglip_vision_model\""),
        (gemma4(), Pictures, "max_soft_tokens", json!(1120), "max_soft_tokens 1120 of images instead of 280"),
        (gemma4(), Pictures, "pooling_kernel_size", json!(4), "pooling_kernel_size 4 of images instead of 3"),
        (gemma4(), Pictures, "patch_size", json!(4), "patch_size 4 of images instead of 2"),
        (llava(&[]), Pictures, "crop_size", json!({"height": 12, "width": 12}), "of images instead of 24"),
        (llava(&[]), Vision, "hidden_act", tanh, "the activation \"gelu_pytorch_tanh\""),
        (
            llava(&[24, 48]),
            Pictures,
            "image_grid_pinpoints",
            json!([[24, 72]]),
            "other image_grid_pinpoints in preproc",
        ),
    ] {
        refused(&with(spec, place, key, value), expected);
    }
}

#[test]
fn settings_with_the_values_of_published_models_are_accepted() {
    for (spec, place, key, value) in [
        (gemma3(), Vision, "hidden_act", json!("gelu_pytorch_tanh")),
        (gemma3(), Vision, "model_type", Value::Null),
        (gemma3(), Pictures, "size", json!({"height": 24, "width": 24})),
        (gemma3(), Root, "mm_tokens_per_image", json!(4)),
        (qwen25(), Vision, "model_type", json!("qwen2_5_vl_vision")),
        (qwen25(), Pictures, "merge_size", json!(2)),
        (qwen3(), Vision, "model_type", json!("qwen3_vl_vision")),
        (pixtral(2), Root, "projector_hidden_act", json!("gelu")),
        (pixtral(2), Root, "vision_feature_layer", json!([-1])),
        (pixtral(2), Root, "vision_feature_layer", json!(3)),
        (pixtral(2), Text, "rms_norm_eps", json!(1e-5)),
        (pixtral(2), Vision, "rope_parameters", json!({"rope_type": "axial", "rope_theta": 10000.0})),
        (pixtral(2), Pictures, "patch_size", json!({"height": 8, "width": 8})),
        (gemma4(), Vision, "rope_parameters", json!({"rope_type": "default", "rope_theta": 100})),
        (gemma4(), Pictures, "max_soft_tokens", json!(280)),
        (llava(&[]), Pictures, "crop_size", json!(24)),
        (llava(&[]), Pictures, "size", json!({"shortest_edge": 24})),
        (llava(&[]), Root, "vision_feature_layer", json!([-2])),
        (llava(&[24, 48]), Pictures, "image_grid_pinpoints", json!([[48, 24]])),
    ] {
        let files = with(spec, place, key, value.clone());
        assert_eq!(converted(&files, FileType::F16).map(drop), Ok(()), "{key} {value}");
    }
}

#[test]
fn pictures_that_are_not_normalised_have_no_mean() {
    let pictures = |value: Value| {
        let files = changed(checkpoint(&gemma3()).files, PREPROCESSOR, |all| {
            all["do_normalize"] = value;
            all["image_mean"] = json!([0.1, 0.2, 0.3]);
        });
        let file = converted(&files, FileType::F16).expect("a valid checkpoint");
        let gguf = Gguf::parse(&file).expect("a valid file");
        let colors = |key: &str| gguf.metadata().f32s(key).expect("numbers").expect("three numbers").to_vec();
        ["clip.vision.image_mean", "clip.vision.image_std"].map(colors)
    };
    assert_eq!(pictures(json!(true)), [vec![0.1, 0.2, 0.3], vec![0.5; 3]], "the settings");
    assert_eq!(pictures(json!(false)), [vec![0.0; 3], vec![1.0; 3]], "colors between 0 and 1");
}

#[test]
fn rows_of_an_image_of_gemma_3_are_those_of_the_config() {
    let mut with_rows = checkpoint(&gemma3()).files;
    with_rows.retain(|(name, _)| name != PREPROCESSOR);
    let settings = json!({"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]});
    with_rows.push((PREPROCESSOR.to_owned(), settings.to_string().into_bytes()));
    let files = changed(with_rows, CONFIG, |all| all["mm_tokens_per_image"] = json!(16));
    let file = converted(&files, FileType::F16).expect("a valid checkpoint");
    let group = Gguf::parse(&file).expect("a valid file").metadata().u32("clip.vision.projector.scale_factor");
    assert_eq!(group, Ok(Some(2)), "4 x 4 rows of 8 x 8 patches");
}

#[test]
fn tensors_that_the_config_switches_off_are_left_out() {
    let names = |key: &str, value: Value| {
        let file = converted(&with(gemma4(), Vision, key, value), FileType::F16).expect("a valid checkpoint");
        let gguf = Gguf::parse(&file).expect("a valid file");
        gguf.tensors().iter().map(|tensor| tensor.name.clone()).collect::<Vec<String>>()
    };
    for value in [json!(false), Value::Null] {
        let found = names("standardize", value.clone());
        assert!(!found.iter().any(|name| name.starts_with("v.std_")), "standardize {value}: {found:?}");
        assert!(found.iter().any(|name| name.ends_with("_min")), "standardize {value}: limits are another setting");
        let found = names("use_clipped_linears", value.clone());
        assert!(!found.iter().any(|name| name.ends_with("_min")), "use_clipped_linears {value}: {found:?}");
        assert!(found.iter().any(|name| name.starts_with("v.std_")), "use_clipped_linears {value}: the other setting");
    }
}

#[test]
fn names_and_defaults_of_newer_and_older_transformers_are_read() {
    for spec in [gemma3(), llava(&[24, 48])] {
        let mut files = checkpoint(&spec).files;
        let expected = converted(&open(&files), FileType::F32).expect("a valid checkpoint");
        // The names have another length, so the headers are written again.
        for (name, contents) in &mut files {
            if name.ends_with(".json") {
                let text = String::from_utf8(contents.clone()).expect("JSON");
                *contents = text.replace("vision_tower.vision_model.", "model.vision_tower.").into_bytes();
            } else if name.ends_with(".safetensors") {
                let length = u64::from_le_bytes(contents[..8].try_into().expect("eight bytes")) as usize;
                let header = String::from_utf8(contents[8..8 + length].to_vec()).expect("JSON");
                let header = header.replace("vision_tower.vision_model.", "model.vision_tower.").into_bytes();
                *contents = [&(header.len() as u64).to_le_bytes()[..], &header, &contents[8 + length..]].concat();
            }
        }
        let found = converted(&open(&files), FileType::F32);
        assert!(found == Ok(expected), "{}: names without vision_model", spec.architecture);
    }
    let missing = |spec: CheckpointSpec, key: &str, expected: &str| {
        let files = changed(checkpoint(&spec).files, CONFIG, |all| {
            drop(all["vision_config"].as_object_mut().unwrap().remove(key))
        });
        refused(&files, expected);
    };
    missing(gemma3(), "patch_size", "vision_config.image_size is 24, not a multiple of patch_size 16");
}

#[test]
fn biases_of_projectors_are_those_that_the_config_declares() {
    let names = |spec: CheckpointSpec, value: Value| {
        let file = converted(&with(spec, Root, "multimodal_projector_bias", value), FileType::F16).expect("valid");
        let gguf = Gguf::parse(&file).expect("a valid file");
        gguf.tensors().iter().filter(|tensor| tensor.name.starts_with("mm.") && tensor.name.ends_with(".bias")).count()
    };
    for (spec, value, expected) in [
        (llava(&[]), Value::Null, 2),
        (llava(&[]), json!(true), 2),
        (llava(&[]), json!(false), 0),
        (pixtral(2), Value::Null, 0),
        (pixtral(2), json!(true), 2),
        (pixtral(2), json!(false), 0),
    ] {
        assert_eq!(names(spec.clone(), value.clone()), expected, "{}: {value}", spec.architecture);
    }
}

#[test]
fn declared_tower_without_tensors_is_a_warning() {
    let spec = CheckpointSpec { tower: None, ..gemma3() };
    let declared = |section: Value| {
        let files = changed(checkpoint(&spec).files, CONFIG, |all| all["vision_config"] = section);
        let conversion = Conversion::new(&files, FileType::F16).expect("a valid checkpoint");
        conversion.left_out().map(str::to_owned)
    };
    assert_eq!(declared(Value::Null), None, "a model of text");
    let warning = declared(json!({"hidden_size": 24})).expect("a tower is missing");
    assert!(warning.contains("config.json has a vision_config, but the files have no tensors"), "{warning}");
}

#[test]
fn texts_of_a_config_are_limited_in_errors() {
    let long = "\u{1b}".repeat(140_000);
    let list = json!(vec![long.clone(); 2]);
    for (spec, place, key) in [
        (gemma3(), Vision, "hidden_act"),
        (gemma3(), Vision, "model_type"),
        (gemma3(), Vision, "image_size"),
        (gemma3(), Vision, "layer_norm_eps"),
        (gemma3(), Pictures, "size"),
        (gemma3(), Pictures, "do_rescale"),
        (qwen25(), Vision, "fullatt_block_indexes"),
        (pixtral(2), Root, "projector_hidden_act"),
        (pixtral(2), Vision, "rope_parameters"),
        (pixtral(2), Vision, "hidden_act"),
        (gemma4(), Vision, "hidden_activation"),
        (gemma4(), Text, "use_bidirectional_attention"),
        (llava(&[]), Vision, "hidden_act"),
        (llava(&[]), Root, "vision_feature_layer"),
        (llava(&[]), Root, "architectures"),
        (gemma3(), Text, "hidden_activation"),
    ] {
        for value in [json!(long), list.clone()] {
            let error = converted(&with(spec.clone(), place, key, value), FileType::F16).expect_err(key);
            assert!(error.len() < 5000, "{key}: the error has {} bytes", error.len());
            assert!(!error.contains('\u{1b}'), "{key}: control characters are escaped");
        }
    }
    let name = format!("vision_tower.{long}");
    let files = open(&with_tensor(checkpoint(&gemma3()).files, &name));
    let error = converted(&files, FileType::F16).expect_err("an unknown tensor");
    assert!(error.len() < 5000 && !error.contains('\u{1b}'), "the error has {} bytes", error.len());
}

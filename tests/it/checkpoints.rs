//! Conversion of checkpoints: compares converted files with those of llama.cpp's converter, recorded by `cargo xtask convert
//! --record`, and logits with those of the same weights in a GGUF file.

use std::path::Path;

use cairn_convert::{Conversion, FileType};
use cairn_gguf::Gguf;
use cairn_models::{Adapter, ModelFile};
use cairn_testkit::checkpoint::{AdaptedCheckpoint, AdapterSpec, adapter, checkpoint};
use it::checkpoints::{self, Case, NOT_RECORDED};
use it::evaluate::{self, Evaluator};
use serde_json::json;

/// Tokens of the prompt: more than a window and a page.
const PROMPT_TOKENS: u32 = 130;

fn open(path: &Path, file: &[u8]) -> ModelFile {
    std::fs::write(path, file).expect("the folder is writable");
    ModelFile::open(path).expect("the file is valid")
}

/// Computes the logits of all positions of a prompt with a file's model.
fn logits(path: &Path, file: &[u8]) -> Vec<f32> {
    adapted_logits(path, file, &[])
}

/// As [`logits`], with adapters.
fn adapted_logits(path: &Path, file: &[u8], adapters: &[Adapter]) -> Vec<f32> {
    let model = open(path, file);
    let variants = cairn_kernels::usable(&cairn_hardware::Machine::probe().cpu.features);
    let backend = evaluate::cpu(variants[0], 2).expect("threads start");
    let rows = PROMPT_TOKENS as usize;
    let mut evaluator = Evaluator::with_adapters(&model, adapters, backend, rows).expect("the model loads");
    let prompt: Vec<u32> = (0..PROMPT_TOKENS).map(|at| (at * 37 + 11) % 256).collect();
    evaluator.logits(&prompt).expect("the prompt is computed")
}

#[test]
fn checkpoints_are_converted_as_by_llama_cpp() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for Case { name, spec, target } in checkpoints::all() {
        let files = checkpoints::open(&checkpoint(&spec).files, folder.path()).expect("files");
        let all = checkpoints::convert_all(name, &files, target).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        assert_eq!(all.len(), if spec.tower.is_some() { 2 } else { 1 }, "{name}: a file of the tower");
        for (name, converted) in all {
            let ours = checkpoints::describe(&name, &converted).expect("a valid file");
            let theirs = checkpoints::recorded(&name).expect("the recording exists");
            assert_eq!(theirs.is_empty(), NOT_RECORDED.contains(&name.as_str()), "{name} is recorded");
            if theirs.is_empty() {
                continue;
            }
            let lines = ours.difference(&theirs).map(|line| format!("ours:      {line}"));
            let lines: Vec<String> =
                lines.chain(theirs.difference(&ours).map(|line| format!("llama.cpp: {line}"))).collect();
            assert!(lines.is_empty(), "{name}:\n{}", lines.join("\n"));
        }
        for (file, _) in checkpoint(&spec).files {
            std::fs::remove_file(folder.path().join(file)).expect("the folder is writable");
        }
    }
}

#[test]
fn converted_models_give_the_same_logits_to_the_bit() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // The converter computes the factors of Llama 3 in f32, as llama.cpp's does, and the generator in f64.
    // Encoders compute vectors of texts.
    let has_same_logits = |case: &Case| {
        let family = case.spec.model.family.name;
        case.name != "llama-llama3" && !cairn_models::is_encoder(family)
    };
    for Case { name, spec, .. } in checkpoints::all().into_iter().filter(has_same_logits) {
        let made = checkpoint(&spec);
        let files = checkpoints::open(&made.files, folder.path()).expect("files");
        let converted = checkpoints::convert(&files, FileType::F32).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        let expected = logits(&folder.path().join("expected.gguf"), &made.model);
        let found = logits(&folder.path().join("found.gguf"), &converted);
        let differs = expected.iter().zip(&found).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
        assert_eq!((found.len(), differs), (expected.len(), 0), "{name}: logits that differ");
    }
}

#[test]
fn converted_adapters_give_the_logits_of_merged_checkpoints() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (rank, alpha) = (4, 6.0);
    let spec = AdapterSpec {
        config: json!({"r": rank, "lora_alpha": alpha}),
        rank: |_| 4,
        scale: |_| 1.5,
        changes: |module| module.ends_with("_proj") && !module.contains("experts"),
        seed: 3,
    };
    for name in ["llama", "mixtral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "granite", "gpt-oss"] {
        let case = checkpoints::all().into_iter().find(|case| case.name == name).expect("a case");
        let files = checkpoint(&case.spec).files;
        let AdaptedCheckpoint { adapter, merged } = adapter(&files, &spec);
        let convert = |files: &[(String, Vec<u8>)]| {
            let files = checkpoints::open(files, folder.path()).expect("files");
            checkpoints::convert(&files, FileType::F32).unwrap_or_else(|error| panic!("{name}: {error:#}"))
        };
        let (base, merged) = (convert(&files), convert(&merged));
        let files = checkpoints::open(&adapter, folder.path()).expect("files");
        let head = Gguf::parse(&base).expect("a valid file");
        let conversion = Conversion::of_adapter(&files, &head).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut converted = Vec::new();
        conversion.write_to(&mut converted, &mut |_| ()).expect("the adapter is written");
        let converted = Adapter::new(open(&folder.path().join("adapter.gguf"), &converted)).expect("an adapter");
        let expected = logits(&folder.path().join("merged.gguf"), &merged);
        let without = logits(&folder.path().join("base.gguf"), &base);
        let found = adapted_logits(&folder.path().join("base.gguf"), &base, &[converted]);
        let range = expected.iter().fold(0f32, |most, x| most.max(x.abs()));
        let distance = |other: &[f32]| expected.iter().zip(other).fold(0f32, |most, (a, b)| most.max((a - b).abs()));
        assert!(distance(&found) < 1e-2 * range, "{name}: {} of {range}", distance(&found));
        assert!(distance(&without) > 5e-2 * range, "{name}: the adapter changes the logits");
    }
}

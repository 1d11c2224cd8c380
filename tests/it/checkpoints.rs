//! Conversion of checkpoints: compares converted files with those of llama.cpp's converter, recorded by `cargo xtask convert
//! --record`, and logits with those of the same weights in a GGUF file.

use std::path::Path;

use cairn_convert::FileType;
use cairn_models::ModelFile;
use cairn_testkit::checkpoint::checkpoint;
use it::checkpoints::{self, Case};
use it::evaluate::{self, Evaluator};

/// Tokens of the prompt: more than a window and a page.
const PROMPT_TOKENS: u32 = 130;

/// Computes the logits of all positions of a prompt with a file's model.
fn logits(path: &Path, file: &[u8]) -> Vec<f32> {
    std::fs::write(path, file).expect("the folder is writable");
    let model = ModelFile::open(path).expect("the file is valid");
    let variants = cairn_kernels::usable(&cairn_hardware::Machine::probe().cpu.features);
    let backend = evaluate::cpu(variants[0], 2).expect("threads start");
    let mut evaluator = Evaluator::new(&model, backend).expect("the model loads");
    let prompt: Vec<u32> = (0..PROMPT_TOKENS).map(|at| (at * 37 + 11) % 256).collect();
    evaluator.logits(&prompt).expect("the prompt is computed")
}

#[test]
fn checkpoints_are_converted_as_by_llama_cpp() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for Case { name, spec, target } in checkpoints::all() {
        let files = checkpoints::open(&checkpoint(&spec).files, folder.path()).expect("files");
        let converted = checkpoints::convert(&files, target).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        let ours = checkpoints::describe(name, &converted).expect("a valid file");
        let theirs = checkpoints::recorded(name).expect("the recording exists");
        assert!(!theirs.is_empty(), "{name} is recorded");
        let lines = ours.difference(&theirs).map(|line| format!("ours:      {line}"));
        let lines: Vec<String> =
            lines.chain(theirs.difference(&ours).map(|line| format!("llama.cpp: {line}"))).collect();
        assert!(lines.is_empty(), "{name}:\n{}", lines.join("\n"));
        for (file, _) in checkpoint(&spec).files {
            std::fs::remove_file(folder.path().join(file)).expect("the folder is writable");
        }
    }
}

#[test]
fn converted_models_give_the_same_logits_to_the_bit() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // The converter computes the factors of Llama 3 in f32, as llama.cpp's does, and the generator in f64.
    for Case { name, spec, .. } in checkpoints::all().into_iter().filter(|case| case.name != "llama-llama3") {
        let made = checkpoint(&spec);
        let files = checkpoints::open(&made.files, folder.path()).expect("files");
        let converted = checkpoints::convert(&files, FileType::F32).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        let expected = logits(&folder.path().join("expected.gguf"), &made.model);
        let found = logits(&folder.path().join("found.gguf"), &converted);
        let differs = expected.iter().zip(&found).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
        assert_eq!((found.len(), differs), (expected.len(), 0), "{name}: logits that differ");
    }
}

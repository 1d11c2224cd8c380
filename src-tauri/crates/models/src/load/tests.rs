//! Checks of models by their heads.

use cairn_testkit::families::ALL;

use super::*;
use crate::tiny::Tiny;

const LIMITS: Limits = Limits { rows: 10, logit_rows: 3 };

#[test]
fn head_has_the_memory_requirements_of_the_file() {
    for family in ALL {
        let tiny = Tiny::from_family(family, 1);
        let bytes = tiny.bytes();
        let data_offset = Gguf::parse(&bytes).expect("the file is whole").data_offset as usize;
        let head = Gguf::parse_header(&bytes[..data_offset], bytes.len() as u64).expect("the head is whole");
        let file = ModelFile::builtin("tiny.gguf", bytes.leak()).expect("the file is whole");
        let expected = memory_requirements(&file, 65, LIMITS, DType::F16).expect("the model is supported");
        let (hparams, found) = check_head(&head, 65, LIMITS, DType::F16).expect("the model is supported");
        assert_eq!((found, hparams.architecture.as_str()), (expected, family.name), "{}", family.name);
    }
}

#[test]
fn head_in_ollamas_layout_is_translated() {
    for equal in cairn_testkit::ollama_layout::decoders() {
        let head = |bytes: &[u8]| compat::translate(Gguf::parse(bytes).expect("the file is whole"));
        let check = |bytes: &[u8]| {
            check_head(&head(bytes).expect("its keys are valid"), 65, LIMITS, DType::F16).expect("it runs").1
        };
        let expected = check(&equal.expected);
        for (architecture, bytes) in &equal.files {
            assert_eq!(check(bytes), expected, "{}: {architecture}", equal.name);
        }
    }
}

#[test]
fn head_with_a_missing_tensor_is_refused() {
    let mut tiny = Tiny::new("llama", 1);
    tiny.tensors.remove("blk.1.ffn_up.weight");
    let bytes = tiny.bytes();
    let head = Gguf::parse(&bytes).expect("the file is whole");
    let error = check_head(&head, 65, LIMITS, DType::F16).expect_err("a tensor is missing").to_string();
    assert!(error.contains("`blk.1.ffn_up.weight` is missing"), "{error}");
}

//! Files in Ollama's layout: the same plan and the same output bits as those of a file that needs no translation, and
//! files with wrong markers.

use cairn_gguf::{Array, DType, Tensor, Value, Writer};
use cairn_tensor::{Limits, Reference};
use cairn_testkit::families;
use cairn_testkit::ollama_layout::{self, EqualFiles};

use super::*;
use crate::file::ModelFile;
use crate::runs::{logits, output_rows};
use crate::{OpenError, load, memory_requirements};

fn open(bytes: &[u8]) -> Result<ModelFile, OpenError> {
    ModelFile::builtin("FILE", bytes.to_vec().leak())
}

fn file(bytes: &[u8]) -> ModelFile {
    open(bytes).expect("the file can be translated")
}

/// Checks that all files have the plan and the output of the expected one.
fn check(equal: &EqualFiles, run: impl Fn(&ModelFile) -> Vec<Vec<f32>>) {
    let EqualFiles { name, expected, files } = equal;
    let bits = |file: &ModelFile| run(file).into_iter().flatten().map(f32::to_bits).collect::<Vec<_>>();
    let facts = |file: &ModelFile| {
        let model = load(file, 4096, &mut Reference::new()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let limits = Limits { rows: 8, logit_rows: 1 };
        let memory = memory_requirements(file, 64, limits, DType::F16).expect("it was loaded");
        (format!("{:?}", model.plan), model.hparams, memory)
    };
    let expected = file(expected);
    assert!(layout_of(expected.gguf()).is_none(), "{name}: the expected file needs no translation");
    let (facts_of_expected, bits_of_expected) = (facts(&expected), bits(&expected));
    assert!(bits_of_expected.iter().any(|&bits| bits << 1 != 0), "{name}: the output is not zero");
    for (architecture, bytes) in files {
        let before = Gguf::parse(bytes).expect("the file is valid GGUF");
        assert_eq!(before.metadata().str("general.architecture"), Ok(Some(*architecture)), "{name}: before");
        let file = file(bytes);
        assert_eq!(facts(&file), facts_of_expected, "{name}: plan, shape and memory of {architecture}");
        assert!(bits(&file) == bits_of_expected, "{name}: another output of {architecture}");
        let count = expected.gguf().tensors().len();
        assert_eq!(file.gguf().tensors().len(), count, "{name}: tensors of vision towers are hidden");
        let again = translate(file.gguf().clone()).expect("it is translated already");
        assert_eq!(again, *file.gguf(), "{name}: a second translation changes nothing");
    }
}

#[test]
fn decoders_in_ollamas_layout_have_the_same_logits() {
    let tokens: Vec<u32> = (0..120).map(|i| i * 7 % 256).collect();
    for equal in ollama_layout::decoders() {
        check(&equal, |file| logits(file, &tokens, 64));
    }
}

#[test]
fn embedding_gemma_in_ollamas_layout_has_the_same_rows() {
    let texts = [(0..90).map(|i| i * 5 % 256).collect(), vec![3, 1, 2]];
    check(&ollama_layout::embedding_gemma(), |file| output_rows(file, &texts));
}

#[test]
fn file_of_a_family_is_not_translated() {
    let specs = families::ALL.iter().map(|&family| cairn_testkit::tiny(family));
    let encoders = families::ENCODERS.iter().map(|&family| cairn_testkit::tiny_bert(family));
    for spec in specs.chain(encoders) {
        let gguf = Gguf::parse(&cairn_testkit::write(&spec)).expect("a written file is read");
        assert!(matches!(translated(&gguf), Cow::Borrowed(_)), "{}: it is not copied", spec.family.name);
        let same = translate(gguf.clone()).expect("nothing is changed");
        assert_eq!(same, gguf, "{}", spec.family.name);
    }
}

#[test]
fn vocabulary_is_cut_to_the_rows_of_the_embedding() {
    let EqualFiles { files, .. } = ollama_layout::gemma3_with_tower();
    let [(_, bytes)] = files.as_slice() else { panic!("one file") };
    let lengths = |metadata: &Metadata| {
        ["tokens", "scores", "token_type"].map(|list| match metadata.get(&format!("tokenizer.ggml.{list}")) {
            Some(Value::Array(array)) => array.len(),
            other => panic!("{list} is {other:?}"),
        })
    };
    let before = Gguf::parse(bytes).expect("the file is valid GGUF");
    assert_eq!(lengths(before.metadata()), [321; 3], "a token for images");
    let file = file(bytes);
    assert_eq!(lengths(file.gguf().metadata()), [320; 3], "only tokens with an embedding");
    let template = file.gguf().metadata().str("tokenizer.chat_template").expect("it is a text");
    assert!(template.is_some_and(|template| template.contains("<start_of_turn>model")), "Gemma's turns");
    assert!(matches!(translated(&before), Cow::Owned(head) if head == *file.gguf()), "the same head for lists");
}

#[test]
fn pre_tokenizer_of_gpt_oss_is_replaced() {
    let (bytes, gguf) = head(ollama_layout::gpt_oss());
    let pre = |gguf: &Gguf| gguf.metadata().str("tokenizer.ggml.pre").map(|pre| pre.map(str::to_owned));
    assert_eq!(pre(&gguf), Ok(Some("default".to_owned())), "the file names none");
    assert_eq!(pre(file(&bytes).gguf()), Ok(Some("gpt-4o".to_owned())), "that of the family");
}

/// Creates a file with metadata and without tensors.
fn metadata_file(entries: &[(&str, Value)]) -> Vec<u8> {
    let mut writer = Writer::default();
    for (key, value) in entries {
        writer.set(*key, value.clone());
    }
    writer.finish()
}

/// The vocabulary of Llama 3, of which only two tokens matter.
fn llama3(eos: u32, pre: Option<&str>) -> Vec<(&'static str, Value)> {
    let token = |id: u32| match id {
        128_006 => "<|start_header_id|>".to_owned(),
        128_009 => "<|eot_id|>".to_owned(),
        _ => format!("t{id}"),
    };
    let tokens: Vec<String> = (0..128_256).map(token).collect();
    let mut entries = vec![
        ("general.architecture", Value::from("llama")),
        ("tokenizer.ggml.tokens", tokens.into()),
        ("tokenizer.ggml.eos_token_id", eos.into()),
    ];
    entries.extend(pre.map(|pre| ("tokenizer.ggml.pre", pre.into())));
    entries
}

#[test]
fn early_file_of_llama3_ends_turns() {
    let check = |eos: u32, pre: Option<&str>, expected: [Option<u32>; 2]| {
        let file = file(&metadata_file(&llama3(eos, pre)));
        let metadata = file.gguf().metadata();
        let id = |role: &str| metadata.u32(&format!("tokenizer.ggml.{role}_token_id")).expect("it is an id");
        assert_eq!([id("eos"), id("eot")], expected, "{eos} {pre:?}");
        assert_eq!(metadata.str("tokenizer.ggml.pre"), Ok(Some("llama-bpe")), "{eos} {pre:?}");
    };
    let turn = Some(128_009);
    check(128_001, Some("llama-bpe"), [turn, turn]);
    check(128_008, None, [turn, turn]);
    check(128_008, Some("default"), [turn, turn]);
    check(128_008, Some("llama-bpe"), [Some(128_008), None]);
}

#[test]
fn other_vocabulary_of_llama_is_unchanged() {
    for without in ["<|eot_id|>", "<|start_header_id|>"] {
        let mut entries = llama3(128_001, None);
        if let (_, Value::Array(Array::String(tokens))) = &mut entries[1] {
            *tokens = tokens.iter().map(|token| if token == without { "x" } else { token }).collect();
        }
        let file = file(&metadata_file(&entries));
        assert_eq!(file.gguf().metadata().get("tokenizer.ggml.pre"), None, "without {without}");
    }
}

#[test]
fn table_of_snowflake_is_decoded() {
    let table = |text: &str| {
        let characters: Vec<String> = text.chars().map(String::from).collect();
        [
            ("general.architecture", Value::from("bert")),
            ("tokenizer.ggml.model", "t5".into()),
            ("tokenizer.ggml.precompiled_charsmap", characters.into()),
        ]
    };
    let check = |text: &str, expected: &[u8]| {
        let file = file(&metadata_file(&table(text)));
        let decoded = file.gguf().metadata().get("tokenizer.ggml.precompiled_charsmap");
        assert_eq!(decoded, Some(&Value::from(expected.to_vec())), "{text}");
    };
    check("", &[]);
    check("Zg==", b"f");
    check("Zm9vYmE=", b"fooba");
    check("+/+/AP8A", &[0xfb, 0xff, 0xbf, 0, 0xff, 0]);
    let error = open(&metadata_file(&table("Zm9-"))).expect_err("a character of another alphabet");
    let text = "FILE: a file in Ollama's layout of Snowflake Arctic Embed 2: metadata key \
                `tokenizer.ggml.precompiled_charsmap`: element 3 is not one character of Base64";
    assert_eq!(error.to_string(), text, "the error has key and position");
}

/// Returns the head of a file in Ollama's layout, to be changed.
fn head(equal: EqualFiles) -> (Vec<u8>, Gguf) {
    let (_, bytes) = equal.files.into_iter().next_back().expect("the last file is in Ollama's layout");
    let gguf = Gguf::parse(&bytes).expect("the file is valid GGUF");
    (bytes, gguf)
}

/// Writes a file with changed metadata, without some tensors and with others of zeros.
fn rewritten(
    equal: EqualFiles,
    set: &[(&str, Value)],
    without: &[&str],
    zeros: &[(&str, &[u64])],
) -> Result<ModelFile, OpenError> {
    let (bytes, gguf) = head(equal);
    let mut writer = Writer::default();
    for (key, value) in gguf.metadata().iter() {
        writer.set(key, value.clone());
    }
    for (key, value) in set {
        writer.set(*key, value.clone());
    }
    for tensor in gguf.tensors().iter().filter(|tensor| !without.contains(&tensor.name.as_str())) {
        let range = tensor.offset as usize..(tensor.offset + tensor.bytes) as usize;
        writer.tensor(&tensor.name, tensor.dtype, &tensor.dims, &bytes[range]).expect("a parsed tensor is valid");
    }
    for (name, dims) in zeros {
        let count = DType::F32.row_bytes(dims.iter().product::<u64>() as usize);
        writer.tensor(*name, DType::F32, dims, vec![0; count]).expect("the names are new");
    }
    open(&writer.finish())
}

#[track_caller]
fn check_open(equal: EqualFiles, set: &[(&str, Value)], zeros: &[(&str, &[u64])], expected: &str) {
    let error = rewritten(equal, set, &[], zeros).expect_err(expected).to_string();
    assert_eq!(error, format!("FILE: a file in Ollama's layout of {expected}"), "the error of opening");
}

#[test]
fn key_of_wrong_type_is_refused_by_name() {
    let text = Value::from("1e6");
    let error = "Gemma 3: metadata key `gemma3.context_length`: expected u32, found string";
    check_open(ollama_layout::gemma3_with_tower(), &[("gemma3.context_length", text.clone())], &[], error);
    let sections = |sections: Value| [("qwen25vl.rope.mrope_section", sections)];
    let error = "Qwen 2.5 VL: metadata key `qwen2vl.rope.mrope_section`: expected array of i32, found string";
    check_open(ollama_layout::qwen25vl(), &sections(text.clone()), &[], error);
    let error = "Qwen 2.5 VL: metadata key `qwen2vl.rope.mrope_section`: 5 sections; supported are at most 4";
    check_open(ollama_layout::qwen25vl(), &sections(vec![2i32, 2, 2, 2, 2].into()), &[], error);
    let fault = "metadata key `mistral3.attention.temperature_scale`: expected f32, found string";
    check_load(rewritten(ollama_layout::mistral3(), &[("mistral3.rope.scaling_beta", text)], &[], &[]), fault);
    let four = rewritten(ollama_layout::qwen25vl(), &sections(vec![2i32, 2, 2, 2].into()), &[], &[]);
    check_load(four, "a rotation by a fourth component of positions is not supported");
}

#[test]
fn tensor_under_both_names_is_refused() {
    let (bytes, gguf) = head(ollama_layout::gpt_oss());
    let twice = [("blk.0.attn_output.weight", [64u64, 64].as_slice())];
    let error = rewritten(ollama_layout::gpt_oss(), &[], &[], &twice).expect_err("two tensors get one name");
    let start = "FILE: a file in Ollama's layout of gpt-oss: tensor `blk.0.attn_output.weight` is repeated at offset ";
    assert!(error.to_string().starts_with(start), "{error}");
    assert!(gguf.tensor("blk.0.attn_out.weight").is_some() && open(&bytes).is_ok(), "one of them is fine");
}

#[track_caller]
fn check_load(opened: Result<ModelFile, OpenError>, expected: &str) {
    let file = opened.expect("the head can be translated");
    let error: LoadError = load(&file, 4096, &mut Reference::new()).expect_err(expected);
    assert_eq!(error.to_string(), expected, "the error of loading");
}

#[test]
fn missing_and_misshaped_tensors_of_a_layout_are_reported() {
    let one = |fault: &str| format!("1 tensor does not fit the model: {fault}");
    let without = |equal, name: &str| rewritten(equal, &[], &[name], &[]);
    let missing = one("`blk.1.attn_output.weight` is missing");
    check_load(without(ollama_layout::gpt_oss(), "blk.1.attn_out.weight"), &missing);
    let missing = one("`blk.0.attn_sinks.weight` is missing");
    check_load(without(ollama_layout::gpt_oss(), "blk.0.attn_sinks"), &missing);
    let missing = one("`token_embd.weight` is missing");
    check_load(without(ollama_layout::gemma3_with_tower(), "token_embd.weight"), &missing);
    let short = [("norm.weight", [63u64].as_slice())];
    let shape = one("`output_norm.weight` must be [64], is [63]");
    check_load(rewritten(ollama_layout::embedding_gemma(), &[], &["norm.weight"], &short), &shape);
    let wide = [("dense.1.weight", [47u64, 64].as_slice())];
    let shape = one("`dense_3.weight` must be [48, 64], is [47, 64]");
    check_load(rewritten(ollama_layout::embedding_gemma(), &[], &["dense.1.weight"], &wide), &shape);
    // Markers of a vision tower in a file without one.
    let plain = rewritten(ollama_layout::gemma3_text(), &[("gemma3.mm.tokens_per_image", 256u32.into())], &[], &[]);
    assert!(load(&plain.expect("it has no tower"), 4096, &mut Reference::new()).is_ok(), "text needs no tower");
}

/// Extreme values of keys of all layouts give an error or a model, never a panic.
#[test]
fn extreme_keys_of_layouts_never_panic() {
    for equal in ollama_layout::decoders().into_iter().chain([ollama_layout::embedding_gemma()]) {
        let (bytes, gguf) = head(equal);
        let prefix = format!("{}.", gguf.metadata().required_str("general.architecture").expect("it has one"));
        let keys = gguf.metadata().iter().map(|(key, _)| key).filter(|key| key.starts_with(&prefix));
        for key in keys {
            for number in [0u32, 1, 3, u32::MAX] {
                let floats = [number as f32, -(number as f32), f32::NAN].map(Value::from);
                for value in floats.into_iter().chain([number.into(), vec![number].into(), "".into()]) {
                    let set = |metadata: &mut Metadata, _: &mut Vec<Tensor>| {
                        metadata.set(key, value.clone());
                        Ok::<_, LoadError>(())
                    };
                    let changed = gguf.clone().try_change(set).expect("tensors are unchanged");
                    if let Ok(translated) = translate(changed) {
                        let inside = |tensor: &Tensor| tensor.offset + tensor.bytes <= bytes.len() as u64;
                        assert!(translated.tensors().iter().all(inside), "{key}: tensors stay inside the file");
                    }
                }
            }
        }
    }
}

#[test]
fn mistral3_without_growth_names_its_pre_tokenizer() {
    let zero = [("mistral3.rope.scaling_beta", 0f32.into())];
    let file = rewritten(ollama_layout::mistral3(), &zero, &[], &[]).expect("the head can be translated");
    assert_eq!(file.gguf().metadata().str("tokenizer.ggml.pre"), Ok(Some("tekken")), "its pre-tokenizer");
    let model = load(&file, 4096, &mut Reference::new()).expect("the model is whole");
    assert!(model.plan.ropes.iter().all(|rope| rope.growth.is_none()), "queries do not grow: {:?}", model.plan.ropes);
}

#[test]
fn layers_of_qwen3_vl_that_get_rows_of_images_are_counted() {
    let (bytes, _) = head(ollama_layout::qwen3vl());
    let file = file(&bytes);
    let key = |key: &str| file.gguf().metadata().get(&format!("qwen3vl.{key}")).cloned();
    assert_eq!(key("n_deepstack_layers"), Some(2u32.into()), "the length of the list");
    assert_eq!(key("rope.dimension_sections"), Some(vec![24i32, 20, 20, 0].into()), "those of all models");
}

#[test]
fn tokens_of_gemma3n_get_types_and_turns_end() {
    let text = |byte: &str| byte.to_owned();
    let tokens: Vec<String> = ["a", "<unused7>", "<0x0A>", "<0x0A"].map(text).into();
    let rows = |count: u64| Tensor {
        name: String::new(),
        dtype: DType::F32,
        dims: vec![4, count],
        offset: 0,
        bytes: 16 * count,
        part: 0,
    };
    let mut tensors = vec![
        Tensor { name: "token_embd.weight".to_owned(), ..rows(5) },
        Tensor { name: "per_layer_token_embd.weight".to_owned(), ..rows(4) },
    ];
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", "gemma3n");
    metadata.set("tokenizer.ggml.tokens", tokens);
    metadata.set("tokenizer.ggml.token_type", vec![1i32, 5, 1, 1]);
    metadata.set("tokenizer.ggml.eos_token_ids", vec![3i32]);
    gemma3n::GEMMA3N.translate(&mut metadata, &mut tensors).expect("the head can be translated");
    assert_eq!(metadata.i32s("tokenizer.ggml.token_type"), Ok(Some(vec![1, 1, 6, 1])), "bytes and unused tokens");
    assert_eq!(metadata.i32s("tokenizer.ggml.eos_token_ids"), Ok(Some(vec![3, 106])), "the file's and that of a turn");
    let sizes: Vec<(u64, u64)> = tensors.iter().map(|tensor| (tensor.dims[1], tensor.bytes)).collect();
    assert_eq!(sizes, [(4, 64), (4, 64)], "both tables have as many rows");
}

#[test]
fn model_that_cannot_run_is_refused_by_name() {
    let check = |architecture: &str, expected: &str| {
        let file = file(&metadata_file(&[("general.architecture", architecture.into())]));
        let error = load(&file, 1, &mut Reference::new()).expect_err("it is not supported").to_string();
        assert!(error.starts_with(&format!("{expected} is not supported; supported are ")), "{error}");
    };
    check("mllama", "Llama 3.2 Vision (architecture `mllama`)");
    check("laguna", "Laguna (architecture `laguna`)");
    check("lorem", "architecture `lorem`");
    let families = crate::ARCHITECTURES.iter().chain(crate::ENCODERS).flat_map(|family| family.names());
    for name in families.copied().chain(LAYOUTS.iter().flat_map(|layout| layout.architectures).copied()) {
        assert_eq!(model_of(name), None, "{name} is supported");
    }
}

#[test]
fn every_layout_is_in_the_table() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/compat");
    let mut constants = 0;
    for entry in std::fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        let text = std::fs::read_to_string(&path).expect("sources are text");
        constants +=
            text.lines().filter(|line| line.starts_with("pub(super) const") && line.contains(": Layout")).count();
    }
    assert_eq!(LAYOUTS.len(), constants, "a layout is one constant and one line in `LAYOUTS`");
}

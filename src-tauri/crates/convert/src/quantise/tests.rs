//! Cases beyond the comparison with llama.cpp: numbers of threads, models in several files, values that cannot be encoded, and rules
//! for model families without a test model.

use cairn_testkit::{ModelSpec, Types, tiny_llama};

use super::*;

fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("temporary file");
    file.write_all(bytes).expect("write succeeds");
    file
}

fn small() -> ModelSpec {
    ModelSpec { vocab: 300, ffn: 256, types: Types::All(DType::F16), ..tiny_llama() }
}

fn quantised(files: &[Vec<u8>], head: &Gguf, target: FileType, threads: usize) -> Vec<u8> {
    let files: Vec<File> = files.iter().map(|bytes| file_of(bytes)).collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads start");
    let quantisation = Quantisation::new(head, target).expect("a model of floats");
    let mut out = Vec::new();
    pool.install(|| quantisation.write_to(&files, &mut out, &mut |_| ())).expect("values can be encoded");
    out
}

#[test]
fn output_is_independent_of_threads_and_parts() {
    let file = cairn_testkit::write(&small());
    let head = Gguf::parse(&file).expect("valid GGUF");
    let expected = quantised(std::slice::from_ref(&file), &head, FileType::Q4_K_M, 1);
    assert_eq!(quantised(std::slice::from_ref(&file), &head, FileType::Q4_K_M, 3), expected, "with three threads");

    let parts = cairn_testkit::split(&file, 3);
    let heads = parts
        .iter()
        .zip(1..)
        .map(|(part, number)| (format!("m-{number:05}-of-00003.gguf"), Gguf::parse(part).expect("valid part")));
    let joined = cairn_gguf::split::join(heads.collect()).expect("parts of one model");
    assert_eq!(quantised(&parts, &joined, FileType::Q4_K_M, 2), expected, "from three files");
}

#[test]
fn progress_is_monotonic_and_reaches_the_total() {
    let file = cairn_testkit::write(&small());
    let head = Gguf::parse(&file).expect("valid GGUF");
    let quantisation = Quantisation::new(&head, FileType::Q8_0).expect("a model of floats");
    let mut steps = Vec::new();
    quantisation
        .write_to(&[file_of(&file)], &mut io::sink(), &mut |now| steps.push(now))
        .expect("values can be encoded");
    assert!(steps.is_sorted_by_key(|now| (now.tensor, now.done_bytes)), "{steps:?}");
    let last = steps.last().expect("progress was reported");
    assert_eq!((last.tensor, last.done_bytes), (last.tensors, last.total_bytes), "complete at the end");
    assert_eq!(last.tensors, head.tensors().len(), "all tensors count");
}

/// A file with one matrix and a vector, whose first value is `first`.
fn one_matrix(dtype: DType, first: f32, file_type: u32) -> Vec<u8> {
    let mut values = [0.5; 512];
    values[0] = first;
    let (mut matrix, mut vector) = (Vec::new(), Vec::new());
    dtype.encode(&values, &mut matrix).expect("the type has an encoder");
    DType::F32.encode(&[1.0; 4], &mut vector).expect("F32 has an encoder");
    let mut writer = Writer::default();
    writer.set("general.architecture", "llama").set("general.file_type", file_type);
    writer.tensor("blk.0.ffn_up.weight", dtype, &[256, 2], matrix).expect("valid tensor");
    writer.tensor("blk.0.ffn_norm.weight", DType::F32, &[4], vector).expect("valid tensor");
    writer.finish()
}

fn check_rejected(file: &[u8], target: FileType, expected: &str) {
    let head = Gguf::parse(file).expect("valid GGUF");
    let written = match Quantisation::new(&head, target) {
        Ok(quantisation) => quantisation.write_to(&[file_of(file)], &mut io::sink(), &mut |_| ()),
        Err(error) => Err(invalid(error)),
    };
    assert_eq!(written.expect_err("rejected").to_string(), expected, "as {target}");
}

#[test]
fn unsupported_weights_and_values_are_rejected() {
    let only_floats = "quantization is only supported for F16, BF16 and F32 models";
    check_rejected(&one_matrix(DType::Q8_0, 0.5, 7), FileType::Q4_0, only_floats);
    check_rejected(&one_matrix(DType::Q8_0, 0.5, 1), FileType::Q4_0, only_floats);
    check_rejected(&one_matrix(DType::F16, 0.5, 7), FileType::Q4_0, only_floats);
    let not_finite = "tensor `blk.0.ffn_up.weight` has values that are not finite numbers";
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        check_rejected(&one_matrix(DType::F32, value, 0), FileType::Q4_K_M, not_finite);
        check_rejected(&one_matrix(DType::F32, value, 0), FileType::F32, not_finite);
    }
    let large = one_matrix(DType::F32, 70_000.0, 0);
    check_rejected(&large, FileType::F16, "tensor `blk.0.ffn_up.weight` has values that are too large for F16");
    let larger = one_matrix(DType::F32, 1e30, 0);
    check_rejected(&larger, FileType::Q4_K_M, "tensor `blk.0.ffn_up.weight` has values that are too large for Q4_K");
}

#[test]
fn large_representable_values_are_quantised() {
    let file = one_matrix(DType::F32, 70_000.0, 0);
    let head = Gguf::parse(&file).expect("valid GGUF");
    let out = quantised(std::slice::from_ref(&file), &head, FileType::Q8_0, 1);
    let new = Gguf::parse(&out).expect("valid output");
    let tensor = new.tensor("blk.0.ffn_up.weight").expect("the tensor exists");
    let mut values = [0.0; 512];
    tensor.dtype.decode(&out[tensor.offset as usize..(tensor.offset + tensor.bytes) as usize], &mut values);
    assert!((values[0] - 70_000.0).abs() < 50.0, "70000 is stored as {}", values[0]);
}

#[test]
fn metadata_order_is_kept_with_the_file_type_last() {
    let file = one_matrix(DType::F16, 0.5, 1);
    let head = Gguf::parse(&file).expect("valid GGUF");
    let new = Gguf::parse(&quantised(&[file], &head, FileType::Q6_K, 1)).expect("valid output");
    let keys: Vec<&str> = new.metadata().iter().map(|(key, _)| key).collect();
    let expected = ["general.architecture", "general.quantization_version", "general.file_type"];
    assert_eq!(keys, expected, "llama.cpp's order");
    assert_eq!(new.metadata().u32("general.file_type"), Ok(Some(18)), "number of Q6_K");
}

/// Importance of all columns of a model's matrices, as llama.cpp's older kind of file has it.
fn importance_of(head: &Gguf) -> Importance {
    let mut file = (head.tensors().len() as i32).to_le_bytes().to_vec();
    for tensor in head.tensors() {
        let columns = tensor.dims[0] * tensor.dims.get(2).copied().unwrap_or(1);
        file.extend((tensor.name.len() as i32).to_le_bytes());
        file.extend(tensor.name.as_bytes());
        file.extend(1i32.to_le_bytes());
        file.extend((columns as i32).to_le_bytes());
        file.extend((0..columns).flat_map(|column| (1.0 + (column * column % 97) as f32).to_le_bytes()));
    }
    Importance::parse(&file).expect("valid file")
}

/// Checks the types of F16 tensors with rows of 256. A name that begins with `3d ` is a stacked tensor.
fn check_types(metadata: &[(&str, u32)], architecture: &str, target: FileType, expected: &[(&str, DType)]) {
    let mut writer = Writer::default();
    writer.set("general.architecture", architecture);
    for (key, count) in metadata {
        writer.set(format!("{architecture}.{key}"), *count);
    }
    for (name, _) in expected {
        let (name, dims): (&str, &[u64]) = match name.strip_prefix("3d ") {
            Some(name) => (name, &[256, 2, 2]),
            None => (name, &[256, 4]),
        };
        writer.tensor(name, DType::F16, dims, vec![0; 2048]).expect("valid tensor");
    }
    let file = writer.finish();
    let head = Gguf::parse(&file).expect("valid GGUF");
    let importance = target.needs_importance().then(|| importance_of(&head));
    let quantisation = Quantisation::with_importance(&head, target, importance.as_ref()).expect("a model of floats");
    for (tensor, dtype) in quantisation.tensors() {
        let (_, expected) = expected.iter().find(|(name, _)| name.ends_with(&tensor.name)).expect("no tensor is added");
        assert_eq!(dtype, *expected, "{} of {architecture} as {target}", tensor.name);
    }
}

#[test]
fn quantised_types_follow_rules_of_the_model_family() {
    check_types(
        &[("block_count", 1)],
        "glm5-next",
        FileType::Q4_0,
        &[
            ("output.weight", DType::Q6_K),
            ("blk.0.attn_q_a.weight", DType::Q8_0),
            ("blk.0.attn_k_b.weight", DType::F16),
            ("blk.0.ffn_up.weight", DType::Q4_0),
        ],
    );
    check_types(
        &[("block_count", 1)],
        "bailingmoe3",
        FileType::MXFP4_MOE,
        &[
            ("3d blk.0.ffn_up_exps.weight", DType::MXFP4),
            ("3d blk.0.attn_k_b.weight", DType::Q8_0),
            ("output.weight", DType::Q8_0),
        ],
    );
    check_types(
        &[("block_count", 68)],
        "jais2",
        FileType::Q3_K_S,
        &[("output.weight", DType::Q6_K), ("blk.9.attn_v.weight", DType::Q5_K), ("blk.9.attn_q.weight", DType::Q3_K)],
    );
}

#[test]
fn small_tensors_keep_their_type() {
    check_types(
        &[("block_count", 1)],
        "bert",
        FileType::Q8_0,
        &[
            ("token_embd.weight", DType::Q8_0),
            ("position_embd.weight", DType::F16),
            ("token_types.weight", DType::F16),
            ("blk.0.attn_q.weight", DType::Q8_0),
            ("blk.0.attn_q.bias", DType::F16),
            ("blk.0.attn_q_norm.weight", DType::F16),
            ("blk.0.ffn_gate_inp.weight", DType::F16),
            ("blk.0.ssm_conv1d.weight", DType::F16),
        ],
    );
}

#[test]
fn types_with_importance_follow_their_own_rules() {
    let grouped: &[(&str, u32)] = &[("block_count", 8), ("attention.head_count", 8), ("attention.head_count_kv", 2)];
    let check = |target: FileType, expected: &[(&str, DType)]| check_types(grouped, "llama", target, expected);
    check(
        FileType::IQ2_XXS,
        &[
            ("output.weight", DType::Q5_K),
            ("token_embd.weight", DType::Q2_K),
            ("blk.0.attn_v.weight", DType::Q4_K),
            ("blk.0.attn_q.weight", DType::IQ2_XXS),
            ("blk.0.attn_output.weight", DType::IQ2_XXS),
            ("blk.0.ffn_down.weight", DType::Q2_K),
            ("blk.1.ffn_down.weight", DType::IQ2_XXS),
        ],
    );
    check(
        FileType::IQ1_M,
        &[
            ("output.weight", DType::Q5_K),
            ("blk.0.attn_output.weight", DType::IQ2_XXS),
            ("blk.0.attn_k.weight", DType::IQ1_M),
        ],
    );
    check(
        FileType::IQ2_M,
        &[
            ("output.weight", DType::Q5_K),
            ("token_embd.weight", DType::IQ3_S),
            ("blk.0.attn_output.weight", DType::IQ3_S),
            ("blk.0.ffn_up.weight", DType::IQ2_S),
        ],
    );
    check(
        FileType::IQ3_XS,
        &[
            ("output.weight", DType::Q6_K),
            ("blk.0.attn_k.weight", DType::IQ3_XXS),
            ("blk.0.ffn_gate.weight", DType::IQ3_S),
            ("blk.1.ffn_gate.weight", DType::IQ3_XXS),
            ("blk.7.ffn_down.weight", DType::IQ3_S),
        ],
    );
    check(
        FileType::IQ3_XXS,
        &[
            ("output.weight", DType::Q5_K),
            ("token_embd.weight", DType::IQ3_S),
            ("blk.0.attn_q.weight", DType::IQ2_S),
            ("blk.0.attn_output.weight", DType::IQ3_S),
            ("blk.0.ffn_down.weight", DType::IQ3_XXS),
        ],
    );
    check(
        FileType::Q2_K_S,
        &[
            ("output.weight", DType::Q6_K),
            ("blk.0.ffn_down.weight", DType::Q4_K),
            ("blk.1.ffn_down.weight", DType::Q2_K),
        ],
    );
}

#[test]
fn importance_changes_weights_and_needs_an_entry_for_the_smallest_types() {
    let file = cairn_testkit::write(&small());
    let head = Gguf::parse(&file).expect("valid GGUF");
    let importance = importance_of(&head);
    let weighted = |target: FileType, threads: usize| {
        let quantisation = Quantisation::with_importance(&head, target, Some(&importance)).expect("a model of floats");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads start");
        let mut out = Vec::new();
        pool.install(|| quantisation.write_to(&[file_of(&file)], &mut out, &mut |_| ()))
            .expect("values can be encoded");
        out
    };
    assert_ne!(weighted(FileType::Q4_K_M, 1), quantised(std::slice::from_ref(&file), &head, FileType::Q4_K_M, 1));
    assert_eq!(weighted(FileType::IQ2_XS, 1), weighted(FileType::IQ2_XS, 3), "independent of threads");

    check_rejected(
        &file,
        FileType::IQ2_XXS,
        "IQ2_XXS needs an importance matrix, because so few bits without one give useless weights; pass one with --imatrix \
         (`cairn imatrix` computes it), or use Q2_K or more bits",
    );
    let mut sums = crate::importance::ActivationSums::default();
    sums.add(
        "blk.0.attn_q.weight",
        0,
        1,
        &vec![1.0; head.tensor("blk.0.attn_q.weight").expect("exists").dims[0] as usize],
    );
    let mut bytes = Vec::new();
    sums.write_to("text", 1, 512, &mut bytes).expect("write succeeds");
    let partial = Importance::parse(&bytes).expect("valid file");
    let error =
        Quantisation::with_importance(&head, FileType::IQ2_XXS, Some(&partial)).err().expect("entries are missing");
    assert!(error.to_string().starts_with("the importance matrix has no entry for `blk."), "{error}");
    assert!(
        Quantisation::with_importance(&head, FileType::Q4_K_M, Some(&partial)).is_ok(),
        "other types need no entry"
    );
}

#[test]
fn huge_importance_never_makes_weights_infinite() {
    let file = cairn_testkit::write(&small());
    let head = Gguf::parse(&file).expect("valid GGUF");
    let name = "blk.0.attn_q.weight";
    let columns = head.tensor(name).expect("exists").dims[0] as usize;
    let mut dat = 1i32.to_le_bytes().to_vec();
    dat.extend((name.len() as i32).to_le_bytes());
    dat.extend(name.as_bytes());
    dat.extend(1i32.to_le_bytes());
    dat.extend((columns as i32).to_le_bytes());
    dat.extend((0..columns).flat_map(|_| 1e38f32.to_le_bytes()));
    let importance = Importance::parse(&dat).expect("finite numbers");
    let quantisation = Quantisation::with_importance(&head, FileType::Q4_K_M, Some(&importance)).expect("floats");
    let error = quantisation.write_to(&[file_of(&file)], &mut Vec::new(), &mut |_| ()).expect_err("a sum overflows");
    assert!(error.to_string().contains("too large numbers for `blk.0.attn_q.weight`"), "{error}");
}

#[test]
fn stacked_matrices_have_their_own_importance() {
    let values: Vec<f32> = (0..1024).map(|at| ((at * 37 % 101) as f32 - 50.0) / 50.0).collect();
    let mut bytes = Vec::new();
    DType::F32.encode(&values, &mut bytes).expect("F32 has an encoder");
    let name = "blk.0.ffn_up_exps.weight";
    let mut writer = Writer::default();
    writer.set("general.architecture", "llama");
    writer.tensor(name, DType::F32, &[256, 2, 2], bytes).expect("valid tensor");
    let file = writer.finish();
    let head = Gguf::parse(&file).expect("valid GGUF");
    let inputs =
        [0, 1].map(|matrix| (0..256).map(|at| if at / 128 == matrix { 3.0 } else { 0.1 }).collect::<Vec<f32>>());
    let mut sums = crate::importance::ActivationSums::default();
    inputs.iter().enumerate().for_each(|(matrix, input)| sums.add(name, matrix, 2, input));
    let mut written = Vec::new();
    sums.write_to("text", 1, 512, &mut written).expect("write succeeds");
    let importance = Importance::parse(&written).expect("valid file");
    let quantisation = Quantisation::with_importance(&head, FileType::Q4_K_S, Some(&importance)).expect("floats");
    let mut out = Vec::new();
    quantisation.write_to(&[file_of(&file)], &mut out, &mut |_| ()).expect("values can be encoded");
    let tensor = Gguf::parse(&out).expect("valid output").tensor(name).expect("the tensor exists").clone();
    let mut expected = Vec::new();
    for (row, values) in values.chunks(256).enumerate() {
        let squares: Vec<f32> = inputs[row / 2].iter().map(|x| x * x).collect();
        tensor.dtype.encode_weighted(values, &squares, &mut expected).expect("the type has an encoder");
    }
    assert_eq!(
        out[tensor.offset as usize..(tensor.offset + tensor.bytes) as usize],
        expected,
        "each matrix has its own"
    );
}

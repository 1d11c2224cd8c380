//! Written files depend only on spec and seed, and are read correctly by `gguf`.

use cairn_gguf::Gguf;

use super::*;
use crate::presets::{llama1b_shape, qwen06b_shape, tiny_llama, tiny_qwen3};
use crate::spec::Types;

#[test]
fn seed_determines_every_byte() {
    let spec = ModelSpec { types: Types::Q4KM, ..tiny_qwen3() };
    let file = write(&spec);
    assert_eq!(file, write(&spec), "the same spec gives the same bytes");
    let other = write(&ModelSpec { seed: 99, ..spec });
    assert_eq!(file.len(), other.len(), "another seed changes no size");
    let data = Gguf::parse(&file).expect("a written file is read").data_offset as usize;
    assert_ne!(file[data..], other[data..], "another seed changes the weights");
}

#[test]
fn file_has_keys_and_tensors_of_llama_cpp() {
    for spec in [tiny_llama(), tiny_qwen3()] {
        let gguf = Gguf::parse(&write(&spec)).expect("a written file is read");
        let (metadata, architecture) = (gguf.metadata(), spec.family.name);
        assert_eq!(metadata.required_str("general.architecture"), Ok(architecture), "the family");
        let head_dim = metadata.required_u32(&format!("{architecture}.attention.key_length"));
        assert_eq!(head_dim.map(u64::from), Ok(spec.head_dim), "{architecture}: elements of a head");
        let tokens = metadata.required_strings("tokenizer.ggml.tokens").map(|tokens| tokens.len() as u64);
        assert_eq!(tokens, Ok(spec.vocab), "{architecture}: the vocabulary");
        let dims = |name: &str| gguf.tensor(name).map(|tensor| tensor.dims.clone());
        let query = Some(vec![spec.width, spec.heads * spec.head_dim]);
        assert_eq!(dims("blk.1.attn_q.weight"), query, "{architecture}: elements of a row come first");
        assert_eq!(dims("output.weight").is_none(), spec.tied, "{architecture}: tied or not");
        let head_norm = (architecture == "qwen3").then(|| vec![spec.head_dim]);
        assert_eq!(dims("blk.0.attn_k_norm.weight"), head_norm, "{architecture}: norms over heads");
    }
}

#[test]
fn rope_scaling_is_written_as_key_or_tensor() {
    let linear = ModelSpec { rope_scaling: RopeScaling::Linear(2.0), ..tiny_llama() };
    let gguf = Gguf::parse(&write(&linear)).expect("a written file is read");
    assert_eq!(gguf.metadata().f32("llama.rope.scaling.factor"), Ok(Some(2.0)), "linear: a key");
    let scaling = RopeScaling::Llama3 { factor: 8.0, original_context: 512 };
    let gguf =
        Gguf::parse(&write(&ModelSpec { rope_scaling: scaling, ..tiny_llama() })).expect("a written file is read");
    let dims = gguf.tensor("rope_freqs.weight").map(|tensor| tensor.dims.clone());
    assert_eq!(dims, Some(vec![32]), "llama 3: a tensor");
}

#[test]
fn streamed_file_equals_file_in_memory_for_every_type() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for dtype in DType::all().filter(|dtype| dtype.is_weight()) {
        let spec = ModelSpec { types: Types::All(dtype), ..tiny_llama() };
        let file = write(&spec);
        let gguf = Gguf::parse(&file).expect("a written file is read");
        let query = gguf.tensor("blk.0.attn_q.weight").map(|tensor| tensor.dtype);
        assert_eq!(query, Some(dtype), "matrices have the type");
        let path = folder.path().join(dtype.name());
        write_file(&spec, &path).expect("the file can be written");
        assert!(std::fs::read(&path).expect("it can be read") == file, "{dtype}: both ways give the same bytes");
    }
}

#[test]
fn large_shapes_have_parameter_counts_of_their_models() {
    let weights = |spec: &ModelSpec| {
        let mut head = Vec::new();
        // Only the header is needed, so writing may fail in the data.
        let _ = writer(spec).write_to(&mut Limited(&mut head));
        let gguf = Gguf::parse_header(&head, u64::MAX).expect("the head is whole");
        gguf.tensors().iter().map(|tensor| tensor.elements()).sum::<u64>()
    };
    let llama = weights(&llama1b_shape(Types::Q4KM));
    assert_eq!(llama, 1_235_814_432, "Llama 3.2 1B and its 32 RoPE factors");
    assert_eq!(weights(&qwen06b_shape(Types::All(DType::Q8_0))), 596_049_920, "Qwen3 0.6B");
}

/// Writer that fails after 16 MB, like a full disk.
struct Limited<'a>(&'a mut Vec<u8>);

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() > 16_000_000 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

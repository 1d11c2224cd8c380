//! Checkpoints of models with random weights: folders as they are published on Hugging Face, with safetensors files, configs
//! and a vocabulary.
//!
//! The weights are those of the GGUF file of a [`ModelSpec`], renamed and reordered to the layout of the `transformers`
//! library. So a conversion must give them back. The tables here are independent of the converter's.

mod adapter;
mod config;
mod layout;
mod modules;
mod tokenizer;
mod tower;

use cairn_gguf::{DType, Gguf, Tensor, Writer};
use serde_json::{Map, json};

pub use self::adapter::{AdaptedCheckpoint, AdapterSpec, adapter};
use crate::spec::ModelSpec;
use crate::tower::TowerSpec;

/// Type of the weights in a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// F32, F16 or BF16.
    Float(DType),
    /// 8-bit floats with a scale for each block of this many rows and columns.
    Float8Blocks([u64; 2]),
    /// 8-bit floats with a scale for each row.
    Float8Rows,
}

/// Kind of a checkpoint's vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vocabulary {
    /// Byte-level BPE in `tokenizer.json`.
    Bytes,
    /// SentencePiece in `tokenizer.model`.
    Pieces,
    /// SentencePiece's BPE in `tokenizer.json`.
    Merges,
    /// Byte-level BPE in `tiktoken.model`, with the special tokens of Kimi's tokenizer.
    Tiktoken,
    /// SentencePiece's Unigram in `spiece.model`.
    UnigramPieces,
    /// SentencePiece's Unigram in `tokenizer.json`.
    Unigram,
    /// WordPiece in `tokenizer.json`.
    WordPieces,
}

/// Specification of a checkpoint.
#[derive(Clone, Debug)]
pub struct CheckpointSpec {
    /// The model.
    pub model: ModelSpec,
    /// Entry of `architectures` in `config.json`.
    pub architecture: &'static str,
    /// `model_type` in `config.json`.
    pub model_type: &'static str,
    /// Type of the weights.
    pub storage: Storage,
    /// Kind of the vocabulary.
    pub vocabulary: Vocabulary,
    /// The vision tower, in F32.
    pub tower: Option<TowerSpec>,
}

/// A checkpoint and the model that its conversion to F32 gives.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Names and contents of the files.
    pub files: Vec<(String, Vec<u8>)>,
    /// A GGUF file with the same weights, with the vocabulary of the spec.
    pub model: Vec<u8>,
    /// A GGUF file of the vision tower, with the same weights in F32.
    pub tower: Option<Vec<u8>>,
}

/// A tensor of a safetensors file.
pub(crate) struct SourceTensor {
    pub(crate) name: String,
    pub(crate) dtype: &'static str,
    pub(crate) shape: Vec<u64>,
    pub(crate) bytes: Vec<u8>,
}

/// Creates a checkpoint, in two files of weights.
///
/// # Panics
/// When the family has no checkpoints of this kind.
pub fn checkpoint(spec: &CheckpointSpec) -> Checkpoint {
    let bytes = crate::write(&spec.model);
    let gguf = Gguf::parse(&bytes).expect("the written file is valid");
    let mut writer = Writer::default();
    for (key, value) in gguf.metadata().iter() {
        writer.set(key, value.clone());
    }
    let contents = |tensor: &Tensor| &bytes[tensor.offset as usize..][..tensor.bytes as usize];
    let mut sources = Vec::new();
    for tensor in gguf.tensors() {
        let stored = layout::store(spec, &gguf, tensor, &contents, &mut sources);
        writer.tensor(tensor.name.clone(), stored.0, &tensor.dims, stored.1).expect("the tensors of a valid file");
    }
    if let Some(name) = layout::names::tower(spec.model.family.name) {
        let name = format!("{name}.weight");
        sources.push(SourceTensor { name, dtype: "F32", shape: vec![1, 2], bytes: vec![0; 8] });
    }
    let mut config = config::config(spec, gguf.metadata());
    let mut files = tokenizer::files(spec);
    let tower = spec.tower.as_ref().map(|tower| {
        let (settings, file) = tower::store(tower, &mut config, &mut sources);
        files.push(("preprocessor_config.json".to_owned(), settings.to_string().into_bytes()));
        file
    });
    files.push(("config.json".to_owned(), config.to_string().into_bytes()));
    files.extend(modules::files(spec, gguf.metadata(), &mut sources));
    let half = sources.len() / 2;
    let second = sources.split_off(half);
    let mut map = Map::new();
    for (number, tensors) in [(1, sources), (2, second)] {
        let name = format!("model-{number:05}-of-00002.safetensors");
        map.extend(tensors.iter().map(|tensor| (tensor.name.clone(), name.clone().into())));
        files.push((name, safetensors(&tensors)));
    }
    let index = json!({"metadata": {"total_size": 0}, "weight_map": map});
    files.push(("model.safetensors.index.json".to_owned(), index.to_string().into_bytes()));
    files.sort();
    Checkpoint { files, model: writer.finish(), tower }
}

/// Returns the bytes of a safetensors file.
pub(crate) fn safetensors(tensors: &[SourceTensor]) -> Vec<u8> {
    let (mut header, mut start) = (Map::new(), 0);
    header.insert("__metadata__".to_owned(), json!({"format": "pt"}));
    for SourceTensor { name, dtype, shape, bytes } in tensors {
        let end = start + bytes.len();
        header.insert(name.clone(), json!({"dtype": dtype, "shape": shape, "data_offsets": [start, end]}));
        start = end;
    }
    let mut header = json!(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    let data = tensors.iter().flat_map(|tensor| &tensor.bytes).copied();
    (header.len() as u64).to_le_bytes().into_iter().chain(header).chain(data).collect()
}

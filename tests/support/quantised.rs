//! Models to quantise for the comparison with llama.cpp, and the recording of its results.
//!
//! A recording has a line for each model and file type: the hash of the file's head, which is everything but the
//! weights, and the type and hash of each tensor.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use cairn_convert::{FileType, Quantisation};
use cairn_gguf::{DType, Gguf, Writer};
use cairn_testkit::families::{MIXTRAL, PHI3};
use cairn_testkit::{ModelSpec, Types, tiny, tiny_llama, tiny_qwen3};
use sha2::{Digest, Sha256};

/// A model that is quantised to every file type.
pub struct Source {
    /// Name of the model in the recording.
    pub name: &'static str,
    model: Model,
}

enum Model {
    /// Random from a seed.
    Random(ModelSpec),
    /// All weights are zero. Only the types of its tensors are compared.
    Zeros(ModelSpec),
    /// Model of a family that this engine does not run. Only the types of its tensors are compared.
    Foreign(fn() -> Vec<u8>),
}

impl Source {
    /// Writes the model's file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        match &self.model {
            Model::Random(spec) => cairn_testkit::write_file(spec, path),
            Model::Zeros(spec) => cairn_testkit::write_sparse(spec, path),
            Model::Foreign(file) => std::fs::write(path, file()),
        }
    }

    /// Whether the bytes of its weights are recorded, not only its head.
    pub fn has_weights(&self) -> bool {
        matches!(self.model, Model::Random(_))
    }
}

/// Returns models that cover all cases of the rules for tensor types: a number of layers that is a multiple of eight,
/// keys shared by four heads, tied embeddings, rows that are not whole blocks of 256 or of 32, experts, a fused QKV
/// matrix, the one size that gives values more bits, and the one family with its own rules.
pub fn sources() -> Vec<Source> {
    let deep = ModelSpec {
        layers: 16,
        kv_heads: 1,
        head_dim: 32,
        ffn: 256,
        vocab: 300,
        types: Types::All(DType::F16),
        ..tiny_llama()
    };
    let narrow = ModelSpec { width: 288, heads: 3, ffn: 320, types: Types::All(DType::BF16), ..tiny_qwen3() };
    let odd = ModelSpec { width: 272, heads: 2, kv_heads: 2, ffn: 528, types: Types::All(DType::F16), ..tiny_llama() };
    let experts = ModelSpec { layers: 3, vocab: 300, types: Types::All(DType::F32), ..tiny(&MIXTRAL) };
    let fused = ModelSpec { layers: 8, vocab: 300, types: Types::All(DType::BF16), ..tiny(&PHI3) };
    vec![
        Source { name: "deep", model: Model::Random(deep.clone()) },
        Source { name: "narrow", model: Model::Random(narrow) },
        Source { name: "odd", model: Model::Random(odd) },
        Source { name: "experts", model: Model::Random(experts) },
        Source { name: "fused", model: Model::Random(fused) },
        Source { name: "seventy", model: Model::Zeros(ModelSpec { layers: 80, ..deep }) },
        Source { name: "falcon", model: Model::Foreign(falcon) },
    ]
}

/// Returns a Falcon model with zero weights. It has a fused QKV matrix and no gate.
fn falcon() -> Vec<u8> {
    const WIDTH: u64 = 256;
    const LAYERS: u32 = 24;
    let mut writer = Writer::default();
    writer.set("general.architecture", "falcon").set("general.file_type", 1u32);
    let counts = [("block_count", LAYERS), ("embedding_length", 256), ("feed_forward_length", 256)];
    let more = [("context_length", 2048), ("attention.head_count", 4), ("attention.head_count_kv", 1)];
    for (key, count) in counts.into_iter().chain(more) {
        writer.set(format!("falcon.{key}"), count);
    }
    writer.set("falcon.attention.layer_norm_epsilon", 1e-5f32).set("falcon.vocab_size", 256u32);
    let parts = ["attn_qkv", "attn_output", "ffn_up", "ffn_down"];
    let layers = (0..LAYERS).flat_map(|layer| parts.map(|part| format!("blk.{layer}.{part}.weight")));
    for name in ["token_embd.weight".to_owned(), "output.weight".to_owned()].into_iter().chain(layers) {
        let bytes = vec![0; DType::F16.row_bytes((WIDTH * WIDTH) as usize)];
        writer.tensor(name, DType::F16, &[WIDTH, WIDTH], bytes).expect("names differ and sizes fit");
    }
    writer.finish()
}

/// Returns the file types that are compared: those that need no importance matrix.
pub fn targets() -> impl Iterator<Item = FileType> {
    FileType::all().filter(|target| !target.needs_importance())
}

/// Quantises the model at `path` on all threads.
///
/// # Errors
/// The file is not a GGUF file or cannot be quantised.
pub fn quantise(path: &Path, target: FileType) -> anyhow::Result<Vec<u8>> {
    let bytes = std::fs::read(path)?;
    let head = Gguf::parse(&bytes)?;
    let quantisation = Quantisation::new(&head, target)?;
    let mut out = Vec::new();
    quantisation.write_to(&[File::open(path)?], &mut out, &mut |_| ())?;
    let (head, bytes) = quantisation.head()?;
    ensure!(
        out.starts_with(&head) && out.len() as u64 == bytes,
        "{target}: the file matches the predicted head and size"
    );
    Ok(out)
}

/// One line of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The source's name.
    pub source: String,
    /// The file type.
    pub target: String,
    /// The hash of the head.
    pub head: String,
    /// For each tensor in the file's order its type and the hash of its bytes; nothing for a source of which only heads
    /// are recorded.
    pub tensors: Vec<String>,
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

impl Record {
    /// Describes a model's file.
    ///
    /// # Errors
    /// If `file` is not a GGUF file.
    pub fn of(source: &Source, target: FileType, file: &[u8]) -> anyhow::Result<Record> {
        let head = Gguf::parse(file).with_context(|| format!("{} as {target}", source.name))?;
        let data = |offset: u64, bytes: u64| &file[offset as usize..(offset + bytes) as usize];
        let tensors = head.tensors().iter().filter(|_| source.has_weights());
        Ok(Record {
            source: source.name.to_owned(),
            target: target.to_string(),
            head: hash(data(0, head.data_offset)),
            tensors: tensors.map(|t| format!("{}:{}", t.dtype, hash(data(t.offset, t.bytes)))).collect(),
        })
    }

    /// Describes the head that a source's model will have, of which that is all that is recorded.
    ///
    /// # Errors
    /// If `path` is not the file of the model, or cannot be quantised.
    pub fn of_head(source: &Source, path: &Path, target: FileType) -> anyhow::Result<Record> {
        let bytes = std::fs::read(path)?;
        let head = Quantisation::new(&Gguf::parse(&bytes)?, target)?.head()?.0;
        let (source, target) = (source.name.to_owned(), target.to_string());
        Ok(Record { source, target, head: hash(&head), tensors: Vec::new() })
    }

    /// Reads one line.
    fn parse(line: &str) -> Option<Record> {
        let mut words = line.split(' ').map(str::to_owned);
        let (source, target, head) = (words.next()?, words.next()?, words.next()?);
        Some(Record { source, target, head, tensors: words.collect() })
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.source, self.target, self.head)?;
        self.tensors.iter().try_for_each(|tensor| write!(f, " {tensor}"))
    }
}

/// Returns the path of the recording of files that llama.cpp quantised.
pub fn recording() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/quantised.txt")
}

/// Returns all recorded models.
///
/// # Errors
/// If the recording is missing or invalid.
pub fn recorded() -> anyhow::Result<Vec<Record>> {
    let text = std::fs::read_to_string(recording())?;
    text.lines().map(|line| Record::parse(line).with_context(|| format!("{line:?} is no record"))).collect()
}

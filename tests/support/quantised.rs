//! Quantised models: what is quantised to show that results are llama.cpp's, and how results are recorded.
//!
//! A recording is a line for each model and file type: hashes of the file's head, which is everything but the weights, and of
//! each tensor's bytes, with its type before it so that a difference says something.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use cairn_convert::{FileType, Quantisation};
use cairn_gguf::{DType, Gguf};
use cairn_testkit::families::{MIXTRAL, PHI3};
use cairn_testkit::{ModelSpec, Types, tiny, tiny_llama, tiny_qwen3};
use sha2::{Digest, Sha256};

/// A model that is quantised to every file type.
pub struct Source {
    /// How it is called in the recording.
    pub name: &'static str,
    /// The model itself, random from a seed.
    pub spec: ModelSpec,
}

/// What the rules tell apart: layers enough for eighths of them, keys that four heads share, an output matrix that is the
/// embedding, rows that are not whole blocks of 256 or not even of 32, experts, and values in a matrix with others.
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
        Source { name: "deep", spec: deep },
        Source { name: "narrow", spec: narrow },
        Source { name: "odd", spec: odd },
        Source { name: "experts", spec: experts },
        Source { name: "fused", spec: fused },
    ]
}

/// Quantises the model at `path` on all threads.
///
/// # Errors
/// Where the file is none, or cannot be quantised.
pub fn quantise(path: &Path, target: FileType) -> anyhow::Result<Vec<u8>> {
    let bytes = std::fs::read(path)?;
    let head = Gguf::parse(&bytes)?;
    let quantisation = Quantisation::new(&head, target)?;
    let mut out = Vec::new();
    quantisation.write_to(&[File::open(path)?], &mut out, &mut |_| ())?;
    ensure!(out.len() as u64 == quantisation.size_bytes()?, "{target}: the file is as long as was told before");
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
    /// For each tensor in the file's order its type and the hash of its bytes.
    pub tensors: Vec<String>,
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

impl Record {
    /// Describes a model's file.
    ///
    /// # Errors
    /// Where it is none.
    pub fn of(source: &str, target: FileType, file: &[u8]) -> anyhow::Result<Record> {
        let head = Gguf::parse(file).with_context(|| format!("{source} as {target}"))?;
        let data = |offset: u64, bytes: u64| &file[offset as usize..(offset + bytes) as usize];
        let tensors = head.tensors().iter();
        Ok(Record {
            source: source.to_owned(),
            target: target.to_string(),
            head: hash(data(0, head.data_offset)),
            tensors: tensors.map(|t| format!("{}:{}", t.dtype, hash(data(t.offset, t.bytes)))).collect(),
        })
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
        write!(f, "{} {} {} {}", self.source, self.target, self.head, self.tensors.join(" "))
    }
}

/// The file with what llama.cpp made.
pub fn recording() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/quantised.txt")
}

/// Everything that was recorded.
///
/// # Errors
/// Where there is no recording, or it is none.
pub fn recorded() -> anyhow::Result<Vec<Record>> {
    let text = std::fs::read_to_string(recording())?;
    text.lines().map(|line| Record::parse(line).with_context(|| format!("{line:?} is no record"))).collect()
}

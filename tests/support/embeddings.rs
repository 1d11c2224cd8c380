//! Embedding models and texts for the comparison with llama.cpp, and its recorded vectors.
//!
//! Two files per case: the vectors as little-endian f32 `[texts, elements]`, and the tokens of each text as JSON.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use cairn_gguf::DType;
use cairn_testkit::families::{BERT, GEMMA_EMBEDDING, NOMIC_BERT, QWEN3_EMBEDDING};
use cairn_testkit::{Family, ModelSpec, Random, Types, tiny, tiny_bert};
use serde_json::{Value, json};

/// Tokens of the longest context: learned positions have a row for each token.
pub const CONTEXT_TOKENS: u32 = 512;
/// Smallest cosine of our vector and llama.cpp's with F32 weights. Only the order of sums, and llama.cpp's keys and values in
/// F16, differ.
const MIN_COSINE_F32: f64 = 0.999_999;
/// The same with F16 weights.
const MIN_COSINE_F16: f64 = 0.999_99;
/// The same with quantised weights. Both programs round activations to eight bits, in different blocks, and models with two
/// layers and random weights do not average the errors.
const MIN_COSINE_QUANTISED: f64 = 0.999_5;

/// Letters that are one token of both vocabularies at the beginning of a word.
const LETTERS: [&str; 12] = ["a", "e", "f", "h", "i", "l", "m", "o", "r", "s", "t", "v"];
/// Lengths in letters: a single one, around pages and windows, and near the end of the context.
const LENGTHS: [usize; 12] = [1, 2, 3, 8, 63, 64, 65, 127, 200, 256, 333, 500];
/// Texts that are difficult to tokenize.
const SENTENCES: [&str; 4] = [
    "Hello, World! The model reads page 42 of the file twice.",
    "Z\u{fc}rich, na\u{ef}ve caf\u{e9}: 22/7 is not \u{3c0}",
    "  stones\tand\nwater   in the river ",
    "snake_case camelCase https://example.org/a?b=c#d",
];

/// BERT with the row of the first token as the vector.
static BERT_FIRST: Family = Family {
    keys: |spec| {
        let mut keys = (BERT.keys)(spec);
        keys.push(("pooling_type", 2u32.into()));
        keys
    },
    ..BERT
};

/// Qwen 3 with the mean of all rows as the vector.
static QWEN3_MEAN: Family = Family { keys: |_| vec![("pooling_type", 1u32.into())], ..QWEN3_EMBEDDING };

/// One model.
pub struct Case {
    /// "embedding", then family, pooling and type.
    pub name: String,
    /// The model itself, random from a seed.
    pub spec: ModelSpec,
}

impl Case {
    /// The name of its files, without an ending, and of the model.
    pub fn file_stem(&self) -> String {
        self.name.replace(' ', "-")
    }

    /// Smallest cosine that passes.
    pub fn min_cosine(&self) -> f64 {
        match self.spec.types {
            Types::All(DType::F32) => MIN_COSINE_F32,
            Types::All(DType::F16) => MIN_COSINE_F16,
            _ => MIN_COSINE_QUANTISED,
        }
    }
}

/// All cases: each family with the types that published files have, and another pooling in F32.
pub fn all() -> Vec<Case> {
    let (types, exact) = (&[DType::F32, DType::F16, DType::Q8_0][..], &[DType::F32][..]);
    let mut cases = Vec::new();
    for (pooling, types, model) in [
        ("mean", types, tiny_bert(&BERT)),
        ("first", exact, tiny_bert(&BERT_FIRST)),
        ("mean", types, tiny_bert(&NOMIC_BERT)),
        ("mean", types, tiny_bert(&GEMMA_EMBEDDING)),
        ("last", types, tiny(&QWEN3_EMBEDDING)),
        ("mean", exact, tiny(&QWEN3_MEAN)),
    ] {
        for &dtype in types {
            let name = format!("embedding {} {pooling} {dtype}", model.family.name);
            let spec = ModelSpec { context: CONTEXT_TOKENS, types: Types::All(dtype), ..model.clone() };
            cases.push(Case { name, spec });
        }
    }
    cases
}

/// The texts, the same for every model.
pub fn texts() -> Vec<String> {
    let letters = |length: usize| {
        let mut random = Random::new(length as u64);
        let words = (0..length).map(|_| LETTERS[random.below(LETTERS.len() as u64) as usize]);
        words.collect::<Vec<_>>().join(" ")
    };
    LENGTHS.into_iter().map(letters).chain(SENTENCES.map(str::to_owned)).collect()
}

/// Vectors of all texts.
#[derive(Debug, PartialEq)]
pub struct Vectors {
    /// Tokens of each text, with those that begin and end it.
    pub tokens: Vec<u64>,
    /// A vector of length 1 for each text.
    pub vectors: Vec<Vec<f32>>,
}

impl Vectors {
    /// Creates vectors from their elements, one vector after the other.
    ///
    /// # Errors
    /// The elements cannot be divided into a vector for each text.
    pub fn new(tokens: Vec<u64>, bytes: &[u8]) -> anyhow::Result<Self> {
        let elements: Vec<f32> = bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        let (texts, count) = (tokens.len(), elements.len());
        ensure!(texts > 0 && count > 0 && count.is_multiple_of(texts), "{count} elements for {texts} texts");
        Ok(Self { tokens, vectors: elements.chunks(count / texts).map(<[f32]>::to_vec).collect() })
    }

    /// Requests the vector of each text from a model of a daemon. `embed` sends a request for `/api/embed`.
    ///
    /// # Errors
    /// A request fails, or the response is not as documented.
    pub fn of_daemon(
        model: &str,
        texts: &[String],
        embed: impl Fn(&Value) -> anyhow::Result<Value>,
    ) -> anyhow::Result<Self> {
        let (mut tokens, mut vectors) = (Vec::new(), Vec::new());
        for text in texts {
            let response = embed(&json!({ "model": model, "input": text, "truncate": false }))?;
            let vector = response["embeddings"][0].as_array().with_context(|| format!("no vector: {response}"))?;
            let elements = vector.iter().map(|element| element.as_f64().map(|element| element as f32));
            vectors.push(elements.collect::<Option<_>>().context("an element is not a number")?);
            tokens.push(response["prompt_eval_count"].as_u64().context("no number of tokens")?);
        }
        Ok(Self { tokens, vectors })
    }

    /// Returns the smallest cosine of a vector and the other one of the same text, and the position of the text.
    ///
    /// # Errors
    /// The numbers of texts, tokens or elements differ.
    pub fn smallest_cosine(&self, other: &Self) -> anyhow::Result<(f64, usize)> {
        ensure!(self.tokens == other.tokens, "tokens of the texts: {:?} and {:?}", self.tokens, other.tokens);
        let mut smallest = (1.0, 0);
        for (at, (a, b)) in self.vectors.iter().zip(&other.vectors).enumerate() {
            ensure!(a.len() == b.len(), "vectors of {} and {} elements", a.len(), b.len());
            let cosine = cosine(a, b);
            // NaN is never near.
            if cosine.is_nan() || cosine < smallest.0 {
                smallest = (cosine, at);
            }
            if cosine.is_nan() {
                break;
            }
        }
        Ok(smallest)
    }

    /// Writes both files.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, folder: &Path, case: &Case) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join(format!("{}.json", case.file_stem())), format!("{}\n", json!(self.tokens)))?;
        let bytes: Vec<u8> = self.vectors.iter().flatten().flat_map(|element| element.to_le_bytes()).collect();
        std::fs::write(folder.join(format!("{}.f32", case.file_stem())), bytes)?;
        Ok(())
    }

    /// Reads what [`write`](Self::write) has written.
    ///
    /// # Errors
    /// A file cannot be read or has the wrong format.
    pub fn read(folder: &Path, case: &Case) -> anyhow::Result<Self> {
        let read = |ending: &str| {
            let path = folder.join(format!("{}.{ending}", case.file_stem()));
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let tokens: Value = serde_json::from_slice(&read("json")?)?;
        let tokens = numbers(&tokens).with_context(|| format!("the tokens of {} are not numbers", case.name))?;
        Self::new(tokens, &read("f32")?)
    }
}

/// Returns the numbers of a JSON array.
pub fn numbers(array: &Value) -> Option<Vec<u64>> {
    array.as_array()?.iter().map(Value::as_u64).collect()
}

/// Returns the folder of the recordings.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/embeddings")
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

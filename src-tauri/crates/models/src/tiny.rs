//! Tiny random models for this crate's tests.

use std::collections::BTreeMap;

use cairn_gguf::{DType, Value, Writer};
use cairn_testkit::{Family, ModelSpec};

/// Model that a test can change before it is written.
#[derive(Clone)]
pub(crate) struct Tiny {
    pub(crate) architecture: String,
    /// Without the architecture's prefix.
    pub(crate) keys: BTreeMap<String, Value>,
    /// F32, by name: dimensions (elements of a row first) and values.
    pub(crate) tensors: BTreeMap<String, (Vec<u64>, Vec<f32>)>,
}

pub(crate) const WIDTH: usize = 24;
pub(crate) const HEADS: usize = 4;
pub(crate) const KV_HEADS: usize = 2;
pub(crate) const HEAD_DIM: usize = 8;
pub(crate) const FEED_FORWARD: usize = 40;
pub(crate) const LAYERS: usize = 2;
pub(crate) const VOCAB: usize = 50;
/// Sliding window or chunk of families that have one: less than a page.
pub(crate) const WINDOW: usize = 20;

impl Tiny {
    /// Creates a model with random weights from the seed. The head size differs from width / heads.
    pub(crate) fn new(architecture: &str, seed: u64) -> Self {
        let has_name = |family: &&&'static Family| family.name == architecture;
        Self::from_family(
            cairn_testkit::families::ALL.iter().find(has_name).expect("testkit writes every family"),
            seed,
        )
    }

    /// Creates a model of a testkit family.
    pub(crate) fn from_family(family: &'static Family, seed: u64) -> Self {
        Self::with_layers(family, family.layers as usize, seed)
    }

    /// Creates a model of a testkit family with this number of blocks.
    pub(crate) fn with_layers(family: &'static Family, layers: usize, seed: u64) -> Self {
        let architecture = family.name;
        let spec = ModelSpec {
            layers: layers as u64,
            width: WIDTH as u64,
            heads: HEADS as u64,
            kv_heads: KV_HEADS as u64,
            head_dim: HEAD_DIM as u64,
            ffn: FEED_FORWARD as u64,
            vocab: VOCAB as u64,
            context: 256,
            ..cairn_testkit::tiny(family)
        };
        let metadata = cairn_testkit::metadata(&spec);
        let prefix = format!("{architecture}.");
        let family_key = |(key, value): (&str, &Value)| Some((key.strip_prefix(&prefix)?.to_owned(), value.clone()));
        let keys = metadata.iter().filter_map(family_key).collect();
        let mut tiny = Self { architecture: architecture.to_owned(), keys, tensors: BTreeMap::new() };
        for key in ["attention.sliding_window", "attention.chunk_size"] {
            if let Some(window) = tiny.keys.get_mut(key) {
                *window = (WINDOW as u32).into();
            }
        }
        let mut noise = Noise(seed);
        for tensor in
            crate::required_tensors(&metadata, &family.has_tensor).expect("the metadata are those of the family")
        {
            let dims: Vec<usize> = tensor.dims.iter().map(|&dim| dim as usize).collect();
            tiny.add(&mut noise, &tensor.name, &dims);
        }
        tiny
    }

    /// Sets a key, given without the architecture's prefix.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.keys.insert(key.to_owned(), value.into());
    }

    /// Returns the numeric value of a key.
    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        match self.keys.get(key)? {
            Value::F32(x) => Some(f64::from(*x)),
            Value::U32(x) => Some(f64::from(*x)),
            other => panic!("{key} is {other:?}"),
        }
    }

    /// Adds a tensor of random values: around 1 for vectors, around 0 for matrices.
    pub(crate) fn add(&mut self, noise: &mut Noise, name: &str, dims: &[usize]) {
        let centre = match dims.len() {
            // States would grow with positive rates.
            _ if name.ends_with(".ssm_a") => -0.6,
            1 => 1.0,
            _ => 0.0,
        };
        let values = (0..dims.iter().product::<usize>()).map(|_| centre + 0.5 * noise.next()).collect();
        self.tensors.insert(name.to_owned(), (dims.iter().map(|&dim| dim as u64).collect(), values));
    }

    pub(crate) fn values(&self, name: &str) -> &[f32] {
        &self.tensors[name].1
    }

    /// Returns the bytes of the file.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.set("general.architecture", self.architecture.as_str());
        for (key, value) in &self.keys {
            writer.set(format!("{}.{key}", self.architecture), value.clone());
        }
        for (name, (dims, values)) in &self.tensors {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            writer.tensor(name.clone(), DType::F32, dims, bytes).expect("the dimensions are right");
        }
        writer.finish()
    }
}

/// Pseudo-random numbers in -1..1 (an LCG with Knuth's MMIX constants).
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }
}

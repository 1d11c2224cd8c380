//! Tiny random models for this crate's tests.

use std::collections::BTreeMap;

use cairn_gguf::{DType, Value, Writer};

/// A model file in the making: what the tests change before it is written.
#[derive(Clone)]
pub(crate) struct Tiny {
    pub(crate) architecture: String,
    /// Without the architecture's prefix.
    pub(crate) keys: BTreeMap<&'static str, Value>,
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

impl Tiny {
    /// A model whose weights follow from the seed. The head size is not the width over the heads.
    pub(crate) fn new(architecture: &str, seed: u64) -> Self {
        let mut tiny = Self { architecture: architecture.to_owned(), keys: BTreeMap::new(), tensors: BTreeMap::new() };
        for (key, value) in [
            ("context_length", 256),
            ("embedding_length", WIDTH as u32),
            ("feed_forward_length", FEED_FORWARD as u32),
            ("block_count", LAYERS as u32),
            ("attention.head_count", HEADS as u32),
            ("attention.head_count_kv", KV_HEADS as u32),
            ("attention.key_length", HEAD_DIM as u32),
            ("attention.value_length", HEAD_DIM as u32),
        ] {
            tiny.keys.insert(key, value.into());
        }
        tiny.keys.insert("attention.layer_norm_rms_epsilon", 1e-5f32.into());
        let mut noise = Noise(seed);
        tiny.add(&mut noise, "token_embd.weight", &[WIDTH, VOCAB]);
        tiny.add(&mut noise, "output_norm.weight", &[WIDTH]);
        for layer in 0..LAYERS {
            let mut part =
                |name: &str, dims: &[usize]| tiny.add(&mut noise, &format!("blk.{layer}.{name}.weight"), dims);
            part("attn_norm", &[WIDTH]);
            part("attn_q", &[WIDTH, HEADS * HEAD_DIM]);
            part("attn_k", &[WIDTH, KV_HEADS * HEAD_DIM]);
            part("attn_v", &[WIDTH, KV_HEADS * HEAD_DIM]);
            part("attn_output", &[HEADS * HEAD_DIM, WIDTH]);
            part("ffn_norm", &[WIDTH]);
            part("ffn_gate", &[WIDTH, FEED_FORWARD]);
            part("ffn_up", &[WIDTH, FEED_FORWARD]);
            part("ffn_down", &[FEED_FORWARD, WIDTH]);
            if architecture == "qwen3" {
                part("attn_q_norm", &[HEAD_DIM]);
                part("attn_k_norm", &[HEAD_DIM]);
            }
        }
        tiny
    }

    /// Adds a tensor of random values: around one for vectors, which scale, around zero for matrices.
    pub(crate) fn add(&mut self, noise: &mut Noise, name: &str, dims: &[usize]) {
        let centre = if dims.len() == 1 { 1.0 } else { 0.0 };
        let values = (0..dims.iter().product::<usize>()).map(|_| centre + 0.5 * noise.next()).collect();
        self.tensors.insert(name.to_owned(), (dims.iter().map(|&dim| dim as u64).collect(), values));
    }

    pub(crate) fn values(&self, name: &str) -> &[f32] {
        &self.tensors[name].1
    }

    /// The file.
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

/// Numbers in -1..1 that follow from a seed (an LCG with Knuth's MMIX constants).
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }
}

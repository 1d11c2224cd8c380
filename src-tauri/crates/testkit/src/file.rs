//! A model's file: metadata keys and tensors as llama.cpp names them.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use cairn_gguf::{DType, Writer};

use crate::embedding;
use crate::random::Random;
use crate::spec::{Architecture, ModelSpec, RopeScaling};
use crate::vocabulary::Vocabulary;
use crate::weights;

/// How much larger than size-keeping the query and key matrices are, or the norms over their heads.
const ATTENTION_GAIN: f32 = 1.5;
/// The deviation of the logits, which the last norm's weights bring about.
const LOGIT_DEVIATION: f32 = 3.0;

/// The model's file as bytes.
pub fn write(spec: &ModelSpec) -> Vec<u8> {
    writer(spec).finish()
}

/// Writes the model's file, a few kilobytes in memory at a time.
///
/// # Errors
/// Those of the file system.
pub fn write_file(spec: &ModelSpec, path: impl AsRef<Path>) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    writer(spec).write_to(&mut out)?;
    out.flush()
}

/// Writes a model whose weights are all zero and take no room on the disk: the file ends in a hole.
///
/// # Errors
/// Those of the file system.
pub fn write_sparse(spec: &ModelSpec, path: impl AsRef<Path>) -> io::Result<()> {
    let (head, length) = writer(spec).head();
    let mut file = File::create(path)?;
    file.write_all(&head)?;
    file.set_len(length)
}

fn writer(spec: &ModelSpec) -> Writer<'_> {
    let mut writer = Writer::default();
    describe(spec, &mut writer);
    Vocabulary::new(spec.vocab).describe(spec.architecture, &mut writer);
    let mut tensors = Tensors { spec, writer };
    tensors.add_all();
    tensors.writer
}

fn describe(spec: &ModelSpec, writer: &mut Writer<'_>) {
    let count = |value: u64| u32::try_from(value).expect("a model's counts fit into a u32");
    let architecture = spec.architecture.name();
    writer.set("general.architecture", architecture);
    writer.set("general.type", "model");
    writer.set("general.name", spec.name.as_str());
    writer.set("general.file_type", spec.file_type());
    writer.set("general.quantization_version", 2u32);
    let mut set = |key: &str, value: cairn_gguf::Value| {
        writer.set(format!("{architecture}.{key}"), value);
    };
    set("block_count", count(spec.layers).into());
    set("context_length", spec.context.into());
    set("embedding_length", count(spec.width).into());
    set("feed_forward_length", count(spec.ffn).into());
    set("attention.head_count", count(spec.heads).into());
    set("attention.head_count_kv", count(spec.kv_heads).into());
    set("attention.layer_norm_rms_epsilon", spec.norm_epsilon.into());
    set("attention.key_length", count(spec.head_dim).into());
    set("attention.value_length", count(spec.head_dim).into());
    set("rope.freq_base", spec.rope_base.into());
    set("rope.dimension_count", count(spec.head_dim).into());
    set("vocab_size", count(spec.vocab).into());
    if let RopeScaling::Linear(factor) = spec.rope_scaling {
        set("rope.scaling.type", "linear".into());
        set("rope.scaling.factor", factor.into());
    }
}

struct Tensors<'a> {
    spec: &'a ModelSpec,
    writer: Writer<'a>,
}

impl<'a> Tensors<'a> {
    fn add_all(&mut self) {
        let spec = self.spec;
        let (width, heads, kv) = (spec.width, spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);
        // Qwen3 normalises queries and keys again, so there the gain is in those norms.
        let (matrix_gain, head_norms) = match spec.architecture {
            Architecture::Llama => (ATTENTION_GAIN, false),
            Architecture::Qwen3 => (1.0, true),
        };
        if let Some(factors) = spec.rope_scaling.factors(spec.rope_base, spec.head_dim) {
            self.vector("rope_freqs.weight", &factors);
        }
        self.embedding();
        for layer in 0..spec.layers {
            let name = |part: &str| format!("blk.{layer}.{part}.weight");
            self.norm(&name("attn_norm"), width, 1.0);
            self.matrix(&name("attn_q"), width, heads, matrix_gain);
            self.matrix(&name("attn_k"), width, kv, matrix_gain);
            self.matrix(&name("attn_v"), width, kv, 1.0);
            if head_norms {
                self.norm(&name("attn_q_norm"), spec.head_dim, ATTENTION_GAIN);
                self.norm(&name("attn_k_norm"), spec.head_dim, ATTENTION_GAIN);
            }
            self.matrix(&name("attn_output"), heads, width, 1.0);
            self.norm(&name("ffn_norm"), width, 1.0);
            self.matrix(&name("ffn_gate"), width, spec.ffn, 1.0);
            self.matrix(&name("ffn_up"), width, spec.ffn, 1.0);
            self.matrix(&name("ffn_down"), spec.ffn, width, 1.0);
        }
        self.output();
    }

    fn embedding(&mut self) {
        let (spec, name) = (self.spec, "token_embd.weight");
        let dtype = spec.dtype(name, spec.width);
        let random = Random::named(spec.seed, name);
        let write = if spec.tied { embedding::write_tied } else { embedding::write_untied };
        let fill = move |out: &mut dyn Write| write(spec, dtype, &mut random.clone(), out);
        self.matrix_from(name, dtype, spec.width, spec.vocab, fill);
    }

    /// The last norm, and the output matrix where the embedding is not it.
    fn output(&mut self) {
        let (spec, name) = (self.spec, "output.weight");
        let gain = LOGIT_DEVIATION / embedding::deviation(spec) / (spec.width as f32).sqrt();
        let mut norm = weights::vector(spec.width, gain, &mut Random::named(spec.seed, "output_norm.weight"));
        if spec.tied {
            norm.chunks_mut(embedding::GROUP).skip(1).step_by(2).flatten().for_each(|weight| *weight = -*weight);
        }
        self.vector("output_norm.weight", &norm);
        if !spec.tied {
            let dtype = spec.dtype(name, spec.width);
            let random = Random::named(spec.seed, "token_embd.weight");
            let fill = move |out: &mut dyn Write| embedding::write_output(spec, dtype, &mut random.clone(), out);
            self.matrix_from(name, dtype, spec.width, spec.vocab, fill);
        }
    }

    /// A matrix of `outputs` rows whose deviation is `gain / sqrt(inputs)`.
    fn matrix(&mut self, name: &str, inputs: u64, outputs: u64, gain: f32) {
        let dtype = self.spec.dtype(name, inputs);
        let deviation = gain / (inputs as f32).sqrt();
        let random = Random::named(self.spec.seed, name);
        let fill = move |out: &mut dyn Write| {
            weights::write_matrix(dtype, inputs * outputs, deviation, &mut random.clone(), out)
        };
        self.matrix_from(name, dtype, inputs, outputs, fill);
    }

    fn matrix_from(
        &mut self,
        name: &str,
        dtype: DType,
        inputs: u64,
        outputs: u64,
        fill: impl Fn(&mut dyn Write) -> io::Result<()> + 'a,
    ) {
        let added = self.writer.tensor_from(name, dtype, &[inputs, outputs], fill);
        added.expect("names differ and types were chosen to fit the rows");
    }

    fn norm(&mut self, name: &str, elements: u64, mean: f32) {
        let mut random = Random::named(self.spec.seed, name);
        self.vector(name, &weights::vector(elements, mean, &mut random));
    }

    fn vector(&mut self, name: &str, elements: &[f32]) {
        let bytes: Vec<u8> = elements.iter().flat_map(|element| element.to_le_bytes()).collect();
        let added = self.writer.tensor(name, DType::F32, &[elements.len() as u64], bytes);
        added.expect("names differ and the bytes are as many as the elements need");
    }
}

#[cfg(test)]
mod tests;

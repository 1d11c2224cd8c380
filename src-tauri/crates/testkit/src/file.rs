//! Writer of model files, with llama.cpp's names of keys and tensors.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use cairn_gguf::{DType, Metadata, Value, Writer};
use cairn_models::RequiredTensor;

use crate::embedding;
use crate::random::Random;
use crate::spec::{ModelSpec, RopeScaling};
use crate::vocabulary::Vocabulary;
use crate::weights;
use crate::word_pieces;

/// Gain of query and key matrices, or of the norms over their heads. A gain of 1 keeps the variance.
const ATTENTION_GAIN: f32 = 1.5;
/// The same if values are in the same matrix, whose variance should not grow.
const FUSED_GAIN: f32 = 1.2;
/// Gain of routers. Rounding selects one of two experts with nearly equal logits. A high gain gives the last used
/// expert a small weight, so that the choice has little effect.
const ROUTER_GAIN: f32 = 4.0;
/// Gain of norms over outputs of parts: a block adds no more variance than without them.
const POST_NORM_GAIN: f32 = 0.5;
/// Gain of matrices that mix residual streams.
const MIXING_GAIN: f32 = 0.25;
/// Standard deviation of biases.
const BIAS_DEVIATION: f32 = 0.2;
/// Difference of the biases of the choice of experts. It exceeds that of scores, because rounding would exchange experts with scores
/// that are nearly equal.
const CHOICE_BIAS_STEP: f32 = 1.25;
/// Rate at which states of linear attention decay.
const DECAY_RATE: f32 = 0.1;
/// Standard deviation of the logits, set by the last norm.
const LOGIT_DEVIATION: f32 = 3.0;

/// Returns the bytes of the model's file.
pub fn write(spec: &ModelSpec) -> Vec<u8> {
    writer(spec).finish()
}

/// Writes the model's file in small blocks.
///
/// # Errors
/// Those of the file system.
pub fn write_file(spec: &ModelSpec, path: impl AsRef<Path>) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    writer(spec).write_to(&mut out)?;
    out.flush()
}

/// Writes a sparse file of a model whose weights are all zero.
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
    let metadata = metadata(spec);
    let mut writer = Writer::default();
    for (key, value) in metadata.iter() {
        writer.set(key, value.clone());
    }
    match spec.family.word_pieces {
        true => word_pieces::describe(spec.vocab, &mut writer),
        false => Vocabulary::new(spec.vocab).describe(spec.family, &mut writer),
    }
    let required = cairn_models::required_tensors(&metadata, &|name| has_tensor(spec, name));
    let required = required.expect("the metadata of a spec are those of its family");
    let mut tensors = Tensors { spec, writer, required: &required };
    for tensor in &required {
        tensors.add(&tensor.name, &tensor.dims);
    }
    tensors.writer
}

/// Returns the model's metadata without its vocabulary.
pub fn metadata(spec: &ModelSpec) -> Metadata {
    let count = |value: u64| u32::try_from(value).expect("a model's counts fit into a u32");
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", spec.family.name);
    metadata.set("general.type", "model");
    metadata.set("general.name", spec.name.as_str());
    metadata.set("general.file_type", spec.file_type());
    metadata.set("general.quantization_version", 2u32);
    let mut set = |key: &str, value: Value| {
        metadata.set(format!("{}.{key}", spec.family.name), value);
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
    match spec.rope_scaling {
        RopeScaling::None | RopeScaling::Llama3 { .. } => {}
        RopeScaling::Linear(factor) => {
            set("rope.scaling.type", "linear".into());
            set("rope.scaling.factor", factor.into());
        }
        RopeScaling::Yarn { factor, original_context } => {
            set("rope.scaling.type", "yarn".into());
            set("rope.scaling.factor", factor.into());
            set("rope.scaling.original_context_length", original_context.into());
        }
        RopeScaling::Long { original_context, attention_factor, .. } => {
            set("rope.scaling.attn_factor", attention_factor.into());
            set("rope.scaling.original_context_length", original_context.into());
        }
    }
    for (key, value) in (spec.family.keys)(spec) {
        set(key, value);
    }
    metadata
}

/// Returns whether the model has an optional tensor.
fn has_tensor(spec: &ModelSpec, name: &str) -> bool {
    match name {
        "output.weight" => !spec.tied,
        "rope_freqs.weight" if spec.family.rope_factors.is_some() => true,
        "rope_freqs.weight" => matches!(spec.rope_scaling, RopeScaling::Llama3 { .. }),
        "rope_factors_long.weight" | "rope_factors_short.weight" => {
            matches!(spec.rope_scaling, RopeScaling::Long { .. })
        }
        name => (spec.family.has_tensor)(name),
    }
}

struct Tensors<'a, 'r> {
    spec: &'a ModelSpec,
    writer: Writer<'a>,
    required: &'r [RequiredTensor],
}

impl<'a> Tensors<'a, '_> {
    /// Adds a random tensor, with the scale for its name.
    fn add(&mut self, name: &str, dims: &[u64]) {
        let elements = dims.iter().product();
        let part = name.rsplit('.').nth(1).unwrap_or(name);
        match (name, part) {
            ("token_embd.weight", _) => self.embedding(),
            ("output_norm.weight" | "dec.output_norm.weight", _) => self.output_norm(name),
            ("token_embd_norm.weight", _) if self.spec.family.name.starts_with("lfm2") => self.output_norm(name),
            ("output.weight", _) => self.output(),
            (_, "rope_freqs" | "rope_factors_long" | "rope_factors_short") => self.rope_factors(name),
            _ if name.ends_with(".ssm_a") => {
                // States decay by about a tenth in a token.
                let mut random = Random::from_name(self.spec.seed, name);
                let values: Vec<f32> = (0..elements).map(|_| -DECAY_RATE * random.normal().exp()).collect();
                self.vector(name, dims, &values);
            }
            // Vectors of several dimensions.
            _ if name.ends_with(".ssm_d") || part == "ssm_norm" => {
                let values = weights::vector(elements, 1.0, &mut Random::from_name(self.spec.seed, name));
                self.vector(name, dims, &values);
            }
            (_, "exp_probs_b") => {
                let mut random = Random::from_name(self.spec.seed, name);
                let order: Vec<f32> = (0..elements).map(|_| random.normal()).collect();
                let rank = |x: f32| order.iter().filter(|other| **other < x).count();
                let values: Vec<f32> = order.iter().map(|x| CHOICE_BIAS_STEP * rank(*x) as f32).collect();
                self.vector(name, dims, &values);
            }
            // Inputs of this router have a root of the mean of squares of 1 / sqrt(width) before it.
            _ if name.ends_with(".ffn_gate_inp.scale") => self.norm(name, elements, (elements as f32).sqrt()),
            _ if name.ends_with(".bias") => {
                let mut random = Random::from_name(self.spec.seed, name);
                let values: Vec<f32> = (0..elements).map(|_| BIAS_DEVIATION * random.normal()).collect();
                self.vector(name, dims, &values);
            }
            (_, "attn_q_norm" | "attn_k_norm") if self.spec.family.unscaled_scores => {
                self.norm(name, elements, ATTENTION_GAIN / (elements as f32).sqrt().sqrt());
            }
            (_, "attn_q_norm" | "attn_k_norm") => self.norm(name, elements, ATTENTION_GAIN),
            // It precedes the MLP.
            (_, "post_attention_norm") if self.has_linear_attention() => self.norm(name, elements, 1.0),
            (_, "post_attention_norm" | "post_ffw_norm" | "post_norm" | "laurel_post_norm") => {
                self.norm(name, elements, POST_NORM_GAIN)
            }
            (_, "ffn_gate_inp_shexp") => {
                let mut random = Random::from_name(self.spec.seed, name);
                let deviation = (elements as f32).sqrt().recip();
                let values: Vec<f32> = (0..elements).map(|_| deviation * random.normal()).collect();
                self.vector(name, dims, &values);
            }
            // Rows of convolutions are shorter than blocks of quantised types.
            (_, "conv" | "ssm_conv1d") => self.taps(name, dims),
            _ if dims.len() == 1 => self.norm(name, elements, 1.0),
            // If queries and keys are normalised, the gain is in those norms.
            (_, "attn_qkv") => self.matrix(name, dims, FUSED_GAIN),
            // Bias tables have rows for distances, and rows are too short for blocks of quantised types.
            (_, "attn_rel_b") => {
                let mut random = Random::from_name(self.spec.seed, name);
                let values: Vec<f32> = (0..elements).map(|_| random.normal()).collect();
                self.vector(name, dims, &values);
            }
            // Scores are not scaled, so that the queries are small.
            (_, "attn_q" | "cross_attn_q") if self.spec.family.unscaled_scores && !self.has_norm(name) => {
                self.matrix(name, dims, ATTENTION_GAIN / (self.spec.head_dim as f32).sqrt());
            }
            (_, "attn_q" | "attn_k") if !self.has_norm(name) => self.matrix(name, dims, ATTENTION_GAIN),
            (_, "ffn_gate_inp") => self.matrix(name, dims, ROUTER_GAIN),
            // Its input is divided by its width.
            (_, "altup_router") => self.matrix(name, dims, 0.5 * dims[0] as f32),
            (_, "altup_predict_coef" | "altup_correct_coef") => self.matrix(name, dims, MIXING_GAIN),
            (_, "ffn_down" | "ffn_down_exps" | "ffn_down_shexp") => self.matrix(name, dims, self.spec.family.down_gain),
            _ => self.matrix(name, dims, 1.0),
        }
    }

    fn has_linear_attention(&self) -> bool {
        self.required.iter().any(|tensor| tensor.name.ends_with(".ssm_a"))
    }

    /// Returns whether the output of this matrix is normalised directly.
    fn has_norm(&self, name: &str) -> bool {
        let norm = name.replace(".weight", "_norm.weight");
        self.required.iter().any(|tensor| tensor.name == norm)
    }

    fn embedding(&mut self) {
        let (spec, name) = (self.spec, "token_embd.weight");
        let dtype = spec.dtype(name, spec.width);
        let random = Random::from_name(spec.seed, name);
        let write = if spec.tied { embedding::write_tied } else { embedding::write_untied };
        let fill = move |out: &mut dyn Write| write(spec, dtype, &mut random.clone(), out);
        self.matrix_from(name, dtype, &[spec.width, spec.vocab], fill);
    }

    /// Adds the last norm, which sets the scale of the logits.
    fn output_norm(&mut self, name: &str) {
        let spec = self.spec;
        let gain = LOGIT_DEVIATION / embedding::deviation(spec) / (spec.width as f32).sqrt() / spec.family.logit_scale;
        let mut norm = weights::vector(spec.width, gain, &mut Random::from_name(spec.seed, name));
        if spec.tied {
            norm.chunks_mut(embedding::GROUP).skip(1).step_by(2).flatten().for_each(|weight| *weight = -*weight);
        }
        self.vector(name, &[spec.width], &norm);
    }

    /// Adds a separate output matrix.
    fn output(&mut self) {
        let (spec, name) = (self.spec, "output.weight");
        let dtype = spec.dtype(name, spec.width);
        let random = Random::from_name(spec.seed, "token_embd.weight");
        let fill = move |out: &mut dyn Write| embedding::write_output(spec, dtype, &mut random.clone(), out);
        self.matrix_from(name, dtype, &[spec.width, spec.vocab], fill);
    }

    /// Adds the weights of a convolution, which keep the variance.
    fn taps(&mut self, name: &str, dims: &[u64]) {
        let mut random = Random::from_name(self.spec.seed, name);
        let deviation = (dims[0] as f32).sqrt().recip();
        let values: Vec<f32> = (0..dims.iter().product()).map(|_: u64| deviation * random.normal()).collect();
        self.vector(name, dims, &values);
    }

    fn rope_factors(&mut self, name: &str) {
        let spec = self.spec;
        let factors = match spec.family.rope_factors {
            Some(factors) => factors(spec.head_dim / 2),
            None => {
                let factors = spec.rope_scaling.factors(name, spec.rope_base, spec.head_dim);
                factors.expect("a scaling with such a tensor has factors")
            }
        };
        self.vector(name, &[factors.len() as u64], &factors);
    }

    /// Adds one or several matrices with the standard deviation `gain / sqrt(inputs)`.
    fn matrix(&mut self, name: &str, dims: &[u64], gain: f32) {
        let (inputs, elements) = (dims[0], dims.iter().product());
        let dtype = self.spec.dtype(name, inputs);
        let deviation = gain / (inputs as f32).sqrt();
        let random = Random::from_name(self.spec.seed, name);
        let fill =
            move |out: &mut dyn Write| weights::write_matrix(dtype, elements, deviation, &mut random.clone(), out);
        self.matrix_from(name, dtype, dims, fill);
    }

    fn matrix_from(
        &mut self,
        name: &str,
        dtype: DType,
        dims: &[u64],
        fill: impl Fn(&mut dyn Write) -> io::Result<()> + 'a,
    ) {
        let added = self.writer.tensor_from(name, dtype, dims, fill);
        added.expect("names differ and types were chosen to fit the rows");
    }

    fn norm(&mut self, name: &str, elements: u64, mean: f32) {
        let mut random = Random::from_name(self.spec.seed, name);
        self.vector(name, &[elements], &weights::vector(elements, mean, &mut random));
    }

    fn vector(&mut self, name: &str, dims: &[u64], elements: &[f32]) {
        let bytes: Vec<u8> = elements.iter().flat_map(|element| element.to_le_bytes()).collect();
        let added = self.writer.tensor(name, DType::F32, dims, bytes);
        added.expect("names differ and the bytes are as many as the elements need");
    }
}

#[cfg(test)]
mod tests;

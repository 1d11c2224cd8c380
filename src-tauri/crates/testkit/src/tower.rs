//! Vision towers with random weights: separate files as llama.cpp's converter writes them, and towers in the file of a text model
//! as Ollama's converter writes them.

use cairn_gguf::{Array, DType, Gguf, Value, Writer};

use crate::random::Random;

/// Kinds of towers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TowerKind {
    /// Gemma 3: squares, of which groups of 16 patches become a row.
    Gemma3,
    /// Qwen 2.5 VL: pictures of any proportions in windows, RMSNorm, and MLPs with gates.
    Qwen25 {
        /// Each block of this number attends to all patches.
        full_interval: u32,
    },
    /// Qwen 3 VL and 3.5: pictures of any proportions, of which groups of four patches become a row. The rows behind these layers are
    /// projected, too.
    Qwen3 {
        /// Layers, in order.
        deepstack: Vec<u64>,
    },
    /// Gemma 4: pictures of any proportions, of which groups of nine patches become a row. Some products of the first two blocks have
    /// limits.
    Gemma4,
    /// Pixtral: pictures of any proportions, with a row behind each line but the last. Groups of more than one patch are merged.
    Pixtral {
        /// Patches of a side of a group.
        group: u64,
    },
    /// LLaVA: squares, of which each patch becomes a row. The last layer is not computed.
    Llava {
        /// Whether squares have a class embedding.
        has_class: bool,
        /// Sizes of enlarged pictures in pixels: width and height of each.
        sizes: Vec<u32>,
        /// Whether the projector has norms.
        has_norms: bool,
        /// Whether it has a row behind each line of an enlarged picture.
        has_newline: bool,
    },
}

impl TowerKind {
    /// Whether norms are RMSNorm, and MLPs have gates.
    fn is_gated(&self) -> bool {
        matches!(self, Self::Qwen25 { .. } | Self::Gemma4 | Self::Pixtral { .. })
    }

    /// Whether matrices of blocks have biases.
    fn has_biases(&self) -> bool {
        !matches!(self, Self::Gemma4 | Self::Pixtral { .. })
    }
}

/// Positions of a side in towers of Gemma 4.
pub(crate) const GEMMA4_POSITIONS: u64 = 60;

/// Shape of a tower.
#[derive(Clone, Debug)]
pub struct TowerSpec {
    /// The kind.
    pub kind: TowerKind,
    /// Seed of all weights.
    pub seed: u64,
    /// Pixels of a side of a picture. If pictures have any proportions, as many patches as fit into a side have learned positions.
    pub image_size: u64,
    /// Pixels of a side of a patch.
    pub patch_size: u64,
    /// Elements of the residual stream.
    pub width: u64,
    /// Heads.
    pub heads: u64,
    /// Elements inside the feed-forward block.
    pub ffn: u64,
    /// Transformer blocks.
    pub layers: u64,
    /// Elements of an output row, or of each of its parts: the width of the text model.
    pub output: u64,
    /// Type of matrices.
    pub dtype: DType,
}

/// Names of tensors of Qwen's towers in files of Ollama's converter, and in llama.cpp's.
const QWEN3_NAMES: &[(&str, &str)] = &[
    ("v.patch_embed.", "v.patch_embd."),
    ("v.pos_embed.", "v.position_embd."),
    ("v.merger.norm.", "v.post_ln."),
    ("v.merger.linear_fc1.", "mm.0."),
    ("v.merger.linear_fc2.", "mm.2."),
    (".mlp.linear_fc1.", ".ffn_up."),
    (".mlp.linear_fc2.", ".ffn_down."),
    (".norm1.", ".ln1."),
    (".norm2.", ".ln2."),
];

/// Names of tensors of towers of Qwen 2.5 in files of Ollama's converter, and in llama.cpp's.
const QWEN25_NAMES: &[(&str, &str)] = &[
    ("v.patch_embd_1.weight", "v.patch_embd.weight.1"),
    ("v.patch_embd_0.weight", "v.patch_embd.weight"),
    ("v.merger.ln_q.", "v.post_ln."),
    ("v.merger.mlp.0.", "mm.0."),
    ("v.merger.mlp.2.", "mm.2."),
];

/// Names of tensors of Pixtral's towers in files of Ollama's converter, and in llama.cpp's.
const PIXTRAL_NAMES: &[(&str, &str)] = &[
    ("v.patch_conv.", "v.patch_embd."),
    ("v.encoder_norm.", "v.pre_ln."),
    (".attn_output.", ".attn_out."),
    (".attn_norm.", ".ln1."),
    (".ffn_norm.", ".ln2."),
    ("mm.linear_1.", "mm.1."),
    ("mm.linear_2.", "mm.2."),
    ("mm.patch_merger.merging_layer.", "mm.patch_merger."),
    ("mm.norm.", "mm.input_norm."),
];

/// Inputs and outputs of products with limits in blocks of Gemma 4's towers, by block.
const LIMITED: [&[&str]; 2] = [
    &["attn_q.input", "attn_q.output", "attn_v.input", "ffn_up.input", "ffn_down.output"],
    &["attn_q.input", "attn_k.input", "ffn_gate.input", "ffn_up.input", "ffn_down.input", "attn_out.input"],
];

/// Names of tensors of Gemma's towers in files of Ollama's converter, and in llama.cpp's.
const GEMMA3_NAMES: &[(&str, &str)] = &[
    ("v.patch_embedding.", "v.patch_embd."),
    ("v.position_embedding.", "v.position_embd."),
    ("v.post_layernorm.", "v.post_ln."),
    (".layer_norm1.", ".ln1."),
    (".layer_norm2.", ".ln2."),
    (".attn_output.", ".attn_out."),
    (".mlp.fc1.", ".ffn_up."),
    (".mlp.fc2.", ".ffn_down."),
    ("mm.mm_input_projection.", "mm.input_projection."),
    ("mm.mm_soft_emb_norm.", "mm.soft_emb_norm."),
];

impl TowerSpec {
    /// A tower of three layers for a text model of this width: 64 patches, and 4 output rows for a picture.
    pub fn tiny(output: u64) -> Self {
        Self {
            kind: TowerKind::Gemma3,
            seed: 7,
            image_size: 24,
            patch_size: 3,
            width: 24,
            heads: 3,
            ffn: 40,
            layers: 3,
            output,
            dtype: DType::F32,
        }
    }

    /// A tower of four layers for a text model of this width, with rows of two inner layers, and learned positions of 4 x 4 patches.
    pub fn tiny_qwen3(output: u64) -> Self {
        let kind = TowerKind::Qwen3 { deepstack: vec![0, 2] };
        Self { kind, image_size: 16, patch_size: 4, heads: 2, layers: 4, ..Self::tiny(output) }
    }

    /// A tower of four layers for a text model of this width, of which every second one attends to windows.
    pub fn tiny_qwen25(output: u64) -> Self {
        let kind = TowerKind::Qwen25 { full_interval: 2 };
        Self { kind, patch_size: 14, heads: 2, layers: 4, ..Self::tiny(output) }
    }

    /// A tower of LLaVA of four layers for a text model of this width: squares of 6 x 6 patches.
    pub fn tiny_llava(output: u64) -> Self {
        let kind = TowerKind::Llava { has_class: true, sizes: Vec::new(), has_norms: false, has_newline: false };
        Self { kind, patch_size: 4, heads: 2, layers: 4, ..Self::tiny(output) }
    }

    /// A tower of Gemma 4 of three layers for a text model of this width.
    pub fn tiny_gemma4(output: u64) -> Self {
        Self { kind: TowerKind::Gemma4, patch_size: 2, ..Self::tiny(output) }
    }

    /// A tower of Pixtral of three layers for a text model of this width, for pictures of up to 12 groups of 2 x 2 patches in a side.
    pub fn tiny_pixtral(output: u64) -> Self {
        Self { kind: TowerKind::Pixtral { group: 2 }, image_size: 96, patch_size: 4, ..Self::tiny(output) }
    }

    /// Names, dimensions and values of all tensors. Vectors are around 1, or around 0 for biases.
    pub fn tensors(&self) -> Vec<(String, Vec<u64>, Vec<f32>)> {
        let &Self { patch_size, width, ffn, output, .. } = self;
        let patches = (self.image_size / patch_size).pow(2);
        let mut shapes = vec![("v.patch_embd.weight".to_owned(), vec![patch_size, patch_size, 3, width])];
        let mut vector = |name: &str| shapes.push((name.to_owned(), vec![width]));
        match self.kind {
            TowerKind::Gemma3 | TowerKind::Qwen3 { .. } => {
                ["v.patch_embd.bias", "v.post_ln.weight", "v.post_ln.bias"].into_iter().for_each(&mut vector);
                shapes.push(("v.position_embd.weight".to_owned(), vec![width, patches]));
            }
            TowerKind::Qwen25 { .. } => vector("v.post_ln.weight"),
            TowerKind::Gemma4 => {
                ["v.std_bias", "v.std_scale"].into_iter().for_each(&mut vector);
                shapes.push(("v.position_embd.weight".to_owned(), vec![width, GEMMA4_POSITIONS, 2]));
            }
            TowerKind::Pixtral { .. } => vector("v.pre_ln.weight"),
            TowerKind::Llava { has_class, .. } => {
                ["v.pre_ln.weight", "v.pre_ln.bias"].into_iter().for_each(&mut vector);
                if has_class {
                    vector("v.class_embd");
                }
                shapes.push(("v.position_embd.weight".to_owned(), vec![width, patches + u64::from(has_class)]));
            }
        }
        match &self.kind {
            TowerKind::Gemma3 => shapes.extend([
                ("mm.input_projection.weight".to_owned(), vec![output, width]),
                ("mm.soft_emb_norm.weight".to_owned(), vec![width]),
            ]),
            TowerKind::Gemma4 => shapes.push(("mm.input_projection.weight".to_owned(), vec![width, output])),
            TowerKind::Pixtral { group } => {
                shapes.push(("v.token_embd.img_break".to_owned(), vec![output]));
                if *group > 1 {
                    shapes.push(("mm.input_norm.weight".to_owned(), vec![width]));
                    shapes.push(("mm.patch_merger.weight".to_owned(), vec![group * group * width, width]));
                }
                for (name, from, to) in [("mm.1", width, width + 4), ("mm.2", width + 4, output)] {
                    shapes.push((format!("{name}.weight"), vec![from, to]));
                    shapes.push((format!("{name}.bias"), vec![to]));
                }
            }
            TowerKind::Llava { has_norms, has_newline, .. } => {
                let (inner, last) = (width + 4, if *has_norms { 3 } else { 2 });
                for (nth, from, to) in [(0, width, inner), (last, inner, output)] {
                    shapes.push((format!("mm.{nth}.weight"), vec![from, to]));
                    shapes.push((format!("mm.{nth}.bias"), vec![to]));
                }
                for (nth, width) in [(1, inner), (4, output)].into_iter().filter(|_| *has_norms) {
                    shapes.push((format!("mm.{nth}.weight"), vec![width]));
                    shapes.push((format!("mm.{nth}.bias"), vec![width]));
                }
                if *has_newline {
                    shapes.push(("model.image_newline".to_owned(), vec![output]));
                }
            }
            TowerKind::Qwen25 { .. } => {
                shapes.push(("v.patch_embd.weight.1".to_owned(), vec![patch_size, patch_size, 3, width]));
                for (name, to) in [("mm.0", 4 * width), ("mm.2", output)] {
                    shapes.push((format!("{name}.weight"), vec![4 * width, to]));
                    shapes.push((format!("{name}.bias"), vec![to]));
                }
            }
            TowerKind::Qwen3 { deepstack } => {
                shapes.push(("v.patch_embd.weight.1".to_owned(), vec![patch_size, patch_size, 3, width]));
                let joined = 4 * width;
                let mut merger = |first: String, second: String| {
                    for (name, from, to) in [(first, joined, joined), (second, joined, output)] {
                        shapes.push((format!("{name}.weight"), vec![from, to]));
                        shapes.push((format!("{name}.bias"), vec![to]));
                    }
                };
                merger("mm.0".to_owned(), "mm.2".to_owned());
                for layer in deepstack {
                    let name = |part: &str| format!("v.deepstack.{layer}.{part}");
                    merger(name("fc1"), name("fc2"));
                }
                for layer in deepstack {
                    shapes.push((format!("v.deepstack.{layer}.norm.weight"), vec![joined]));
                    shapes.push((format!("v.deepstack.{layer}.norm.bias"), vec![joined]));
                }
            }
        }
        for layer in 0..self.layers {
            let mut add = |part: &str, dims: Vec<u64>| shapes.push((format!("v.blk.{layer}.{part}"), dims));
            for norm in ["ln1", "ln2"] {
                add(&format!("{norm}.weight"), vec![width]);
                if !self.kind.is_gated() {
                    add(&format!("{norm}.bias"), vec![width]);
                }
            }
            let projections: &[(&str, u64)] = match self.kind {
                TowerKind::Qwen3 { .. } => &[("attn_qkv", 3), ("attn_out", 1)],
                _ => &[("attn_q", 1), ("attn_k", 1), ("attn_v", 1), ("attn_out", 1)],
            };
            let mut matrix = |part: &str, from: u64, to: u64| {
                add(&format!("{part}.weight"), vec![from, to]);
                if self.kind.has_biases() {
                    add(&format!("{part}.bias"), vec![to]);
                }
            };
            projections.iter().for_each(|(part, parts)| matrix(part, width, parts * width));
            let gate = self.kind.is_gated().then_some(("ffn_gate", width, ffn));
            let mlp = [("ffn_up", width, ffn), ("ffn_down", ffn, width)].into_iter().chain(gate);
            mlp.for_each(|(part, from, to)| matrix(part, from, to));
            if self.kind == TowerKind::Gemma4 {
                ["attn_post_norm.weight", "ffn_post_norm.weight"].into_iter().for_each(|part| add(part, vec![width]));
                ["attn_q_norm.weight", "attn_k_norm.weight"]
                    .into_iter()
                    .for_each(|part| add(part, vec![width / self.heads]));
                add("out_scale.weight", vec![1]);
                for part in LIMITED.get(layer as usize).copied().unwrap_or_default() {
                    [format!("{part}_min"), format!("{part}_max")].iter().for_each(|part| add(part, vec![1]));
                }
            }
        }
        let values = |(name, dims): (String, Vec<u64>)| {
            let mut random = Random::from_name(self.seed, &name);
            let elements = dims.iter().product::<u64>();
            let (mean, deviation) = match dims.len() {
                1 if name.ends_with("_min") => (-0.5, 0.0),
                // The limits of values differ from those of queries.
                1 if name.ends_with("_max") => (if name.contains("attn_v") { 0.75 } else { 0.5 }, 0.0),
                1 if name.ends_with(".bias") => (0.0, 0.3),
                1 => (1.0, 0.3),
                _ => (0.0, 1.5 / (dims[..dims.len() - 1].iter().product::<u64>() as f32).sqrt()),
            };
            let values = (0..elements).map(|_| mean + deviation * random.normal()).collect();
            (name, dims, values)
        };
        shapes.into_iter().map(values).collect()
    }

    /// Mean and deviation of the colors of pictures.
    pub(crate) fn colors(&self) -> [f32; 2] {
        if self.kind == TowerKind::Gemma4 { [0.0, 1.0] } else { [0.5; 2] }
    }

    /// Keys without the prefix of the architecture, as both converters write them.
    fn keys(&self) -> Vec<(&'static str, Value)> {
        let count = |value: u64| Value::from(u32::try_from(value).expect("a tower's counts fit into a u32"));
        vec![
            ("vision.block_count", count(self.layers)),
            ("vision.embedding_length", count(self.width)),
            ("vision.feed_forward_length", count(self.ffn)),
            ("vision.image_size", count(self.image_size)),
            ("vision.patch_size", count(self.patch_size)),
            ("vision.attention.head_count", count(self.heads)),
            ("vision.attention.layer_norm_epsilon", 1e-6f32.into()),
        ]
    }

    fn add_tensors(
        &self,
        writer: &mut Writer<'_>,
        tensors: Vec<(String, Vec<u64>, Vec<f32>)>,
        rename: impl Fn(String) -> String,
    ) {
        for (name, dims, values) in tensors {
            let is_whole = dims[0].is_multiple_of(self.dtype.block() as u64);
            let dtype = if dims.len() == 2 && is_whole { self.dtype } else { DType::F32 };
            let mut bytes = Vec::new();
            dtype.encode(&values, &mut bytes).expect("the type has an encoder");
            writer.tensor(rename(name), dtype, &dims, bytes).expect("the names are new");
        }
    }

    /// Returns the bytes of a separate file in llama.cpp's layout.
    pub fn write(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.set("general.architecture", "clip");
        writer.set("general.type", "mmproj");
        writer.set("clip.has_vision_encoder", true);
        match &self.kind {
            TowerKind::Gemma3 => {
                writer.set("clip.projector_type", "gemma3");
            }
            TowerKind::Gemma4 => {
                writer.set("clip.vision.projector_type", "gemma4v");
                writer.set("clip.vision.projector.scale_factor", 3u32);
            }
            TowerKind::Pixtral { group } => {
                writer.set("clip.projector_type", "pixtral");
                writer.set("clip.use_silu", true);
                writer.set("clip.vision.spatial_merge_size", u32::try_from(*group).expect("a group is small"));
            }
            TowerKind::Llava { sizes, .. } => {
                writer.set("clip.projector_type", "mlp");
                if !sizes.is_empty() {
                    let sizes = sizes.iter().map(|&size| size.cast_signed()).collect::<Vec<i32>>();
                    writer.set("clip.vision.image_grid_pinpoints", sizes);
                }
            }
            TowerKind::Qwen25 { full_interval } => {
                writer.set("clip.projector_type", "qwen2.5vl_merger");
                writer.set("clip.use_silu", true);
                writer.set("clip.vision.n_wa_pattern", *full_interval);
            }
            TowerKind::Qwen3 { deepstack } => {
                writer.set("clip.projector_type", "qwen3vl_merger");
                writer.set("clip.vision.spatial_merge_size", 2u32);
                let marks: Vec<bool> = (0..self.layers).map(|layer| deepstack.contains(&layer)).collect();
                writer.set("clip.vision.is_deepstack_layers", Value::Array(Array::Bool(marks)));
            }
        }
        let is_gelu = matches!(self.kind, TowerKind::Gemma3 | TowerKind::Qwen3 { .. });
        writer.set("clip.use_gelu", is_gelu);
        let has_other_width = matches!(self.kind, TowerKind::Llava { .. });
        writer.set("clip.vision.projection_dim", if has_other_width { 7 } else { self.output as u32 });
        let [mean, deviation] = self.colors();
        writer.set("clip.vision.image_mean", vec![mean; 3]);
        writer.set("clip.vision.image_std", vec![deviation; 3]);
        for (key, value) in self.keys() {
            writer.set(format!("clip.{key}"), value);
        }
        self.add_tensors(&mut writer, self.tensors(), |name| name);
        writer.finish()
    }

    /// Returns the bytes of a file of the text model in `file` and this tower, in Ollama's layout.
    ///
    /// # Panics
    /// When `file` is not valid GGUF, or for a tower of LLaVA: those are separate files only.
    pub fn write_into(&self, file: &[u8]) -> Vec<u8> {
        let gguf = Gguf::parse(file).expect("the file is valid GGUF");
        let mut writer = Writer::default();
        for (key, value) in gguf.metadata().iter() {
            writer.set(key, value.clone());
        }
        let architecture = gguf.metadata().required_str("general.architecture").expect("a model has an architecture");
        for (key, value) in self.keys() {
            writer.set(format!("{architecture}.{key}"), value);
        }
        for tensor in gguf.tensors() {
            let bytes = file[tensor.offset as usize..(tensor.offset + tensor.bytes) as usize].to_vec();
            writer.tensor(tensor.name.clone(), tensor.dtype, &tensor.dims, bytes).expect("a parsed tensor is valid");
        }
        match &self.kind {
            TowerKind::Llava { .. } => panic!("towers of LLaVA are separate files"),
            TowerKind::Gemma4 => {
                writer.set(format!("{architecture}.vision.projector.scale_factor"), 3u32);
                self.add_tensors(&mut writer, self.tensors(), |name| name);
            }
            TowerKind::Pixtral { group } => {
                let group = u32::try_from(*group).expect("a group is small");
                writer.set(format!("{architecture}.spatial_merge_size"), group);
                for key in ["vision.image_mean", "vision.image_std"] {
                    writer.set(format!("{architecture}.{key}"), vec![0.5f32; 3]);
                }
                self.add_tensors(&mut writer, self.pixtral_tensors(), |name| renamed(PIXTRAL_NAMES, name));
            }
            TowerKind::Gemma3 => {
                writer.set(format!("{architecture}.mm.tokens_per_image"), 256u32);
                self.add_tensors(&mut writer, self.tensors(), |name| renamed(GEMMA3_NAMES, name));
            }
            TowerKind::Qwen25 { full_interval } => {
                let first = i32::try_from(full_interval - 1).expect("a tower has few layers");
                writer.set(format!("{architecture}.vision.fullatt_block_indexes"), vec![first]);
                self.add_tensors(&mut writer, self.tensors(), |name| renamed(QWEN25_NAMES, name));
            }
            TowerKind::Qwen3 { deepstack } => {
                let indexes: Vec<i32> = deepstack.iter().map(|&layer| layer as i32).collect();
                if !indexes.is_empty() {
                    writer.set(format!("{architecture}.vision.deepstack_visual_indexes"), indexes);
                }
                self.add_tensors(&mut writer, self.qwen_tensors(), |name| {
                    let merger = |name: String, (nth, layer): (usize, &u64)| {
                        let parts = [("norm", "norm"), ("fc1", "linear_fc1"), ("fc2", "linear_fc2")];
                        parts.into_iter().fold(name, |name, (from, to)| {
                            let from = format!("v.deepstack.{layer}.{from}.");
                            name.replacen(&from, &format!("v.deepstack_merger.{nth}.{to}."), 1)
                        })
                    };
                    renamed(QWEN3_NAMES, deepstack.iter().enumerate().fold(name, merger))
                });
            }
        }
        writer.finish()
    }

    /// The tensors of a tower of Pixtral as Ollama's converter writes them: an element of each half of a head is in each pair of queries and
    /// keys, and the embedding behind lines is in the text model's table only.
    fn pixtral_tensors(&self) -> Vec<(String, Vec<u64>, Vec<f32>)> {
        let (width, dim) = (self.width as usize, (self.width / self.heads) as usize);
        let of = |(name, dims, values): (String, Vec<u64>, Vec<f32>)| {
            if !name.contains("attn_q") && !name.contains("attn_k") {
                return (name, dims, values);
            }
            let row = |row: usize| {
                let (head, element) = (row / dim * dim, row % dim);
                let from = head + element % (dim / 2) * 2 + element / (dim / 2);
                values[from * width..(from + 1) * width].to_vec()
            };
            let values = (0..width).flat_map(row).collect();
            (name, dims, values)
        };
        self.tensors().into_iter().filter(|(name, ..)| name != "v.token_embd.img_break").map(of).collect()
    }

    /// The tensors of a tower of Qwen as Ollama's converter divides them: one projection of both frames, and three of queries, keys and
    /// values.
    fn qwen_tensors(&self) -> Vec<(String, Vec<u64>, Vec<f32>)> {
        let tensors = self.tensors();
        let second =
            tensors.iter().find(|(name, ..)| name == "v.patch_embd.weight.1").expect("a tower of Qwen").2.clone();
        let pixels = (self.patch_size * self.patch_size) as usize;
        let of = |(name, dims, values): (String, Vec<u64>, Vec<f32>)| match name.as_str() {
            "v.patch_embd.weight.1" => vec![],
            "v.patch_embd.weight" => {
                let frames = values.chunks(pixels).zip(second.chunks(pixels));
                let values = frames.flat_map(|(first, second)| [first, second].concat()).collect();
                vec![(name, vec![dims[0], dims[1], 2, dims[2] * dims[3]], values)]
            }
            _ if name.contains("attn_qkv") => {
                let parts = values.chunks(values.len() / 3).zip(["attn_q", "attn_k", "attn_v"]);
                let mut dims = dims.clone();
                *dims.last_mut().expect("a tensor has dimensions") /= 3;
                parts.map(|(values, part)| (name.replace("attn_qkv", part), dims.clone(), values.to_vec())).collect()
            }
            _ => vec![(name, dims, values)],
        };
        tensors.into_iter().flat_map(of).collect()
    }
}

fn renamed(names: &[(&str, &str)], name: String) -> String {
    names.iter().fold(name, |name, (ollama, llama)| name.replacen(llama, ollama, 1))
}

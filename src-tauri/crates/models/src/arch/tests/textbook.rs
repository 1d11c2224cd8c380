//! Reference forward pass as in the papers, over whole sequences in f64, without plans, pages or shared code. It
//! verifies the forward passes of the families.

mod gemma;
mod gemma3n;
mod latent;
mod linear;
mod state_space;

use cairn_gguf::Value;

use crate::tiny::{FEED_FORWARD, HEAD_DIM, HEADS, KV_HEADS, LAYERS, Tiny, VOCAB, WIDTH, WINDOW};

type Rows = Vec<Vec<f64>>;

/// Rotation of heads: the number of rotated elements, the angle of each of their pairs per position, and the factor of
/// queries and keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rotation {
    pub(super) dims: usize,
    pub(super) angles: [f64; HEAD_DIM / 2],
    pub(super) magnitude: f64,
}

impl Rotation {
    /// The unscaled rotation.
    pub(super) fn plain(base: f64, dims: usize) -> Self {
        let angles = std::array::from_fn(|i| base.powf(-2.0 * i as f64 / dims as f64));
        Self { dims, angles, magnitude: 1.0 }
    }
}

/// Differences of a family from the others.
struct Paper {
    /// Pairs are adjacent elements, not halves of a head.
    adjacent_pairs: bool,
    normalises_input: bool,
    normalises_output: bool,
    /// Norms subtract the mean and add a bias.
    layer_norm: bool,
    /// The MLP has no gate.
    ungated: bool,
    /// Attention and MLP read the stream as it was before the block.
    parallel: bool,
    /// Elements of queries and keys that are normalised together, and whether after rotation.
    query_key_norm: Option<fn(usize) -> usize>,
    normalises_rotated: bool,
    /// Queries and keys of layers with a rotation are normalised without a weight, after the rotation.
    normalises_plainly: bool,
    /// Whether a layer has a rotation.
    rotates: fn(usize) -> bool,
    /// Whether a layer has a sliding window, and the base of its rotation.
    window: fn(usize) -> bool,
    /// Windows are chunks that begin at multiples of their size.
    chunked: bool,
    local_base: Option<f64>,
    /// Activation of gate and linear part.
    activation: fn(f64, f64) -> f64,
    /// How the logits of experts become scores, and scores of the chosen ones weights.
    scores: fn(&[f64]) -> Vec<f64>,
    renormalises: bool,
    /// Weights of experts multiply their inputs.
    weighs_inputs: bool,
    /// The norm before the MLP or the experts.
    mlp_norm: &'static str,
    embedding_scale: f64,
    attention_scale: f64,
    attention_cap: Option<f64>,
    residual_scale: f64,
    logits: fn(f64) -> f64,
}

fn paper(model: &Tiny) -> Paper {
    let plain = Paper {
        adjacent_pairs: false,
        normalises_input: true,
        normalises_output: false,
        layer_norm: false,
        ungated: false,
        parallel: false,
        query_key_norm: None,
        normalises_rotated: false,
        normalises_plainly: false,
        rotates: |_| true,
        window: |_| false,
        chunked: false,
        local_base: None,
        activation: |gate, up| gate / (1.0 + (-gate).exp()) * up,
        scores: softmax,
        renormalises: true,
        weighs_inputs: false,
        mlp_norm: "ffn_norm",
        embedding_scale: 1.0,
        attention_scale: 1.0 / (HEAD_DIM as f64).sqrt(),
        attention_cap: None,
        residual_scale: 1.0,
        logits: |logit| logit,
    };
    let gelu = |gate: f64, up: f64| {
        let root = (2.0 / std::f64::consts::PI).sqrt();
        0.5 * gate * (1.0 + (root * (gate + 0.044715 * gate.powi(3))).tanh()) * up
    };
    let gemma = Paper {
        normalises_output: true,
        window: |layer| layer % 2 == 0,
        activation: gelu,
        embedding_scale: (WIDTH as f64).sqrt(),
        ..plain
    };
    let gelu_mlp = Paper { layer_norm: true, ungated: true, activation: gelu, ..plain };
    let command_r = Paper {
        adjacent_pairs: true,
        layer_norm: true,
        parallel: true,
        mlp_norm: "attn_norm",
        logits: |logit| logit / 4.0,
        ..plain
    };
    let has_windows = model.keys.contains_key("attention.sliding_window");
    match model.architecture.as_str() {
        "dots1" => Paper { query_key_norm: Some(|_| HEAD_DIM), scores: sigmoids, ..plain },
        "deepseek2" => {
            let has_sigmoids = model.keys.contains_key("expert_gating_func");
            let scores = if has_sigmoids { sigmoids } else { softmax };
            Paper { adjacent_pairs: true, scores, renormalises: has_sigmoids, ..plain }
        }
        "ernie4_5-moe" => Paper { adjacent_pairs: true, ..plain },
        "command-r" => command_r,
        "cohere2" => Paper { window: |layer| layer % 2 == 0, rotates: |layer| layer % 2 == 0, ..command_r },
        "exaone4" => Paper {
            normalises_input: false,
            normalises_output: true,
            query_key_norm: Some(|_| HEAD_DIM),
            window: if has_windows { |layer| layer % 2 == 0 } else { |_| false },
            rotates: if has_windows { |layer| layer % 2 == 0 } else { |_| true },
            ..plain
        },
        "falcon" => Paper { parallel: true, mlp_norm: "attn_norm", ..gelu_mlp },
        "gemma" => Paper { normalises_output: false, window: |_| false, ..gemma },
        "glm4" => {
            let is_permuted = model.keys.contains_key("rope.dimension_sections");
            Paper { adjacent_pairs: !is_permuted, normalises_output: true, ..plain }
        }
        "gpt2" => Paper { rotates: |_| false, ..gelu_mlp },
        "gptneox" => Paper { parallel: model.keys["use_parallel_residual"] == Value::from(true), ..gelu_mlp },
        "hunyuan-dense" => Paper { query_key_norm: Some(|_| HEAD_DIM), normalises_rotated: true, ..plain },
        "seed_oss" => Paper { mlp_norm: "post_attention_norm", ..plain },
        "smollm3" => Paper { adjacent_pairs: true, rotates: |layer| layer != 3, ..plain },
        "stablelm" => Paper { layer_norm: true, ..plain },
        "gemma2" => Paper { attention_cap: Some(5.0), logits: |logit| 30.0 * (logit / 30.0).tanh(), ..gemma },
        "gemma3" => Paper { query_key_norm: Some(|_| HEAD_DIM), local_base: Some(10_000.0), ..gemma },
        "gemma3n" | "gemma4" => Paper { logits: |logit| 30.0 * (logit / 30.0).tanh(), ..gemma },
        "glm4moe" => Paper {
            query_key_norm: Some(|_| HEAD_DIM),
            scores: sigmoids,
            renormalises: false,
            mlp_norm: "post_attention_norm",
            ..plain
        },
        "gpt-oss" => Paper {
            window: |layer| layer % 2 == 0,
            activation: |gate, up| {
                let (gate, up) = (gate.min(7.0), up.clamp(-7.0, 7.0));
                gate / (1.0 + (-f64::from(1.702f32) * gate).exp()) * (up + 1.0)
            },
            mlp_norm: "post_attention_norm",
            ..plain
        },
        "granite" | "granitemoe" | "granitehybrid" => Paper {
            adjacent_pairs: true,
            rotates: if model.keys.contains_key("rope.scaling.finetuned") { |_| false } else { |_| true },
            embedding_scale: 12.0,
            attention_scale: f64::from(0.1f32),
            residual_scale: f64::from(0.22f32),
            logits: |logit| logit / 8.0,
            ..plain
        },
        "lfm2" => Paper { query_key_norm: Some(|_| HEAD_DIM), ..plain },
        "lfm2moe" => Paper { query_key_norm: Some(|_| HEAD_DIM), scores: sigmoids, ..plain },
        "llama" | "ernie4_5" | "mistral3" => Paper { adjacent_pairs: true, ..plain },
        "llama4" => Paper {
            adjacent_pairs: true,
            normalises_plainly: true,
            rotates: |layer| layer % 4 != 3,
            window: |layer| layer % 4 != 3,
            chunked: true,
            scores: sigmoids,
            renormalises: false,
            weighs_inputs: true,
            ..plain
        },
        "olmo2" => Paper {
            normalises_input: false,
            normalises_output: true,
            query_key_norm: Some(|heads| heads * HEAD_DIM),
            ..plain
        },
        "olmoe" => Paper { query_key_norm: Some(|heads| heads * HEAD_DIM), renormalises: false, ..plain },
        "qwen3next" | "qwen35" | "qwen35moe" => {
            Paper { query_key_norm: Some(|_| HEAD_DIM), mlp_norm: "post_attention_norm", ..plain }
        }
        "qwen2moe" => Paper { renormalises: false, ..plain },
        "qwen3" | "qwen3vl" | "qwen3moe" | "qwen3vlmoe" => Paper { query_key_norm: Some(|_| HEAD_DIM), ..plain },
        "phi2" => Paper { parallel: true, mlp_norm: "attn_norm", ..gelu_mlp },
        "phi3" | "qwen2" | "exaone" | "qwen2vl" => plain,
        "nemotron_h" | "nemotron_h_moe" => Paper {
            rotates: |_| false,
            ungated: true,
            activation: |x, _| x.max(0.0).powi(2),
            scores: sigmoids,
            mlp_norm: "attn_norm",
            ..plain
        },
        "starcoder2" => gelu_mlp,
        other => panic!("no reference implementation of {other}"),
    }
}

impl Paper {
    /// Normalises a row of the residual stream.
    fn norm(&self, model: &Tiny, x: &[f64], prefix: &str) -> Vec<f64> {
        let weight = model.values(&format!("{prefix}.weight"));
        if !self.layer_norm {
            return norm(x, weight);
        }
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let centred: Vec<f64> = x.iter().map(|x| x - mean).collect();
        let mut out = norm(&centred, weight);
        if let Some((_, bias)) = model.tensors.get(&format!("{prefix}.bias")) {
            out.iter_mut().zip(bias).for_each(|(x, &bias)| *x += f64::from(bias));
        }
        out
    }
}

/// Returns the logits of every position.
pub(super) fn logits(model: &Tiny, tokens: &[u32], rotation: &Rotation) -> Rows {
    logits_with_picture(model, tokens, rotation, &(0..0))
}

/// Returns the logits of every position of a prompt, of which these rows are of a picture and attend to each other.
pub(super) fn logits_with_picture(
    model: &Tiny,
    tokens: &[u32],
    rotation: &Rotation,
    picture: &std::ops::Range<usize>,
) -> Rows {
    let paper = paper(model);
    let embedding = model.values("token_embd.weight");
    let row = |&token: &u32| {
        embedding[token as usize * WIDTH..][..WIDTH].iter().map(|&x| f64::from(x) * paper.embedding_scale).collect()
    };
    let mut xs: Rows = tokens.iter().map(row).collect();
    if let Some((_, positions)) = model.tensors.get("position_embd.weight") {
        let rows = xs.iter_mut().zip(positions.chunks(WIDTH));
        rows.for_each(|(x, row)| x.iter_mut().zip(row).for_each(|(x, &y)| *x += f64::from(y)));
    }
    let inputs = gemma::layer_inputs(model, tokens, &xs);
    let mut kept = gemma::SharedRows::default();
    let is_single = model.architecture != "gemma3n";
    if !is_single {
        xs = gemma3n::run(model, &paper, &xs, inputs.as_ref().expect("it has inputs of layers"), rotation);
    }
    for layer in (0..layers(model)).filter(|_| is_single) {
        let block = Block { model, paper: &paper, layer, picture };
        let own_norm = model.tensors.contains_key(&block.name("attn_norm_2.weight"));
        let attention_norm = if own_norm { "attn_norm_2" } else { "attn_norm" };
        let before = xs.clone();
        let read: Rows = xs.iter().map(|x| block.read(x, attention_norm)).collect();
        // The only part of a layer may be an MLP.
        let mixers = ["attn_output.weight", "shortconv.conv.weight", "ssm_out.weight"];
        let has_mixer = mixers.iter().any(|part| model.tensors.contains_key(&block.name(part)));
        let mixed: Rows = if !has_mixer {
            vec![Vec::new(); read.len()]
        } else if model.tensors.contains_key(&block.name("shortconv.conv.weight")) {
            block.convolve(&read)
        } else if model.tensors.contains_key(&block.name("ssm_in.weight")) {
            state_space::mix(&block, &read)
        } else if model.tensors.contains_key(&block.name("ssm_a")) {
            linear::mix(&block, &read)
        } else {
            let is_latent = model.tensors.contains_key(&block.name("attn_kv_a_mqa.weight"));
            let attended = match model.architecture.as_str() {
                _ if is_latent => latent::attend(&block, &read, rotation),
                "gemma4" => gemma::attend(&block, &read, rotation, &mut kept),
                _ => block.attend(&read, rotation),
            };
            attended.iter().map(|mixed| block.project(mixed, "attn_output", 0..WIDTH)).collect()
        };
        for ((x, before), mixed) in xs.iter_mut().zip(&before).zip(mixed) {
            if has_mixer {
                block.add(x, mixed, "post_attention_norm");
            }
            if !block.has_mlp() {
                continue;
            }
            let input: &[f64] = if paper.parallel { before } else { x };
            let branch = match model.tensors.contains_key(&block.name("ffn_gate_inp.scale")) {
                true => gemma::experts_beside_mlp(&block, input),
                false => block.mlp(&block.read(input, paper.mlp_norm)),
            };
            block.add(x, branch, "post_ffw_norm");
        }
        if model.architecture == "gemma4" {
            xs.iter_mut()
                .enumerate()
                .for_each(|(at, x)| gemma::finish(&block, x, inputs.as_ref().map(|rows| &rows[at])));
        }
    }
    let output = model.tensors.get("output.weight").map_or(embedding, |(_, values)| values);
    let bias = model.tensors.get("output.bias").map_or(vec![0.0; VOCAB], |(_, values)| values.clone());
    let last_norm = last_norm(model);
    let last = |x: &Vec<f64>| {
        let logits = multiply(output, &paper.norm(model, x, last_norm), 0..VOCAB);
        logits.into_iter().zip(&bias).map(|(logit, &bias)| (paper.logits)(logit + f64::from(bias))).collect()
    };
    xs.iter().map(last).collect()
}

/// Returns the name of the last norm.
pub(super) fn last_norm(model: &Tiny) -> &'static str {
    let names = ["output_norm", "token_embd_norm"];
    let has = |name: &&str| model.tensors.contains_key(&format!("{name}.weight"));
    names.into_iter().find(has).expect("every family has one")
}

/// Returns the number of blocks.
fn layers(model: &Tiny) -> usize {
    model.number("block_count").map_or(LAYERS, |count| count as usize)
}

/// Returns the factor of queries at a position. In Llama 4, positions count from one.
fn growth(model: &Tiny, position: usize) -> f64 {
    let Some(factor) = model.number("attention.temperature_scale") else { return 1.0 };
    let step = ["attention.temperature_length", "rope.scaling.original_context_length"].map(|key| model.number(key));
    let step = step.into_iter().flatten().next().expect("it is set");
    let position = if model.architecture == "llama4" { position + 1 } else { position };
    1.0 + factor * (1.0 + (position as f64 / step).floor()).ln()
}

struct Block<'a> {
    model: &'a Tiny,
    paper: &'a Paper,
    layer: usize,
    /// Rows that attend to each other.
    picture: &'a std::ops::Range<usize>,
}

impl Block<'_> {
    fn name(&self, part: &str) -> String {
        format!("blk.{}.{part}", self.layer)
    }

    fn read(&self, x: &[f64], part: &str) -> Vec<f64> {
        match self.paper.normalises_input {
            true => self.paper.norm(self.model, x, &self.name(part)),
            false => x.to_vec(),
        }
    }

    fn add(&self, x: &mut [f64], branch: Vec<f64>, part: &str) {
        let branch = match self.paper.normalises_output {
            true => self.paper.norm(self.model, &branch, &self.name(part)),
            false => branch,
        };
        x.iter_mut().zip(branch).for_each(|(x, y)| *x += y * self.paper.residual_scale);
    }

    fn project(&self, x: &[f64], part: &str, rows: std::ops::Range<usize>) -> Vec<f64> {
        let mut out = multiply(self.model.values(&self.name(&format!("{part}.weight"))), x, rows.clone());
        if let Some((_, bias)) = self.model.tensors.get(&self.name(&format!("{part}.bias"))) {
            out.iter_mut().zip(&bias[rows]).for_each(|(out, &bias)| *out += f64::from(bias));
        }
        out
    }

    /// Returns `count` unrotated heads of `part`, or from head `first` on if all three parts are one tensor.
    fn heads(&self, x: &[f64], part: &str, first: usize, count: usize) -> Rows {
        let fused = self.model.tensors.contains_key(&self.name("attn_qkv.weight"));
        let first = first * HEAD_DIM;
        let mut all = match fused {
            true => self.project(x, "attn_qkv", first..first + count * HEAD_DIM),
            false if part == "attn_q" && self.has_gates() => {
                let both = self.project(x, part, 0..2 * count * HEAD_DIM);
                both.chunks(2 * HEAD_DIM).flat_map(|head| head[..HEAD_DIM].to_vec()).collect()
            }
            false => self.project(x, part, 0..count * HEAD_DIM),
        };
        if !self.paper.normalises_rotated {
            all = self.normalise(all, part, count);
        }
        all.chunks(HEAD_DIM).map(<[f64]>::to_vec).collect()
    }

    /// Whether each head of queries is followed by its gate.
    fn has_gates(&self) -> bool {
        self.model.tensors[&self.name("attn_q.weight")].0[1] == 2 * (HEADS * HEAD_DIM) as u64
    }

    /// Normalises queries or keys of `count` heads.
    fn normalise(&self, all: Vec<f64>, part: &str, count: usize) -> Vec<f64> {
        let Some(group) = self.paper.query_key_norm.filter(|_| part != "attn_v") else { return all };
        let weight = self.model.values(&self.name(&format!("{part}_norm.weight")));
        all.chunks(group(count)).flat_map(|group| norm(group, weight)).collect()
    }

    fn attend(&self, rows: &Rows, rotation: &Rotation) -> Rows {
        let paper = self.paper;
        let windowed = (paper.window)(self.layer);
        let local = paper.local_base.filter(|_| windowed).map(|base| Rotation::plain(base, HEAD_DIM));
        let rotation = local.as_ref().unwrap_or(rotation);
        let rotated = |part: &str, first, count| -> Vec<Rows> {
            let turn = |at: usize, head: &Vec<f64>| {
                let growth = if part == "attn_q" { growth(self.model, at) } else { 1.0 };
                if !(paper.rotates)(self.layer) {
                    return head.iter().map(|x| x * growth).collect();
                }
                // The queries of Llama 4 grow only in layers without a rotation.
                let growth = if paper.normalises_plainly { 1.0 } else { growth };
                let rotation = Rotation { magnitude: rotation.magnitude * growth, ..*rotation };
                let head = rotate(head, at, &rotation, paper.adjacent_pairs);
                match paper.normalises_plainly {
                    true => norm(&head, &[1.0; HEAD_DIM]),
                    false if paper.normalises_rotated => self.normalise(head, part, 1),
                    false => head,
                }
            };
            let each = rows.iter().enumerate();
            each.map(|(at, x)| self.heads(x, part, first, count).iter().map(|head| turn(at, head)).collect()).collect()
        };
        let (qs, ks) = (rotated("attn_q", 0, HEADS), rotated("attn_k", HEADS, KV_HEADS));
        let vs: Vec<Rows> = rows.iter().map(|x| self.heads(x, "attn_v", HEADS + KV_HEADS, KV_HEADS)).collect();
        // Published chunks are longer than all texts here.
        let chunk = self.model.number("attention.chunk_size").map_or(usize::MAX, |tokens| tokens as usize);
        let mix = |(at, q): (usize, &Rows)| {
            let first = if paper.chunked { at / chunk * chunk } else { (at + 1).saturating_sub(WINDOW) };
            let end = if self.picture.contains(&at) { self.picture.end } else { at + 1 };
            let seen = if windowed { first..end } else { 0..end };
            let mut mixed = Vec::new();
            for (head, q) in q.iter().enumerate() {
                let group = head * KV_HEADS / HEADS;
                let score = |at: usize| {
                    let score = dot(q, &ks[at][group]) * paper.attention_scale;
                    paper.attention_cap.map_or(score, |cap| cap * (score / cap).tanh())
                };
                let weights: Vec<f64> = seen.clone().map(|at| score(at).exp()).collect();
                let sinks = self.model.tensors.get(&self.name("attn_sinks.weight"));
                let sink = sinks.map_or(0.0, |(_, sinks)| f64::from(sinks[head]).exp());
                let total = weights.iter().sum::<f64>() + sink;
                let element = |i| seen.clone().zip(&weights).map(|(at, w)| w / total * vs[at][group][i]).sum::<f64>();
                mixed.extend((0..HEAD_DIM).map(element));
            }
            if self.model.tensors.contains_key(&self.name("attn_q.weight")) && self.has_gates() {
                let both = self.project(&rows[at], "attn_q", 0..2 * HEADS * HEAD_DIM);
                let gates = both.chunks(2 * HEAD_DIM).flat_map(|head| sigmoids(&head[HEAD_DIM..]));
                mixed.iter_mut().zip(gates).for_each(|(x, gate)| *x *= gate);
            }
            mixed
        };
        qs.iter().enumerate().map(mix).collect()
    }

    /// A short convolution between two gates.
    fn convolve(&self, rows: &Rows) -> Rows {
        let taps = self.model.values(&self.name("shortconv.conv.weight"));
        let kernel = taps.len() / WIDTH;
        let part = |nth: usize| -> Rows {
            rows.iter().map(|x| self.project(x, "shortconv.in_proj", nth * WIDTH..(nth + 1) * WIDTH)).collect()
        };
        let [before, after, x] = [0, 1, 2].map(part);
        let gated = |at: usize, element: usize| before[at][element] * x[at][element];
        let output = |at: usize| {
            let sum = |element: usize| -> f64 {
                let taps = &taps[element * kernel..(element + 1) * kernel];
                // The last tap is that of the row itself.
                let seen = taps.iter().rev().zip((0..=at).rev());
                seen.map(|(&tap, at)| f64::from(tap) * gated(at, element)).sum()
            };
            let mixed: Vec<f64> = (0..WIDTH).map(|element| after[at][element] * sum(element)).collect();
            self.project(&mixed, "shortconv.out_proj", 0..WIDTH)
        };
        (0..rows.len()).map(output).collect()
    }

    /// Whether the layer has an MLP or experts.
    fn has_mlp(&self) -> bool {
        ["ffn_up", "ffn_up_exps"]
            .iter()
            .any(|part| self.model.tensors.contains_key(&self.name(&format!("{part}.weight"))))
    }

    /// The MLP, or the experts.
    fn mlp(&self, x: &[f64]) -> Vec<f64> {
        if self.model.tensors.contains_key(&self.name("ffn_gate_inp.weight")) {
            return self.experts(x, x);
        }
        self.dense_mlp(x)
    }

    fn dense_mlp(&self, x: &[f64]) -> Vec<f64> {
        if self.paper.ungated {
            let inner = self.project(x, "ffn_up", 0..FEED_FORWARD);
            return self.project(&self.activate(&inner, &[1.0; FEED_FORWARD]), "ffn_down", 0..WIDTH);
        }
        let fused = !self.model.tensors.contains_key(&self.name("ffn_gate.weight"));
        let inner = self.model.tensors[&self.name("ffn_down.weight")].0[0] as usize;
        let (gate, up) = match fused {
            true => (self.project(x, "ffn_up", 0..inner), self.project(x, "ffn_up", inner..2 * inner)),
            false => (self.project(x, "ffn_gate", 0..inner), self.project(x, "ffn_up", 0..inner)),
        };
        self.project(&self.activate(&gate, &up), "ffn_down", 0..WIDTH)
    }

    /// The expert that every row uses, or zeros.
    fn shared_expert(&self, x: &[f64]) -> Vec<f64> {
        let Some((dims, _)) = self.model.tensors.get(&self.name("ffn_up_shexp.weight")) else {
            return vec![0.0; WIDTH];
        };
        let parts = if self.paper.ungated { ["ffn_up_shexp"; 2] } else { ["ffn_gate_shexp", "ffn_up_shexp"] };
        let [gate, up] = parts.map(|part| self.project(x, part, 0..dims[1] as usize));
        let out = self.project(&self.activate(&gate, &up), "ffn_down_shexp", 0..WIDTH);
        let weighed = self.model.tensors.contains_key(&self.name("ffn_gate_inp_shexp.weight"));
        let weight = if weighed { sigmoids(&self.project(x, "ffn_gate_inp_shexp", 0..1))[0] } else { 1.0 };
        out.into_iter().map(|y| y * weight).collect()
    }

    fn activate(&self, gate: &[f64], up: &[f64]) -> Vec<f64> {
        gate.iter().zip(up).map(|(&gate, &up)| (self.paper.activation)(gate, up)).collect()
    }

    /// Shares of a softmax over all experts, divided by the sum of the chosen, are a softmax over the chosen. A bias changes only
    /// the choice. The router reads `routed`.
    fn experts(&self, routed: &[f64], x: &[f64]) -> Vec<f64> {
        let [count, used] = ["expert_count", "expert_used_count"].map(|key| self.model.number(key).expect("it is set"));
        let rows = |part: &str| self.model.tensors[&self.name(&format!("{part}.weight"))].0[1] as usize;
        let is_fused = self.model.tensors.contains_key(&self.name("ffn_gate_up_exps.weight"));
        let inner = if is_fused { rows("ffn_gate_up_exps") / 2 } else { rows("ffn_up_exps") };
        let logits = self.project(routed, "ffn_gate_inp", 0..count as usize);
        let scores = (self.paper.scores)(&logits);
        let bias = self.model.tensors.get(&self.name("exp_probs_b.bias"));
        let rank = |expert: usize| scores[expert] + bias.map_or(0.0, |(_, bias)| f64::from(bias[expert]));
        let mut ranked: Vec<usize> = (0..logits.len()).collect();
        if let Some(groups) = self.model.number("expert_group_count").filter(|&groups| groups > 1.0) {
            // Experts of the groups with the largest sums of two ranks.
            let size = logits.len() / groups as usize;
            let sum = |group: usize| {
                let mut ranks: Vec<f64> = (group * size..(group + 1) * size).map(rank).collect();
                ranks.sort_by(|a, b| b.total_cmp(a));
                ranks[0] + ranks[1]
            };
            let mut order: Vec<usize> = (0..groups as usize).collect();
            order.sort_by(|&a, &b| sum(b).total_cmp(&sum(a)));
            order.truncate(self.model.number("expert_group_used_count").expect("it is set") as usize);
            ranked.retain(|expert| order.contains(&(expert / size)));
        }
        ranked.sort_by(|&a, &b| rank(b).total_cmp(&rank(a)));
        ranked.truncate(used as usize);
        let total = if self.paper.renormalises { ranked.iter().map(|&expert| scores[expert]).sum() } else { 1.0 };
        let scale = self.model.number("expert_weights_scale").unwrap_or(1.0);
        let shared = self.shared_expert(x);
        let latent = self.model.tensors.contains_key(&self.name("ffn_latent_down.weight"));
        let of_latent = |part: &str| self.model.tensors[&self.name(&format!("{part}.weight"))].0[1] as usize;
        let input =
            if latent { self.project(x, "ffn_latent_down", 0..of_latent("ffn_latent_down")) } else { x.to_vec() };
        let x = &input[..];
        let mut sum = vec![0.0; x.len()];
        for expert in ranked {
            let scales = self.model.tensors.get(&self.name("ffn_down_exps.scale"));
            let weight = scores[expert] / total * scale * scales.map_or(1.0, |(_, scales)| scales[expert].into());
            let (before, weight) = if self.paper.weighs_inputs { (weight, 1.0) } else { (1.0, weight) };
            let weighed: Vec<f64> = x.iter().map(|x| x * before).collect();
            let x = &weighed[..];
            let of = |x: &[f64], part: &str, rows: usize| self.project(x, part, expert * rows..(expert + 1) * rows);
            let (gate, up) = match is_fused {
                true => {
                    let both = of(x, "ffn_gate_up_exps", 2 * inner);
                    (both[..inner].to_vec(), both[inner..].to_vec())
                }
                false => {
                    let gate = if self.paper.ungated { "ffn_up_exps" } else { "ffn_gate_exps" };
                    (of(x, gate, inner), of(x, "ffn_up_exps", inner))
                }
            };
            let down = of(&self.activate(&gate, &up), "ffn_down_exps", x.len());
            sum.iter_mut().zip(down).for_each(|(sum, y)| *sum += weight * y);
        }
        let out = if latent { self.project(&sum, "ffn_latent_up", 0..WIDTH) } else { sum };
        out.into_iter().zip(shared).map(|(x, y)| x + y).collect()
    }
}

fn softmax(logits: &[f64]) -> Vec<f64> {
    let total: f64 = logits.iter().map(|logit| logit.exp()).sum();
    logits.iter().map(|logit| logit.exp() / total).collect()
}

fn sigmoids(logits: &[f64]) -> Vec<f64> {
    logits.iter().map(|logit| 1.0 / (1.0 + (-logit).exp())).collect()
}

/// Multiplies some rows of a matrix with a vector.
fn multiply(matrix: &[f32], x: &[f64], rows: std::ops::Range<usize>) -> Vec<f64> {
    let rows = matrix.chunks_exact(x.len()).skip(rows.start).take(rows.len());
    rows.map(|row| row.iter().zip(x).map(|(&w, x)| f64::from(w) * x).sum()).collect()
}

fn norm(x: &[f64], weight: &[f32]) -> Vec<f64> {
    assert_eq!(x.len(), weight.len(), "the weight fits");
    let mean = dot(x, x) / x.len() as f64;
    x.iter().zip(weight).map(|(x, &w)| x / (mean + f64::from(1e-5f32)).sqrt() * f64::from(w)).collect()
}

fn rotate(head: &[f64], position: usize, rotation: &Rotation, adjacent_pairs: bool) -> Vec<f64> {
    let mut out = head.to_vec();
    let pairs = rotation.dims / 2;
    for (i, angle) in rotation.angles.iter().enumerate().take(pairs) {
        let (a, b) = if adjacent_pairs { (2 * i, 2 * i + 1) } else { (i, i + pairs) };
        let (sin, cos) = (position as f64 * angle).sin_cos();
        out[a] = (head[a] * cos - head[b] * sin) * rotation.magnitude;
        out[b] = (head[a] * sin + head[b] * cos) * rotation.magnitude;
    }
    out
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

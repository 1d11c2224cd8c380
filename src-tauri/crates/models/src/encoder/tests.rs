//! Every encoder on tiny models: comparisons with a textbook forward pass in f64, without plans, pages or shared code.

use cairn_tensor::{Op, Reference, StateKind};
use cairn_testkit::Family;
use cairn_testkit::families::{BERT, CROSS_ENCODER, ENCODERS, GEMMA_EMBEDDING, NOMIC_BERT, QWEN3_EMBEDDING};

use crate::runs::{output_rows, segment};
use crate::tiny::{FEED_FORWARD, HEAD_DIM, HEADS, KV_HEADS, LAYERS, Noise, Tiny, VOCAB, WIDTH, WINDOW};
use crate::{ENCODERS as ROWS, EmbeddingOutput, LoadError, ModelFile, Pooling, load};

type Matrix = Vec<Vec<f64>>;

fn file(model: &Tiny) -> ModelFile {
    ModelFile::builtin("tiny", model.bytes().leak()).expect("the writer writes what the reader reads")
}

/// A model with biases of norms around zero.
fn tiny(family: &'static Family) -> Tiny {
    let mut model = Tiny::from_family(family, 3);
    for (name, (_, values)) in &mut model.tensors {
        if name.ends_with(".bias") {
            values.iter_mut().for_each(|value| *value -= 1.0);
        }
    }
    model
}

/// Returns the output rows of texts in one batch.
fn run(model: &Tiny, texts: &[Vec<u32>]) -> Vec<Vec<f32>> {
    output_rows(&file(model), texts)
}

fn tokens(seed: u32, count: u32) -> Vec<u32> {
    (0..count).map(|i| (i * 7 + seed) % VOCAB as u32).collect()
}

/// The forward pass of one text.
struct Textbook<'a> {
    model: &'a Tiny,
    eps: f64,
}

impl Textbook<'_> {
    fn values(&self, name: &str) -> Option<Vec<f64>> {
        Some(self.model.tensors.get(name)?.1.iter().map(|&x| f64::from(x)).collect())
    }

    /// `x · weightᵀ + bias`, for the rows from `first` on of the weight.
    fn product(&self, prefix: &str, x: &Matrix, first: usize, rows: usize) -> Matrix {
        let weight = self.values(&format!("{prefix}.weight")).unwrap_or_else(|| panic!("{prefix} exists"));
        let bias = self.values(&format!("{prefix}.bias"));
        let of = |row: &Vec<f64>| {
            let element = |at: usize| {
                let weight = &weight[(first + at) * row.len()..][..row.len()];
                dot(row, weight) + bias.as_ref().map_or(0.0, |bias| bias[first + at])
            };
            (0..rows).map(element).collect()
        };
        x.iter().map(of).collect()
    }

    fn layer_norm(&self, prefix: &str, x: &Matrix) -> Matrix {
        let weight = self.values(&format!("{prefix}.weight")).expect("a norm has a weight");
        let bias = self.values(&format!("{prefix}.bias")).expect("the norms of encoders have biases");
        let of = |row: &Vec<f64>| {
            let mean = row.iter().sum::<f64>() / row.len() as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / row.len() as f64;
            let scaled = row.iter().map(|x| (x - mean) / (variance + self.eps).sqrt());
            scaled.zip(&weight).zip(&bias).map(|((x, weight), bias)| x * weight + bias).collect()
        };
        x.iter().map(of).collect()
    }

    fn rms_norm(&self, name: &str, x: &Matrix, group: usize) -> Matrix {
        let weight = self.values(&format!("{name}.weight")).expect("a norm has a weight");
        let of = |part: &[f64]| -> Vec<f64> {
            let root = (dot(part, part) / part.len() as f64 + self.eps).sqrt();
            part.iter().zip(&weight).map(|(x, weight)| x / root * weight).collect()
        };
        x.iter().map(|row| row.chunks(group).flat_map(of).collect()).collect()
    }

    /// Attention of each row to the rows that `sees` allows. `angle` is that of a pair per position.
    fn attend(
        &self,
        [q, k, v]: [Matrix; 3],
        kv_heads: usize,
        angle: Option<&dyn Fn(usize) -> f64>,
        sees: &dyn Fn(usize, usize) -> bool,
    ) -> Matrix {
        let turn = |x: &Matrix| -> Matrix {
            let row = |(position, row): (usize, &Vec<f64>)| -> Vec<f64> {
                let head = |head: &[f64]| match angle {
                    None => head.to_vec(),
                    Some(angle) => rotate(head, position, angle),
                };
                row.chunks(HEAD_DIM).flat_map(head).collect()
            };
            x.iter().enumerate().map(row).collect()
        };
        let (q, k) = (turn(&q), turn(&k));
        let row = |at: usize| -> Vec<f64> {
            let head = |head: usize| {
                let shared = head * kv_heads / HEADS;
                let part = |x: &Matrix, row: usize, head: usize| x[row][head * HEAD_DIM..][..HEAD_DIM].to_vec();
                let seen: Vec<usize> = (0..k.len()).filter(|&other| sees(at, other)).collect();
                let score = |&other: &usize| {
                    (dot(&part(&q, at, head), &part(&k, other, shared)) / (HEAD_DIM as f64).sqrt()).exp()
                };
                let scores: Vec<f64> = seen.iter().map(score).collect();
                let sum: f64 = scores.iter().sum();
                let mean = |element: usize| {
                    let parts = seen.iter().zip(&scores);
                    parts.map(|(&other, score)| score / sum * part(&v, other, shared)[element]).sum()
                };
                (0..HEAD_DIM).map(mean).collect::<Vec<f64>>()
            };
            (0..HEADS).flat_map(head).collect()
        };
        (0..q.len()).map(row).collect()
    }

    fn embed(&self, text: &[u32]) -> Matrix {
        let lookup = |name: &str, at: usize| {
            let table = self.values(name)?;
            Some(table[at * WIDTH..][..WIDTH].to_vec())
        };
        let row = |(slot, &token): (usize, &u32)| {
            let mut x = lookup("token_embd.weight", token as usize).expect("every model has embeddings");
            let segment = segment(slot as u32, text.len() as u32) as usize;
            for (name, at) in [("token_types.weight", segment), ("position_embd.weight", slot)] {
                if let Some(more) = lookup(name, at) {
                    x.iter_mut().zip(more).for_each(|(x, y)| *x += y);
                }
            }
            x
        };
        text.iter().enumerate().map(row).collect()
    }

    /// BERT and Nomic Embed.
    fn bert(&self, text: &[u32]) -> Matrix {
        let is_nomic = self.model.architecture == "nomic-bert";
        let wide = HEADS * HEAD_DIM;
        let mut x = self.layer_norm("token_embd_norm", &self.embed(text));
        for layer in 0..LAYERS {
            let name = |part: &str| format!("blk.{layer}.{part}");
            let narrow = KV_HEADS * HEAD_DIM;
            let angle = |pair: usize| 1000f64.powf(-2.0 * pair as f64 / HEAD_DIM as f64);
            let qkv = if is_nomic {
                let part = |first, rows| self.product(&name("attn_qkv"), &x, first, rows);
                [part(0, wide), part(wide, narrow), part(wide + narrow, narrow)]
            } else {
                let part = |part, rows| self.product(&name(part), &x, 0, rows);
                [part("attn_q", wide), part("attn_k", narrow), part("attn_v", narrow)]
            };
            let angle: Option<&dyn Fn(usize) -> f64> = if is_nomic { Some(&angle) } else { None };
            let attended = self.attend(qkv, KV_HEADS, angle, &|_, _| true);
            let branch = self.product(&name("attn_output"), &attended, 0, WIDTH);
            x = self.layer_norm(&name("attn_output_norm"), &sum(&x, &branch));
            let up = self.product(&name("ffn_up"), &x, 0, FEED_FORWARD);
            let inner = if is_nomic {
                let gate = self.product(&name("ffn_gate"), &x, 0, FEED_FORWARD);
                combine(&gate, &up, |gate, up| gate / (1.0 + (-gate).exp()) * up)
            } else {
                up.into_iter()
                    .map(|row| row.into_iter().map(|x| x / 2.0 * (1.0 + erf(x / 2f64.sqrt()))).collect())
                    .collect()
            };
            let branch = self.product(&name("ffn_down"), &inner, 0, WIDTH);
            x = self.layer_norm(&name("layer_output_norm"), &sum(&x, &branch));
        }
        x
    }

    /// EmbeddingGemma.
    fn gemma(&self, text: &[u32]) -> Matrix {
        let mut x: Matrix = self.embed(text);
        x.iter_mut().flatten().for_each(|x| *x *= (WIDTH as f64).sqrt());
        for layer in 0..LAYERS {
            let name = |part: &str| format!("blk.{layer}.{part}");
            let is_local = layer % 2 == 0;
            let base: f64 = if is_local { 10_000.0 } else { 1_000_000.0 };
            let angle = move |pair: usize| base.powf(-2.0 * pair as f64 / HEAD_DIM as f64);
            let sees = move |a: usize, b: usize| !is_local || a.abs_diff(b) <= WINDOW / 2;
            let input = self.rms_norm(&name("attn_norm"), &x, WIDTH);
            let part = |part, heads: usize| self.product(&name(part), &input, 0, heads * HEAD_DIM);
            let q = self.rms_norm(&name("attn_q_norm"), &part("attn_q", HEADS), HEAD_DIM);
            let k = self.rms_norm(&name("attn_k_norm"), &part("attn_k", KV_HEADS), HEAD_DIM);
            let attended = self.attend([q, k, part("attn_v", KV_HEADS)], KV_HEADS, Some(&angle), &sees);
            let branch = self.product(&name("attn_output"), &attended, 0, WIDTH);
            x = sum(&x, &self.rms_norm(&name("post_attention_norm"), &branch, WIDTH));
            let input = self.rms_norm(&name("ffn_norm"), &x, WIDTH);
            let gate = self.product(&name("ffn_gate"), &input, 0, FEED_FORWARD);
            let up = self.product(&name("ffn_up"), &input, 0, FEED_FORWARD);
            let branch = self.product(&name("ffn_down"), &combine(&gate, &up, |gate, up| gelu(gate) * up), 0, WIDTH);
            x = sum(&x, &self.rms_norm(&name("post_ffw_norm"), &branch, WIDTH));
        }
        let x = self.rms_norm("output_norm", &x, WIDTH);
        self.product("dense_3", &self.product("dense_2", &x, 0, 48), 0, WIDTH)
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn combine(a: &Matrix, b: &Matrix, formula: impl Fn(f64, f64) -> f64) -> Matrix {
    let row = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(|(&a, &b)| formula(a, b)).collect();
    a.iter().zip(b).map(row).collect()
}

fn sum(a: &Matrix, b: &Matrix) -> Matrix {
    combine(a, b, |a, b| a + b)
}

fn gelu(x: f64) -> f64 {
    x / 2.0 * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}

/// The error function: `2 / sqrt(pi)` times the integral of `exp(-t * t)` from 0 to x, by Simpson's rule.
fn erf(x: f64) -> f64 {
    const PARTS: u32 = 400;
    let width = x / f64::from(PARTS);
    let at = |part: u32| {
        let factor = if part == 0 || part == PARTS { 1.0 } else { f64::from(2 + part % 2 * 2) };
        factor * (-(width * f64::from(part)).powi(2)).exp()
    };
    std::f64::consts::FRAC_2_SQRT_PI * width / 3.0 * (0..=PARTS).map(at).sum::<f64>()
}

fn rotate(head: &[f64], position: usize, angle: &dyn Fn(usize) -> f64) -> Vec<f64> {
    let half = head.len() / 2;
    let mut out = head.to_vec();
    for pair in 0..half {
        let (sin, cos) = (position as f64 * angle(pair)).sin_cos();
        out[pair] = head[pair] * cos - head[pair + half] * sin;
        out[pair + half] = head[pair] * sin + head[pair + half] * cos;
    }
    out
}

#[track_caller]
fn check_rows(what: &str, ours: &[Vec<f32>], theirs: &Matrix) {
    assert_eq!(ours.len(), theirs.len(), "{what}: a row for each token");
    let range = theirs.iter().flatten().fold(0f64, |most, x| most.max(x.abs()));
    for (at, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert_eq!(ours.len(), theirs.len(), "{what}: the width");
        for (&a, &b) in ours.iter().zip(theirs) {
            assert!((f64::from(a) - b).abs() < 1e-4 * range, "{what}, row {at}: {a} is not {b}, range {range}");
        }
    }
}

#[test]
fn rows_of_packed_texts_match_textbook() {
    let texts = [tokens(1, 3), tokens(5, 70), tokens(9, 1)];
    for family in ENCODERS {
        let model = tiny(family);
        let textbook = Textbook { model: &model, eps: 1e-5f32.into() };
        let expected: Matrix = match family.name {
            "gemma-embedding" => texts.iter().flat_map(|text| textbook.gemma(text)).collect(),
            _ => texts.iter().flat_map(|text| textbook.bert(text)).collect(),
        };
        check_rows(family.name, &run(&model, &texts), &expected);
    }
}

#[test]
fn cross_encoder_scores_its_first_row() {
    let model = tiny(&CROSS_ENCODER);
    let text = tokens(2, 20);
    let textbook = Textbook { model: &model, eps: 1e-5f32.into() };
    let hidden: Matrix = textbook.product("cls", &textbook.bert(&text), 0, WIDTH);
    let hidden = hidden.into_iter().map(|row| row.into_iter().map(f64::tanh).collect()).collect();
    check_rows("cross-encoder", &run(&model, &[text]), &textbook.product("cls.output", &hidden, 0, 1));
}

#[test]
fn single_segment_is_added_to_all_tokens() {
    let mut model = tiny(&CROSS_ENCODER);
    let row = model.values("token_types.weight")[..WIDTH].to_vec();
    let mut with_rows = |rows: usize| {
        model.tensors.insert("token_types.weight".to_owned(), (vec![WIDTH as u64, rows as u64], row.repeat(rows)));
        run(&model, &[tokens(2, 20)])
    };
    assert_eq!(with_rows(1), with_rows(2), "one segment, or two equal ones");
}

#[test]
fn layers_of_an_embedding_model_share_their_state() {
    for (family, states) in [
        (&BERT, vec![StateKind::Full]),
        (&NOMIC_BERT, vec![StateKind::Full]),
        (&GEMMA_EMBEDDING, vec![StateKind::Around(WINDOW as u32 / 2), StateKind::Full]),
        (&QWEN3_EMBEDDING, vec![StateKind::Full]),
    ] {
        let model = load(&file(&tiny(family)), 256, &mut Reference::new()).expect("the model is whole");
        let kinds: Vec<StateKind> = model.plan.states.iter().map(|state| state.kind).collect();
        assert_eq!(kinds, states, "{}", family.name);
    }
}

#[test]
fn pooling_and_direction_come_from_metadata() {
    let check = |family: &'static Family, change: &dyn Fn(&mut Tiny), expected: Option<(Pooling, bool)>| {
        let mut model = tiny(family);
        change(&mut model);
        let loaded = load(&file(&model), 256, &mut Reference::new()).expect("the model is whole");
        let expected = expected.map(|(pooling, is_causal)| EmbeddingOutput { pooling, is_causal });
        assert_eq!(loaded.hparams.embedding, expected, "{}", family.name);
    };
    check(&BERT, &|_| (), Some((Pooling::Mean, false)));
    check(&BERT, &|model| drop(model.keys.remove("pooling_type")), Some((Pooling::Mean, false)));
    check(&BERT, &|model| model.set("pooling_type", 2u32), Some((Pooling::First, false)));
    check(&BERT, &|model| drop(model.keys.remove("attention.causal")), Some((Pooling::Mean, false)));
    check(&QWEN3_EMBEDDING, &|_| (), Some((Pooling::Last, true)));
    check(&QWEN3_EMBEDDING, &|model| model.set("attention.causal", false), Some((Pooling::Last, false)));
    check(&QWEN3_EMBEDDING, &|model| model.set("pooling_type", 0u32), None);
}

#[test]
fn activation_of_bert_comes_from_metadata() {
    let check = |activation: Option<&str>, tanh: usize, erf: usize| {
        let mut model = tiny(&BERT);
        if let Some(activation) = activation {
            model.set("hidden_activation", activation);
        }
        let ops = load(&file(&model), 256, &mut Reference::new()).expect("the model is whole").plan.ops;
        let count = |matches: fn(&Op) -> bool| ops.iter().filter(|op| matches(op)).count();
        let found = (count(|op| matches!(op, Op::Gelu { .. })), count(|op| matches!(op, Op::GeluErf { .. })));
        assert_eq!(found, (tanh, erf), "{activation:?}");
    };
    check(None, 0, LAYERS);
    check(Some("gelu"), 0, LAYERS);
    check(Some("gelu_pytorch_tanh"), LAYERS, 0);
}

#[test]
fn embedding_model_from_a_decoder_returns_its_normalised_rows() {
    let model = tiny(&QWEN3_EMBEDDING);
    let rows = run(&model, &[tokens(1, 5), tokens(1, 9)]);
    assert_eq!(rows[..5], rows[5..10], "rows attend only to earlier rows of their own text");
    let mean = |row: &[f32], weight: &[f32]| {
        row.iter().zip(weight).map(|(x, weight)| (x / weight).powi(2)).sum::<f32>() / WIDTH as f32
    };
    for row in &rows {
        let mean = mean(row, model.values("output_norm.weight"));
        assert!((mean - 1.0).abs() < 1e-3, "the rows are behind the last norm: {mean}");
    }
}

#[test]
fn invalid_files_of_encoders_are_refused() {
    let check = |family: &'static Family, change: &dyn Fn(&mut Tiny), expected: &str| {
        let mut model = tiny(family);
        change(&mut model);
        let error: LoadError = load(&file(&model), 256, &mut Reference::new()).expect_err(expected);
        assert!(error.to_string().contains(expected), "{error} lacks {expected:?}");
    };
    check(&BERT, &|model| model.set("pooling_type", 5u32), "metadata key `bert.pooling_type`: 5 is not in 0 to 4");
    let activation = "`bert.hidden_activation`: \"relu\" is not \"gelu\" or \"gelu_pytorch_tanh\"";
    check(&BERT, &|model| model.set("hidden_activation", "relu"), activation);
    check(&BERT, &|model| drop(model.tensors.remove("position_embd.weight")), "`position_embd.weight` is missing");
    check(&BERT, &|model| drop(model.tensors.remove("blk.1.attn_q.bias")), "`blk.1.attn_q.bias` is missing");
    check(&BERT, &|model| model.set("context_length", 100u32), "`position_embd.weight` must be [24, 100]");
    check(&NOMIC_BERT, &|model| model.set("moe_every_n_layers", 2u32), "nomic-bert with experts is not supported");
    check(&QWEN3_EMBEDDING, &|model| model.set("pooling_type", 4u32), "a reranker of the family qwen3");
    let labels = |model: &mut Tiny| model.add(&mut Noise(1), "cls.output.weight", &[WIDTH, 3]);
    check(&CROSS_ENCODER, &labels, "a cross-encoder with 3 labels is not supported");
}

#[test]
fn every_encoder_is_one_file_and_one_row() {
    let names = ROWS.iter().flat_map(|family| family.names()).copied();
    assert!(names.eq(ENCODERS.iter().map(|family| family.name)), "each encoder has random models");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/encoder");
    let names = std::fs::read_dir(folder).expect("the folder can be read");
    let files = names.map(|entry| entry.expect("the folder can be read").file_name());
    assert_eq!(files.filter(|name| name != "tests.rs").count(), ROWS.len(), "one file and one row in `ENCODERS`");
}

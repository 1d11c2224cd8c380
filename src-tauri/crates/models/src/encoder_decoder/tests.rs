//! Every family with an encoder and a decoder on tiny models: comparisons with a textbook forward pass in f64, without plans, pages or
//! shared code, and refusals.

use cairn_gguf::DType;
use cairn_tensor::{Limits, Reference};
use cairn_testkit::Family;
use cairn_testkit::families::{ENCODER_DECODERS, LLAMA, T5, T5_UNEVEN};

use crate::runs::answer_logits;
use crate::tiny::{HEAD_DIM, HEADS, LAYERS, Noise, Tiny, VOCAB, WIDTH};
use crate::{ENCODER_DECODERS as ROWS, ModelFile, load, load_encoder, memory_requirements};

type Matrix = Vec<Vec<f64>>;

fn file(model: &Tiny) -> ModelFile {
    ModelFile::builtin("tiny", model.bytes().leak()).expect("the writer writes what the reader reads")
}

fn tokens(seed: u32, count: u32) -> Vec<u32> {
    (0..count).map(|i| (i * 7 + seed) % VOCAB as u32).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The forward pass of T5, as in its paper's code.
struct Textbook<'a>(&'a Tiny);

impl Textbook<'_> {
    fn values(&self, name: &str) -> Option<Vec<f64>> {
        Some(self.0.tensors.get(name)?.1.iter().map(|&x| f64::from(x)).collect())
    }

    fn product(&self, name: &str, x: &Matrix) -> Matrix {
        let weight = self.values(&format!("{name}.weight")).unwrap_or_else(|| panic!("{name} exists"));
        x.iter().map(|row| weight.chunks(row.len()).map(|weight| dot(row, weight)).collect()).collect()
    }

    fn norm(&self, name: &str, x: &Matrix) -> Matrix {
        let weight = self.values(&format!("{name}.weight")).expect("a norm has a weight");
        let eps = self.0.number("attention.layer_norm_rms_epsilon").expect("the models have it");
        let of = |row: &Vec<f64>| {
            let root = (dot(row, row) / row.len() as f64 + eps).sqrt();
            row.iter().zip(&weight).map(|(x, weight)| x / root * weight).collect()
        };
        x.iter().map(of).collect()
    }

    /// Attention of queries to keys, with a bias by their positions, and without scores of `f64::NEG_INFINITY`.
    fn attend(q: &Matrix, k: &Matrix, v: &Matrix, bias: &dyn Fn(usize, usize, usize) -> f64) -> Matrix {
        let group = q[0].len() / k[0].len();
        let of = |(at, row): (usize, &Vec<f64>)| -> Vec<f64> {
            let head = |head: usize| {
                let part = |x: &[f64], head: usize| x[head * HEAD_DIM..][..HEAD_DIM].to_vec();
                let score = |(other, key): (usize, &Vec<f64>)| {
                    (dot(&part(row, head), &part(key, head / group)) + bias(head, at, other)).exp()
                };
                let scores: Vec<f64> = k.iter().enumerate().map(score).collect();
                let sum: f64 = scores.iter().sum();
                let mean = |element: usize| {
                    let weighted = scores.iter().zip(v).map(|(score, v)| score * part(v, head / group)[element]);
                    weighted.sum::<f64>() / sum
                };
                (0..HEAD_DIM).map(mean).collect::<Vec<f64>>()
            };
            (0..HEADS).flat_map(head).collect()
        };
        q.iter().enumerate().map(of).collect()
    }

    fn add(x: &mut Matrix, y: &Matrix) {
        x.iter_mut().zip(y).for_each(|(x, y)| x.iter_mut().zip(y).for_each(|(x, y)| *x += y));
    }

    /// The layers of a side. The decoder's attend to the output of the encoder.
    fn side(&self, side: &str, text: &[u32], layers: usize, encoded: Option<&Matrix>) -> Matrix {
        let embedding = self.values("token_embd.weight").expect("every model has embeddings");
        let mut x: Matrix = text.iter().map(|&token| embedding[token as usize * WIDTH..][..WIDTH].to_vec()).collect();
        let table = self.values(&format!("{side}.blk.0.attn_rel_b.weight")).expect("the first layer has biases");
        for layer in 0..layers {
            let name = |part: &str| format!("{side}.blk.{layer}.{part}");
            let own = self.values(&name("attn_rel_b.weight"));
            let table = own.as_ref().unwrap_or(&table);
            let bias = |head: usize, at: usize, other: usize| match other > at && encoded.is_some() {
                true => f64::NEG_INFINITY,
                false => table[bucket(other as i64 - at as i64, encoded.is_none()) * HEADS + head],
            };
            let h = self.norm(&name("attn_norm"), &x);
            let [q, k, v] = ["attn_q", "attn_k", "attn_v"].map(|part| self.product(&name(part), &h));
            Self::add(&mut x, &self.product(&name("attn_o"), &Self::attend(&q, &k, &v, &bias)));
            if let Some(encoded) = encoded {
                let q = self.product(&name("cross_attn_q"), &self.norm(&name("cross_attn_norm"), &x));
                let [k, v] = ["cross_attn_k", "cross_attn_v"].map(|part| self.product(&name(part), encoded));
                Self::add(&mut x, &self.product(&name("cross_attn_o"), &Self::attend(&q, &k, &v, &|_, _, _| 0.0)));
            }
            let h = self.norm(&name("ffn_norm"), &x);
            let mut inner = self.product(&name("ffn_up"), &h);
            if self.0.tensors.contains_key(&name("ffn_gate.weight")) {
                let gates = self.product(&name("ffn_gate"), &h);
                let gelu = |x: f64| x / 2.0 * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x.powi(3))).tanh());
                let rows = inner.iter_mut().zip(gates);
                rows.for_each(|(x, gate)| x.iter_mut().zip(gate).for_each(|(x, gate)| *x *= gelu(gate)));
            } else {
                inner.iter_mut().flatten().for_each(|x| *x = x.max(0.0));
            }
            Self::add(&mut x, &self.product(&name("ffn_down"), &inner));
        }
        self.norm(&format!("{side}.output_norm"), &x)
    }

    /// The output of the encoder, and the logits of the decoder.
    fn run(&self, input: &[u32], answer: &[u32]) -> [Matrix; 2] {
        let layers = self.0.number("decoder_block_count").map_or(LAYERS, |count| count as usize);
        let encoded = self.side("enc", input, LAYERS, None);
        let last = self.side("dec", answer, layers, Some(&encoded));
        let output = if self.0.tensors.contains_key("output.weight") { "output" } else { "token_embd" };
        let logits = self.product(output, &last);
        [encoded, logits]
    }
}

/// The bucket of a distance, of 32.
fn bucket(distance: i64, both_ways: bool) -> usize {
    let (first, apart, buckets) = match both_ways {
        true => (if distance > 0 { 16 } else { 0 }, distance.unsigned_abs() as usize, 16),
        false => (0, (-distance).max(0) as usize, 32),
    };
    let exact = buckets / 2;
    // Bucket `exact + n` begins at this distance.
    let start = |n: usize| exact as f64 * (128.0 / exact as f64).powf(n as f64 / exact as f64);
    let wide = (1..exact).take_while(|&n| start(n) <= apart as f64 + 1e-9).count();
    first + if apart < exact { apart } else { exact + wide }
}

fn check_near(what: &str, found: &[Vec<f32>], expected: &Matrix) {
    let scale = expected.iter().flatten().fold(0f64, |scale, x| scale.max(x.abs()));
    assert_eq!((found.len(), found[0].len()), (expected.len(), expected[0].len()), "{what}: the size");
    for (row, (found, expected)) in found.iter().zip(expected).enumerate() {
        for (found, expected) in found.iter().zip(expected) {
            let near = (f64::from(*found) - expected).abs() < 1e-4 * scale;
            assert!(near, "{what}, row {row}: {found}, not {expected}");
        }
    }
}

/// A tiny model. The random matrices of its queries are divided, so that unscaled scores differ little.
fn tiny(family: &'static Family) -> Tiny {
    let mut model = Tiny::from_family(family, 3);
    for (name, (_, values)) in &mut model.tensors {
        if name.ends_with("attn_q.weight") {
            values.iter_mut().for_each(|value| *value /= 3.0);
        }
    }
    model
}

#[test]
fn t5_agrees_with_a_textbook_forward_pass() {
    let mut own_tables = tiny(&T5);
    own_tables.add(&mut Noise(8), "dec.blk.1.attn_rel_b.weight", &[HEADS, 32]);
    own_tables.add(&mut Noise(9), "enc.blk.1.attn_rel_b.weight", &[HEADS, 32]);
    for (what, model) in [("gates", tiny(&T5)), ("no gates", tiny(&T5_UNEVEN)), ("own tables", own_tables)] {
        for (input, answer) in [(1, 3), (70, 9), (3, 40)] {
            let (input, answer) = (tokens(5, input), tokens(11, answer));
            let [encoded, logits] = Textbook(&model).run(&input, &answer);
            for cut in [1, 7, 64] {
                let found = answer_logits(&file(&model), &input, &answer, cut);
                let what = format!("{what}, an input of {}, cuts of {cut}", input.len());
                check_near(&format!("{what}: encoder"), &found[0], &encoded);
                check_near(&format!("{what}: logits"), &found[1], &logits);
            }
        }
    }
}

#[test]
fn long_inputs_agree_with_a_textbook_forward_pass() {
    let model = tiny(&T5);
    let (input, answer) = (tokens(5, 200), tokens(11, 150));
    let [encoded, logits] = Textbook(&model).run(&input, &answer);
    let found = answer_logits(&file(&model), &input, &answer, 150);
    check_near("encoder", &found[0], &encoded);
    check_near("logits", &found[1], &logits);
}

/// Checks that a model is refused with this text, by its head too.
fn check_refused(model: &Tiny, expected: &str) {
    let file = file(model);
    let error = load(&file, 256, &mut Reference::new()).expect_err("the model is not whole").to_string();
    assert!(error.contains(expected), "{error:?} lacks {expected:?}");
    let limits = Limits { rows: 64, logit_rows: 1 };
    let error = memory_requirements(&file, 256, limits, DType::F16).expect_err("the model is not whole").to_string();
    assert!(error.contains(expected), "{error:?} lacks {expected:?}");
}

#[test]
fn unusable_models_are_refused() {
    let mut model = tiny(&T5);
    model.tensors.retain(|name, _| !name.starts_with("enc."));
    check_refused(&model, "`enc.blk.0-1.attn_norm.weight` are missing");
    let mut model = tiny(&T5);
    model.tensors.retain(|name, _| !name.contains("cross_attn_k"));
    check_refused(&model, "2 tensors do not fit the model: `dec.blk.0-1.cross_attn_k.weight` are missing");
    let mut model = tiny(&T5);
    model.add(&mut Noise(1), "dec.blk.0.attn_rel_b.weight", &[HEADS, 16]);
    check_refused(&model, "1 tensor does not fit the model: `dec.blk.0.attn_rel_b.weight`");
    for (buckets, expected) in [
        (0u32, "`t5.attention.relative_buckets_count`: 0 is not in 1 to 4294967295"),
        (2, "an encoder cannot have 2 buckets of distances"),
        (300, "a decoder cannot have 300 buckets of distances"),
        (u32::MAX, "an encoder cannot have 4294967295 buckets of distances"),
    ] {
        let mut model = tiny(&T5);
        model.set("attention.relative_buckets_count", buckets);
        check_refused(&model, expected);
    }
    let mut model = tiny(&T5);
    model.set("decoder_start_token_id", 50u32);
    check_refused(&model, "there is no token 50 among 50");
    model.keys.remove("decoder_start_token_id");
    check_refused(&model, "t5.decoder_start_token_id");
    let mut model = tiny(&T5);
    model.set("decoder_block_count", 1_000_000u32);
    check_refused(&model, "t5.decoder_block_count");
    let mut model = tiny(&T5);
    model.set("pooling_type", 1u32);
    check_refused(&model, "an embedding model of t5");
}

#[test]
fn models_without_an_encoder_have_none_to_load() {
    let file = file(&Tiny::from_family(&LLAMA, 1));
    let error = load_encoder(&file, &mut Reference::new()).expect_err("Llama has no encoder").to_string();
    assert!(error.contains("a model without an encoder beside its decoder"), "{error}");
}

#[test]
fn memory_includes_the_encoder() {
    let file = file(&tiny(&T5));
    let limits = Limits { rows: 64, logit_rows: 1 };
    let need = |context| memory_requirements(&file, context, limits, DType::F16).expect("the model is whole");
    assert_eq!(need(256).weights_bytes, file.gguf().tensors().iter().map(|tensor| tensor.bytes).sum::<u64>(), "all");
    let per_token = (need(256).activations_bytes - need(128).activations_bytes) / 128;
    assert!(per_token as usize > WIDTH * size_of::<f32>(), "an input has rows in the encoder: {per_token} bytes each");
}

#[test]
fn each_family_has_a_file_and_random_models() {
    let names = ROWS.iter().flat_map(|family| family.names()).copied();
    assert!(names.eq(ENCODER_DECODERS.iter().map(|family| family.name)), "each family has random models");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/encoder_decoder");
    let entries = std::fs::read_dir(folder).expect("the folder exists");
    let files = entries.map(|entry| entry.expect("it can be listed").file_name());
    assert_eq!(files.filter(|name| name != "tests.rs").count(), ROWS.len(), "one file and one row");
}

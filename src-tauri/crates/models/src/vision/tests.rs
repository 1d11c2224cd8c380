//! Towers on tiny files: comparisons with a textbook forward pass in f64, without plans, pages or shared code.

use std::collections::HashMap;

use cairn_gguf::DType;
use cairn_image::Picture;
use cairn_tensor::{Backend, Reference};
use cairn_testkit::families::GEMMA3;
use cairn_testkit::tower::TowerSpec;

use super::*;

mod gemma4;
mod llava;
mod pixtral;
mod qwen;

type Matrix = Vec<Vec<f64>>;

/// Width of the text model.
const OUTPUT: usize = 20;

fn spec() -> TowerSpec {
    TowerSpec::tiny(OUTPUT as u64)
}

fn open(bytes: Vec<u8>) -> ModelFile {
    ModelFile::builtin("TOWER", bytes.leak()).expect("the writer writes what the reader reads")
}

/// A picture of different pixels.
fn picture(side: u32, seed: u8) -> Picture {
    pixels(side, side, seed)
}

/// A picture of any size of different pixels.
fn pixels(width: u32, height: u32, seed: u8) -> Picture {
    let rgb = (0..width * height * 3).map(|at| (at as u8).wrapping_mul(37).wrapping_add(seed)).collect();
    Picture::new(width, height, rgb).expect("the bytes fit the size")
}

/// Output rows of a picture.
fn rows(file: &ModelFile, picture: &Picture) -> Vec<Vec<f32>> {
    rows_of(file, picture, OUTPUT)
}

/// Output rows of a picture, of this width.
fn rows_of(file: &ModelFile, picture: &Picture, width: usize) -> Vec<Vec<f32>> {
    let (hparams, _) = check(file.tower().expect("it is a tower"), width).expect("the tower is whole");
    let grid = hparams.grid(picture.width(), picture.height()).expect("the picture has a size of the tower");
    rows_in(file, picture, &grid.into(), width)
}

/// Output rows of a picture of a size of the tower, in the order of this layout.
fn rows_in(file: &ModelFile, picture: &Picture, layout: &PictureLayout, width: usize) -> Vec<Vec<f32>> {
    let mut backend = Reference::new();
    let Tower { plan, hparams } = load(file, width, &mut backend).expect("the tower is whole");
    assert!(plan.has_alternating_states(), "the rows can be computed in tiles");
    let out = plan.logits.expect("a tower has an output");
    let plan = backend.prepare(plan, hparams.limits()).expect("the plan fits its weights");
    backend.grow_pages(hparams.pages()).expect("a few pages fit");
    let grid = layout.grid;
    let batch = cairn_tensor::Batch { embeddings: hparams.unfold(picture), ..hparams.batch(grid) };
    backend.run(plan, &batch).expect("the batch is within the limits");
    let mut values = vec![0.0; grid.groups() * width];
    backend.read(plan, out, 0..grid.groups(), &mut values);
    hparams.in_order(&values, layout).chunks(width).map(<[f32]>::to_vec).collect()
}

/// The forward pass of Gemma 3's tower, in the order of the pixels.
struct Textbook {
    tensors: HashMap<String, Vec<f64>>,
    spec: TowerSpec,
}

fn add(x: &mut Matrix, y: Matrix) {
    x.iter_mut().flatten().zip(y.into_iter().flatten()).for_each(|(x, y)| *x += y);
}

fn gelu(mut x: Matrix) -> Matrix {
    let gelu = |x: f64| x / 2.0 * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh());
    x.iter_mut().flatten().for_each(|x| *x = gelu(*x));
    x
}

/// The pixels of patches of this size, between -1 and 1, one color after the other.
fn patches(picture: &Picture, size: usize) -> Matrix {
    let width = picture.width() as usize;
    let (columns, rows) = (width / size, picture.height() as usize / size);
    let pixel =
        |color: usize, y: usize, x: usize| f64::from(picture.rgb()[(y * width + x) * 3 + color]) / 255.0 * 2.0 - 1.0;
    let patch = |at: usize| -> Vec<f64> {
        let (top, left) = (at / columns * size, at % columns * size);
        let elements = (0..3).flat_map(|color| (0..size).flat_map(move |y| (0..size).map(move |x| (color, y, x))));
        elements.map(|(color, y, x)| pixel(color, top + y, left + x)).collect()
    };
    (0..rows * columns).map(patch).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Textbook {
    fn new(spec: TowerSpec) -> Self {
        let tensor =
            |(name, _, values): (String, Vec<u64>, Vec<f32>)| (name, values.into_iter().map(f64::from).collect());
        Self { tensors: spec.tensors().into_iter().map(tensor).collect(), spec }
    }

    fn product(&self, prefix: &str, x: &Matrix) -> Matrix {
        let (weight, bias) = (&self.tensors[&format!("{prefix}.weight")], &self.tensors[&format!("{prefix}.bias")]);
        let of = |row: &Vec<f64>| {
            bias.iter().enumerate().map(|(at, bias)| dot(row, &weight[at * row.len()..][..row.len()]) + bias).collect()
        };
        x.iter().map(of).collect()
    }

    fn product_without_bias(&self, name: &str, x: &Matrix) -> Matrix {
        let weight = &self.tensors[name];
        let of = |row: &Vec<f64>| weight.chunks(row.len()).map(|weight| dot(row, weight)).collect();
        x.iter().map(of).collect()
    }

    fn rms_norm(&self, prefix: &str, x: &Matrix) -> Matrix {
        let weight = &self.tensors[&format!("{prefix}.weight")];
        let of = |row: &Vec<f64>| {
            let root = (dot(row, row) / row.len() as f64 + 1e-6).sqrt();
            row.iter().zip(weight).map(|(x, weight)| x / root * weight).collect()
        };
        x.iter().map(of).collect()
    }

    fn norm(&self, prefix: &str, x: &Matrix) -> Matrix {
        let (weight, bias) = (&self.tensors[&format!("{prefix}.weight")], &self.tensors[&format!("{prefix}.bias")]);
        let of = |row: &Vec<f64>| {
            let mean = row.iter().sum::<f64>() / row.len() as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / row.len() as f64;
            let scaled = row.iter().map(|x| (x - mean) / (variance + 1e-6).sqrt());
            scaled.zip(weight).zip(bias).map(|((x, weight), bias)| x * weight + bias).collect()
        };
        x.iter().map(of).collect()
    }

    fn attend(&self, [q, k, v]: [Matrix; 3]) -> Matrix {
        let dim = (self.spec.width / self.spec.heads) as usize;
        let row = |q: &Vec<f64>| -> Vec<f64> {
            let head = |head: usize| {
                let part = |row: &[f64]| row[head * dim..][..dim].to_vec();
                let scores = k.iter().map(|k| (dot(&part(q), &part(k)) / (dim as f64).sqrt()).exp());
                let scores: Vec<f64> = scores.collect();
                let sum: f64 = scores.iter().sum();
                let element = |at: usize| v.iter().zip(&scores).map(|(v, score)| score / sum * part(v)[at]).sum();
                (0..dim).map(element).collect::<Vec<f64>>()
            };
            (0..self.spec.heads as usize).flat_map(head).collect()
        };
        q.iter().map(row).collect()
    }

    fn run(&self, picture: &Picture) -> Matrix {
        let (size, patch) = (self.spec.image_size as usize, self.spec.patch_size as usize);
        let (side, width) = (size / patch, self.spec.width as usize);
        let mut x = self.product("v.patch_embd", &patches(picture, patch));
        let positions = &self.tensors["v.position_embd.weight"];
        x.iter_mut().flatten().zip(positions).for_each(|(x, position)| *x += position);
        for layer in 0..self.spec.layers {
            let name = |part: &str| format!("v.blk.{layer}.{part}");
            let input = self.norm(&name("ln1"), &x);
            let qkv = ["attn_q", "attn_k", "attn_v"].map(|part| self.product(&name(part), &input));
            add(&mut x, self.product(&name("attn_out"), &self.attend(qkv)));
            let inner = gelu(self.product(&name("ffn_up"), &self.norm(&name("ln2"), &x)));
            add(&mut x, self.product(&name("ffn_down"), &inner));
        }
        let x = self.norm("v.post_ln", &x);
        let groups = side / 4;
        let mean = |at: usize| -> Vec<f64> {
            let rows = (0..16).map(|of| (at / groups * 4 + of / 4) * side + at % groups * 4 + of % 4);
            let rows: Vec<usize> = rows.collect();
            (0..width).map(|element| rows.iter().map(|&row| x[row][element]).sum::<f64>() / 16.0).collect()
        };
        let (norm, projection) =
            (&self.tensors["mm.soft_emb_norm.weight"], &self.tensors["mm.input_projection.weight"]);
        let project = |row: Vec<f64>| -> Vec<f64> {
            let root = (dot(&row, &row) / width as f64 + 1e-6).sqrt();
            let row: Vec<f64> = row.iter().zip(norm).map(|(x, weight)| x / root * weight).collect();
            let element = |at: usize| (0..width).map(|from| row[from] * projection[from * OUTPUT + at]).sum::<f64>();
            (0..OUTPUT).map(|at| element(at) / (OUTPUT as f64).sqrt()).collect()
        };
        (0..groups * groups).map(mean).map(project).collect()
    }
}

fn check_rows(name: &str, found: &[Vec<f32>], expected: &Matrix) {
    assert_eq!(found.len(), expected.len(), "{name}: rows");
    for (row, (found, expected)) in found.iter().zip(expected).enumerate() {
        for (found, expected) in found.iter().zip(expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-4, "{name}, row {row}: {found} is not {expected}");
        }
    }
}

/// Checks the tower of a file with a changed head. Returns the error as text.
fn changed(
    spec: &TowerSpec,
    change: impl FnOnce(&mut cairn_gguf::Metadata, &mut Vec<cairn_gguf::Tensor>),
) -> Result<(), String> {
    let head = Gguf::parse(&spec.write()).expect("a written file is read");
    let changed: Result<Gguf, LoadError> = head.try_change(|metadata, tensors| {
        change(metadata, tensors);
        Ok(())
    });
    check(&changed.expect("no name is repeated"), OUTPUT).map(drop).map_err(|error| error.to_string())
}

/// Checks the tower of a file with another value of a key. Returns the error as text.
fn with_key(spec: &TowerSpec, key: &str, value: cairn_gguf::Value) -> Result<(), String> {
    changed(spec, |metadata, _| drop(metadata.set(key, value)))
}

#[test]
fn tower_equals_textbook() {
    let file = open(spec().write());
    let textbook = Textbook::new(spec());
    for seed in [0, 100] {
        let picture = picture(24, seed);
        check_rows("separate file", &rows(&file, &picture), &textbook.run(&picture));
    }
    assert!(rows(&file, &picture(24, 0)) != rows(&file, &picture(24, 1)), "the rows depend on the pixels");
}

#[test]
fn tower_in_ollamas_layout_has_the_same_rows() {
    let model = cairn_testkit::ModelSpec { width: OUTPUT as u64, ..cairn_testkit::tiny(&GEMMA3) };
    let text = cairn_testkit::write(&model);
    let file = open(spec().write_into(&text));
    let bits = |rows: Vec<Vec<f32>>| rows.into_iter().flatten().map(f32::to_bits).collect::<Vec<_>>();
    let picture = picture(24, 3);
    assert!(bits(rows(&file, &picture)) == bits(rows(&open(spec().write()), &picture)), "the same weights");
    let text = open(text);
    assert!(text.tower().is_none(), "a model without a tower");
    assert_eq!(file.gguf().tensors().len(), text.gguf().tensors().len(), "the text model has no tensors of the tower");
}

#[test]
fn exchanged_names_of_mlps_are_accepted() {
    let mut exchanged = spec();
    let bytes = spec().write();
    let gguf = Gguf::parse(&bytes).expect("a written file is read");
    let mut writer = cairn_gguf::Writer::default();
    for (key, value) in gguf.metadata().iter() {
        writer.set(key, value.clone());
    }
    for tensor in gguf.tensors() {
        let name = match tensor.name.contains("ffn_up") {
            true => tensor.name.replace("ffn_up", "ffn_down"),
            false => tensor.name.replace("ffn_down", "ffn_up"),
        };
        let bytes = bytes[tensor.offset as usize..][..tensor.bytes as usize].to_vec();
        writer.tensor(name, tensor.dtype, &tensor.dims, bytes).expect("a parsed tensor is valid");
    }
    let picture = picture(24, 9);
    assert!(rows(&open(writer.finish()), &picture) == rows(&open(bytes.clone()), &picture), "the same weights");
    exchanged.dtype = DType::F16;
    assert!(rows(&open(exchanged.write()), &picture) != rows(&open(bytes.clone()), &picture), "rounded weights");
}

#[test]
fn unusable_towers_are_refused_with_the_reason() {
    let change = |key: &str, value: cairn_gguf::Value| {
        let bytes = spec().write();
        let head = Gguf::parse(&bytes).expect("a written file is read");
        let changed: Result<Gguf, LoadError> = head.try_change(|metadata, _| {
            metadata.set(key, value);
            Ok(())
        });
        check(&changed.expect("no name is changed"), OUTPUT).map(drop).map_err(|error| error.to_string())
    };
    for (key, value, expected) in [
        ("clip.projector_type", "ldp".into(), "a vision tower of the kind \"ldp\" is not supported"),
        ("clip.projector_type", "a\"b\n\u{1b}".into(), r#"a vision tower of the kind "a\"b\n\u{1b}" is not supported"#),
        ("clip.vision.image_size", 25u32.into(), "do not divide a side of 25"),
        ("clip.vision.image_size", 4800u32.into(), "are more than 16384"),
        ("clip.vision.patch_size", 0u32.into(), "0 is not in 1 to"),
        ("clip.vision.attention.head_count", 5u32.into(), "5 heads do not divide a width of 24"),
        ("clip.vision.image_mean", vec![0.5f32; 2].into(), "2 numbers are not one finite number"),
        ("clip.vision.image_std", vec![0.5f32, 0.0, 0.5].into(), "has the deviation 0"),
        ("clip.vision.projection_dim", 24u32.into(), "mm.input_projection.weight"),
        ("clip.vision.block_count", 4u32.into(), "v.blk.3.attn_q.weight"),
    ] {
        let error = change(key, value).expect_err("the tower is unusable");
        assert!(error.contains(expected), "{key}: {error:?} lacks {expected:?}");
    }
    let long = change("clip.projector_type", "x\n".repeat(500_000).into()).expect_err("the tower is unusable");
    assert!(long.len() < 300, "a kind of 1 MB gives an error of {} bytes", long.len());
    let file = open(spec().write());
    let error = load(&file, 32, &mut Reference::new()).expect_err("another text model").to_string();
    assert!(error.contains("rows of 20 elements, and the model has rows of 32"), "{error}");
    assert!(compat::is_tower(file.gguf().metadata()) && file.tower().is_some(), "a file of a tower alone");
}

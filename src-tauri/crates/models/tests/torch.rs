//! Answers about pictures, compared with those that the models of Hugging Face's transformers 5.24 give for the same weights, tokens and
//! pixels. They are the only expected numbers here that neither Cairn nor llama.cpp computed.
//!
//! Each folder in `fixtures/torch` is a checkpoint with random weights in BF16 as `save_pretrained` writes it, with log probabilities of the
//! token behind a prompt. `fixtures/torch/record.py` made them with torch on CPUs, in F32.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use cairn_convert::{CheckpointFile, Conversion, FileType};
use cairn_image::Picture;
use cairn_models::{ModelFile, TowerHparams, vision};
use cairn_tensor::{Backend, Batch, Input, Limits, PAGE_TOKENS, PageId, Reference, Row};

/// Ids of the first tokens behind those of bytes.
const BEFORE_IMAGE: u32 = 258;
const BEHIND_IMAGE: u32 = 259;
/// Largest difference of log probabilities: GELU by the tangent instead of the error function is 0.0003. The color of CLIP around a
/// picture of LLaVA 1.6 would be 0.06, and another direction of rows of Gemma 4 is 0.6.
const MOST: f32 = 2e-3;

fn fixtures(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/torch").join(name)
}

/// Converts a folder to files with F32 weights: the text model and its tower. `change` can change the config.
fn converted(name: &str, change: impl Fn(String) -> String) -> [ModelFile; 2] {
    let folder = tempfile::tempdir().expect("a folder for files");
    let open = |name: &str, path: &Path| CheckpointFile {
        name: name.to_owned(),
        file: File::open(path).expect("it is there"),
    };
    let config = folder.path().join("config.json");
    let text = fs::read_to_string(fixtures(name).join("config.json")).expect("the fixture has a config");
    fs::write(&config, change(text)).expect("the folder is writable");
    let others = ["model.safetensors", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"];
    let mut files: Vec<_> = others.iter().map(|file| open(file, &fixtures(name).join(file))).collect();
    files.push(open("config.json", &config));
    let conversion = Conversion::new(&files, FileType::F32).expect("a valid checkpoint");
    assert_eq!(conversion.left_out(), None, "{name}: all parts");
    [&conversion, conversion.tower().expect("the checkpoint has a tower")].map(|part| {
        let mut bytes = Vec::new();
        part.write_to(&mut bytes, &mut |_| ()).expect("memory is writable");
        ModelFile::builtin(name, bytes.leak()).expect("a converted file is valid")
    })
}

/// A picture of smooth and of changing colors.
fn picture(width: u32, height: u32) -> Picture {
    let color = |x: u32, y: u32| [x * 255 / width, y * 255 / height, (x * 7 + y * 13) * 37 % 256];
    let pixels = (0..height).flat_map(|y| (0..width).flat_map(move |x| color(x, y))).map(|color| color as u8);
    Picture::new(width, height, pixels.collect()).expect("the bytes fit the size")
}

/// A picture of this width and 24 lines, each of one color.
fn lines(width: u32) -> Picture {
    let all = picture(24, 24);
    let line = |y: usize| all.rgb()[(y * 24 + 5) * 3..][..3].repeat(width as usize);
    Picture::new(width, 24, (0..24).flat_map(line).collect()).expect("the bytes fit the size")
}

/// Output rows of a picture in the order of the prompt.
fn rows(tower: &ModelFile, picture: &Picture, width: usize) -> (Vec<f32>, TowerHparams) {
    let mut backend = Reference::new();
    let vision::Tower { plan, hparams } = vision::load(tower, width, &mut backend).expect("the tower is whole");
    let layout = hparams.layout(picture.width(), picture.height());
    let picture = hparams.resize(picture).expect("the size is not zero");
    let out = plan.logits.expect("a tower has an output");
    let plan = backend.prepare(plan, hparams.limits()).expect("the plan fits its weights");
    backend.grow_pages(hparams.pages()).expect("a few pages fit");
    let batch = Batch { embeddings: hparams.unfold(&picture), ..hparams.batch(layout.grid) };
    backend.run(plan, &batch).expect("the batch is within the limits");
    let mut values = vec![0.0; layout.grid.groups() * width];
    backend.read(plan, out, 0..layout.grid.groups(), &mut values);
    (hparams.in_order(&values, &layout), hparams)
}

/// Log probabilities of the token behind a prompt of the rows of a picture between these tokens.
fn log_probabilities([text, tower]: &[ModelFile; 2], picture: &Picture, [before, behind]: [&[u32]; 2]) -> Vec<f32> {
    let width = vision::input_width(text.gguf()).expect("the model has embeddings");
    let (embeddings, hparams) = rows(tower, picture, width);
    let count = (embeddings.len() / width) as u32;
    let (start, end) = (before.len() as u32, before.len() as u32 + count);
    let total = end + behind.len() as u32;
    let mut backend = Reference::new();
    let model = cairn_models::load(text, total as usize, &mut backend).expect("the model is whole");
    let logits = model.plan.logits.expect("the plan ends in logits");
    let limits = Limits { rows: total as usize, logit_rows: 1 };
    let plan = backend.prepare(model.plan, limits).expect("the plan fits its weights");
    let pages = (total as usize).div_ceil(PAGE_TOKENS) as u32;
    backend.grow_pages(pages as usize).expect("a few pages fit");
    let mut batch = Batch { tables: vec![(0..pages).map(PageId).collect()], embeddings, ..Batch::default() };
    batch.rows.extend((0..).zip(before).map(|(slot, &token)| Row::text(0, token, slot, false)));
    batch.rows.extend((start..end).map(|slot| {
        let until = if hparams.prompt.is_causal { slot + 1 } else { end };
        Row { input: Input::Embedding(slot - start), until, ..Row::text(0, 0, slot, false) }
    }));
    batch.rows.extend((end..).zip(behind).map(|(slot, &token)| Row::text(0, token, slot, slot + 1 == total)));
    backend.run(plan, &batch).expect("the batch is within the limits");
    let mut values = vec![0.0; model.hparams.vocab];
    backend.read(plan, logits, 0..1, &mut values);
    let sum: f64 = values.iter().map(|&logit| f64::from(logit).exp()).sum();
    values.iter().map(|&logit| (f64::from(logit) - sum.ln()) as f32).collect()
}

fn check(name: &str, case: &str, found: &[f32]) {
    let bytes = fs::read(fixtures(name).join(format!("{case}.f32"))).expect("the fixture has the case");
    let expected: Vec<f32> = bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    assert_eq!(found.len(), expected.len(), "{name}, {case}: tokens");
    let most = found.iter().zip(&expected).map(|(found, expected)| (found - expected).abs()).fold(0.0, f32::max);
    println!("{name}, {case}: {most}");
    assert!(most < MOST, "{name}, {case}: log probabilities differ by {most}");
}

fn question() -> Vec<u32> {
    b"Look".iter().map(|&byte| byte.into()).collect()
}

#[test]
fn gemma_4_answers_as_in_transformers() {
    let behind = [&[BEHIND_IMAGE][..], &question()].concat();
    let prompt = [&[BEFORE_IMAGE][..], &behind];
    let vision = "\"use_bidirectional_attention\": \"vision\"";
    let causal = |config: String| {
        assert!(config.contains(vision), "the config of the fixture");
        config.replace(vision, "\"use_bidirectional_attention\": null")
    };
    let picture = picture(48, 60);
    check("gemma4", "vision", &log_probabilities(&converted("gemma4", |config| config), &picture, prompt));
    check("gemma4", "causal", &log_probabilities(&converted("gemma4", causal), &picture, prompt));
}

#[test]
fn llava_1_6_answers_as_in_transformers() {
    let files = converted("llava-next", |config| config);
    // Without a border, with one, and of a size that fits into one square.
    for width in [48, 40, 24] {
        let found = log_probabilities(&files, &lines(width), [&[], &question()]);
        check("llava-next", &format!("{width}x24"), &found);
    }
}

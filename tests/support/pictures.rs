//! Prompts with pictures for the comparison with llama.cpp: every kind of vision towers, each with a text model. All weights are F32.
//!
//! One file per case has recorded logits of llama.cpp behind the picture, as little-endian f32 `[tokens, vocabulary]`.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use cairn_image::Picture;
use cairn_models::{ModelFile, TowerHparams, vision};
use cairn_tensor::{Backend, Batch, Input, Limits, PAGE_TOKENS, PageId, Row, SnapshotId, SnapshotTable};
use cairn_testkit::families::{GEMMA3, GEMMA4, LLAMA, MISTRAL3, QWEN2VL, QWEN3VL, QWEN35};
use cairn_testkit::tower::{TowerKind, TowerSpec};
use cairn_testkit::{Family, ModelSpec, tiny};

use crate::cases::prompt;

/// Largest root of the mean square difference from llama.cpp, in units of llama.cpp's values. llama.cpp looks up GELU in a table of
/// F16, and we keep keys and values in F16.
pub const MAX_DEVIATION: f64 = 3e-3;
/// Tokens before and behind the picture.
const TOKENS: [usize; 2] = [5, 4];

/// A text model, its tower and a picture.
pub struct Case {
    /// "picture", then the kind of the tower.
    pub name: &'static str,
    /// The text model.
    pub model: ModelSpec,
    /// The tower.
    pub tower: TowerSpec,
    /// Width and height of the picture.
    pub size: [u32; 2],
}

/// Output of a model for a case.
#[derive(Debug)]
pub struct Output {
    /// Rows of the picture, as llama.cpp adds them to the text model's stream: `[rows, elements]`.
    pub rows: Vec<f32>,
    /// Logits of the tokens behind the picture: `[tokens, vocabulary]`.
    pub logits: Vec<f32>,
}

/// All cases. Only pictures of LLaVA are scaled: llama.cpp adds borders to others, and the processors of their models do not. Towers of
/// LLaVA have no class embedding here: its place in llama.cpp is another one than in CLIP. Nor do they enlarge pictures: llama.cpp's order
/// of the parts is another one than that of the models' training.
pub fn all() -> Vec<Case> {
    let case = |name, family: &'static Family, tower: fn(u64) -> TowerSpec, size| {
        let model = tiny(family);
        Case { name, tower: tower(model.width), model, size }
    };
    let llava = |has_norms, width| {
        let kind = TowerKind::Llava { has_class: false, sizes: Vec::new(), has_norms, has_newline: false };
        TowerSpec { kind, ..TowerSpec::tiny_llava(width) }
    };
    let qwen35 = |width| TowerSpec { kind: TowerKind::Qwen3 { deepstack: Vec::new() }, ..TowerSpec::tiny_qwen3(width) };
    let mut cases = vec![
        case("picture gemma3", &GEMMA3, TowerSpec::tiny, [24, 24]),
        case("picture gemma4", &GEMMA4, TowerSpec::tiny_gemma4, [60, 54]),
        case("picture pixtral", &MISTRAL3, TowerSpec::tiny_pixtral, [48, 32]),
        case("picture qwen2.5vl", &QWEN2VL, TowerSpec::tiny_qwen25, [252, 140]),
        case("picture qwen3vl", &QWEN3VL, TowerSpec::tiny_qwen3, [80, 48]),
        case("picture qwen3.5", &QWEN35, qwen35, [48, 80]),
    ];
    for (name, has_norms, size) in [
        ("picture llava", false, [24, 24]),
        ("picture llava scaled", false, [60, 40]),
        ("picture llava norms", true, [24, 24]),
    ] {
        let model = tiny(&LLAMA);
        cases.push(Case { name, tower: llava(has_norms, model.width), model, size });
    }
    cases
}

/// Returns the folder of the recordings.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/pictures")
}

impl Case {
    /// The name of its files, without an ending.
    pub fn file_stem(&self) -> String {
        self.name.replace(' ', "-")
    }

    /// Tokens before and behind the picture.
    pub fn tokens(&self) -> [Vec<u32>; 2] {
        TOKENS.map(|tokens| prompt(tokens, self.model.vocab))
    }

    /// A picture of smooth and of random colors.
    ///
    /// # Panics
    /// Never: the size is not zero.
    pub fn picture(&self) -> Picture {
        let [width, height] = self.size;
        let color = |x: u32, y: u32| [x * 255 / width, y * 255 / height, (x * 7 + y * 13) * 37 % 256];
        let pixels = (0..height).flat_map(|y| (0..width).flat_map(move |x| color(x, y)));
        Picture::new(width, height, pixels.map(|color| color as u8).collect()).expect("the size is not zero")
    }

    /// Writes both files to a folder and opens them: the text model and the tower.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, folder: &Path) -> anyhow::Result<[PathBuf; 2]> {
        let paths = ["model", "tower"].map(|part| folder.join(format!("{}-{part}.gguf", self.file_stem())));
        cairn_testkit::write_file(&self.model, &paths[0])?;
        std::fs::write(&paths[1], self.tower.write())?;
        Ok(paths)
    }

    /// Computes the case.
    ///
    /// # Errors
    /// A file cannot be loaded.
    pub fn evaluate(
        &self,
        paths: &[PathBuf; 2],
        backend: impl Fn() -> anyhow::Result<Box<dyn Backend>>,
    ) -> anyhow::Result<Output> {
        let [model, tower] = [ModelFile::open(&paths[0])?, ModelFile::open(&paths[1])?];
        let width = vision::input_width(model.gguf()).context("the model has embeddings")?;
        let (mut rows, hparams, size) = rows_of(&tower, &self.picture(), width, backend()?)?;
        let logits = self.logits(&model, &rows, (&hparams, size), width, backend()?)?;
        if let TowerKind::Gemma3 | TowerKind::Gemma4 = self.tower.kind {
            // The plan of the text model multiplies all rows by this factor.
            rows.iter_mut().for_each(|row| *row *= (width as f32).sqrt());
        }
        Ok(Output { rows, logits })
    }

    /// Computes the logits behind the rows of a picture of this size.
    fn logits(
        &self,
        file: &ModelFile,
        rows: &[f32],
        (hparams, [height, columns]): (&TowerHparams, [usize; 2]),
        width: usize,
        mut backend: Box<dyn Backend>,
    ) -> anyhow::Result<Vec<f32>> {
        let [before, after] = self.tokens();
        let count = rows.len() / width;
        let total = before.len() + count + after.len();
        let model = cairn_models::load(file, total, backend.as_mut())?;
        let logits = model.plan.logits.context("the plan ends in logits")?;
        let plan = backend.prepare(model.plan, Limits { rows: total, logit_rows: after.len() })?;
        let pages = total.div_ceil(PAGE_TOKENS);
        backend.grow_pages(pages)?;
        backend.grow_snapshots(1)?;
        let mut batch = Batch {
            tables: vec![(0..pages as u32).map(PageId).collect()],
            snapshots: vec![SnapshotTable { from: None, to: vec![(total as u32, SnapshotId(0))] }],
            adapters: vec![Vec::new()],
            embeddings: rows.to_vec(),
            ..Batch::default()
        };
        let first = before.len();
        batch.rows.extend(before.iter().zip(0..).map(|(&token, slot)| Row::text(0, token, slot, false)));
        for row in 0..count {
            let slot = (first + row) as u32;
            let pos = match hparams.prompt.has_places {
                false => Row::text_position(slot),
                true => [first, first + row / columns, first + row % columns, 0].map(|component| component as u32),
            };
            let until = if hparams.prompt.is_causal { slot + 1 } else { (first + count) as u32 };
            batch.rows.push(Row { seq: 0, input: Input::Embedding(row as u32), slot, pos, until, want_logits: false });
        }
        let positions = if hparams.prompt.has_places { height.max(columns) } else { count };
        for (at, token) in after.iter().enumerate() {
            let row = Row::text(0, *token, (first + count + at) as u32, true);
            batch.rows.push(Row { pos: Row::text_position((first + positions + at) as u32), ..row });
        }
        backend.run(plan, &batch)?;
        let mut values = vec![0.0; after.len() * model.hparams.vocab];
        backend.read(plan, logits, 0..after.len(), &mut values);
        Ok(values)
    }
}

/// Computes the rows of a picture, and returns the shape of the tower and the numbers of rows and columns of groups.
fn rows_of(
    file: &ModelFile,
    picture: &Picture,
    width: usize,
    mut backend: Box<dyn Backend>,
) -> anyhow::Result<(Vec<f32>, TowerHparams, [usize; 2])> {
    let tower = vision::load(file, width, backend.as_mut())?;
    let hparams = tower.hparams;
    let layout = hparams.layout(picture.width(), picture.height());
    let (picture, grid) = (hparams.resize(picture)?, layout.grid);
    let out = tower.plan.logits.context("a tower has an output")?;
    let plan = backend.prepare(tower.plan, hparams.limits())?;
    backend.grow_pages(hparams.pages())?;
    backend.run(plan, &Batch { embeddings: hparams.unfold(&picture), ..hparams.batch(grid) })?;
    let mut rows = vec![0.0; grid.groups() * width];
    backend.read(plan, out, 0..grid.groups(), &mut rows);
    Ok((hparams.in_order(&rows, &layout), hparams, [grid.rows, grid.columns]))
}

/// Returns the root of the mean square difference, in units of `theirs`.
///
/// # Errors
/// There are other numbers of values, or all of llama.cpp's are zero.
pub fn deviation(ours: &[f32], theirs: &[f32]) -> anyhow::Result<f64> {
    ensure!(ours.len() == theirs.len(), "{} values, llama.cpp has {}", ours.len(), theirs.len());
    let square = |difference: f64| difference * difference;
    let differences: f64 = ours.iter().zip(theirs).map(|(a, b)| square(f64::from(a - b))).sum();
    let size: f64 = theirs.iter().map(|&b| square(f64::from(b))).sum();
    ensure!(size > 0.0, "llama.cpp's values are zero");
    Ok((differences / size).sqrt())
}

/// Reads the recorded logits of a case.
///
/// # Errors
/// The file cannot be read.
pub fn read(case: &Case) -> anyhow::Result<Vec<f32>> {
    let path = folder().join(format!("{}.f32", case.file_stem()));
    let bytes = std::fs::read(&path).with_context(|| format!("{} is not there", path.display()))?;
    Ok(values(&bytes))
}

/// Returns the numbers of little-endian bytes.
pub fn values(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

//! The tower of Qwen 3 VL and 3.5.

use cairn_testkit::families::{QWEN2VL, QWEN3VL, QWEN35};
use cairn_testkit::tower::TowerKind;

use super::*;

fn spec() -> TowerSpec {
    TowerSpec::tiny_qwen3(OUTPUT as u64)
}

/// Width of an output row: for the first layer, and behind two layers.
const ROW: usize = 3 * OUTPUT;

/// The forward pass, in the order of the pixels.
fn textbook(spec: &TowerSpec, picture: &Picture) -> Matrix {
    let textbook = Textbook::new(spec.clone());
    let (patch, width) = (spec.patch_size as usize, spec.width as usize);
    let [columns, rows] = [picture.width(), picture.height()].map(|side| side as usize / patch);
    let TowerKind::Qwen3 { deepstack } = &spec.kind else { panic!("a tower of Qwen") };
    // Each of both equal frames has its projection.
    let patches = patches(picture, patch);
    let mut x = textbook.product("v.patch_embd", &patches);
    add(&mut x, textbook.product_without_bias("v.patch_embd.weight.1", &patches));
    let table = &textbook.tensors["v.position_embd.weight"];
    let side = (spec.image_size / spec.patch_size) as usize;
    for (at, x) in x.iter_mut().enumerate() {
        let scaled = |at: usize, count: usize| at as f64 * (side - 1) as f64 / (count - 1) as f64;
        let (y, column) = (scaled(at / columns, rows), scaled(at % columns, columns));
        for (element, x) in x.iter_mut().enumerate() {
            // Tent functions around the entries are bilinear interpolation.
            let tent = |place: f64, entry: usize| (1.0 - (place - entry as f64).abs()).max(0.0);
            let entry = |entry: usize| {
                let weight = tent(y, entry / side) * tent(column, entry % side);
                weight * table[entry * width + element]
            };
            *x += (0..side * side).map(entry).sum::<f64>();
        }
    }
    let mut parts = Vec::new();
    for layer in 0..spec.layers {
        let name = |part: &str| format!("v.blk.{layer}.{part}");
        let qkv = textbook.product(&name("attn_qkv"), &textbook.norm(&name("ln1"), &x));
        let part = |nth: usize| qkv.iter().map(|row| row[nth * width..][..width].to_vec()).collect::<Matrix>();
        let rotated = |nth: usize| rotate(part(nth), spec, columns);
        add(&mut x, textbook.product(&name("attn_out"), &textbook.attend([rotated(0), rotated(1), part(2)])));
        let inner = gelu(textbook.product(&name("ffn_up"), &textbook.norm(&name("ln2"), &x)));
        add(&mut x, textbook.product(&name("ffn_down"), &inner));
        if deepstack.contains(&layer) {
            let name = |part: &str| format!("v.deepstack.{layer}.{part}");
            let joined = textbook.norm(&name("norm"), &join(&x, columns));
            parts.push(textbook.product(&name("fc2"), &gelu(textbook.product(&name("fc1"), &joined))));
        }
    }
    let joined = join(&textbook.norm("v.post_ln", &x), columns);
    parts.insert(0, textbook.product("mm.2", &gelu(textbook.product("mm.0", &joined))));
    (0..rows * columns / 4).map(|row| parts.iter().flat_map(|part| part[row].clone()).collect()).collect()
}

/// The same for Qwen 2.5 VL, with windows of 8 by 8 patches.
fn textbook_25(spec: &TowerSpec, picture: &Picture) -> Matrix {
    let textbook = Textbook::new(spec.clone());
    let patch = spec.patch_size as usize;
    let columns = picture.width() as usize / patch;
    let TowerKind::Qwen25 { full_interval } = spec.kind else { panic!("a tower of Qwen 2.5") };
    let patches = patches(picture, patch);
    let frames = ["v.patch_embd.weight", "v.patch_embd.weight.1"];
    let mut x: Matrix = vec![vec![0.0; spec.width as usize]; patches.len()];
    frames.into_iter().for_each(|name| add(&mut x, textbook.product_without_bias(name, &patches)));
    for layer in 0..spec.layers {
        let name = |part: &str| format!("v.blk.{layer}.{part}");
        let input = textbook.rms_norm(&name("ln1"), &x);
        let [q, k, v] = ["attn_q", "attn_k", "attn_v"].map(|part| textbook.product(&name(part), &input));
        let [q, k] = [q, k].map(|x| rotate(x, spec, columns));
        let is_full = (layer + 1) % u64::from(full_interval) == 0;
        let window = |at: usize| if is_full { (0, 0) } else { (at / columns / 8, at % columns / 8) };
        let attended = (0..x.len()).map(|at| {
            let seen = |rows: &Matrix| {
                let seen = rows.iter().enumerate().filter(|(other, _)| window(*other) == window(at));
                seen.map(|(_, row)| row.clone()).collect::<Matrix>()
            };
            textbook.attend([vec![q[at].clone()], seen(&k), seen(&v)]).remove(0)
        });
        let attended = attended.collect();
        add(&mut x, textbook.product(&name("attn_out"), &attended));
        let input = textbook.rms_norm(&name("ln2"), &x);
        let [mut inner, up] = ["ffn_gate", "ffn_up"].map(|part| textbook.product(&name(part), &input));
        let gated = inner.iter_mut().flatten().zip(up.into_iter().flatten());
        gated.for_each(|(gate, up)| *gate = *gate / (1.0 + (-*gate).exp()) * up);
        add(&mut x, textbook.product(&name("ffn_down"), &inner));
    }
    let joined = join(&textbook.rms_norm("v.post_ln", &x), columns);
    textbook.product("mm.2", &gelu(textbook.product("mm.0", &joined)))
}

#[test]
fn tower_of_qwen25_equals_textbook() {
    let spec = TowerSpec::tiny_qwen25(OUTPUT as u64);
    let file = open(spec.write());
    let model = cairn_testkit::ModelSpec { width: OUTPUT as u64, ..cairn_testkit::tiny(&QWEN2VL) };
    let ollama = rename_architecture(&spec.write_into(&cairn_testkit::write(&model)));
    let in_ollamas_layout = open(ollama);
    for (width, height) in [(84, 56), (252, 140), (140, 308)] {
        let picture = pixels(width, height, 11);
        let name = format!("{width} x {height}");
        check_rows(&name, &rows_of(&file, &picture, OUTPUT), &textbook_25(&spec, &picture));
    }
    // Its colors have other means.
    let picture = pixels(252, 140, 3);
    let changed = rows_of(&in_ollamas_layout, &picture, OUTPUT);
    assert!(changed.iter().flatten().all(|x| x.is_finite()), "the tower runs");
    let head = in_ollamas_layout.tower().expect("the file has a tower");
    let (hparams, _) = check(head, OUTPUT).expect("the tower is whole");
    assert_eq!(hparams.mean.map(|mean| (mean * 1000.0) as u32), [481, 457, 408], "those of CLIP");
}

/// Returns a file of Qwen 2 VL under the name that Ollama has for Qwen 2.5 VL.
fn rename_architecture(bytes: &[u8]) -> Vec<u8> {
    let gguf = Gguf::parse(bytes).expect("the file is valid GGUF");
    let mut writer = cairn_gguf::Writer::default();
    for (key, value) in gguf.metadata().iter().filter(|(key, _)| *key != "general.architecture") {
        writer.set(key.replace("qwen2vl.", "qwen25vl."), value.clone());
    }
    writer.set("general.architecture", "qwen25vl");
    for tensor in gguf.tensors() {
        let bytes = bytes[tensor.offset as usize..][..tensor.bytes as usize].to_vec();
        writer.tensor(tensor.name.clone(), tensor.dtype, &tensor.dims, bytes).expect("a parsed tensor is valid");
    }
    writer.finish()
}

/// Rotates the halves of heads: a half of the pairs by the row, the others by the column of a patch.
fn rotate(x: Matrix, spec: &TowerSpec, columns: usize) -> Matrix {
    let dim = (spec.width / spec.heads) as usize;
    let of = |(at, mut row): (usize, Vec<f64>)| {
        for head in row.chunks_mut(dim) {
            for pair in 0..dim / 2 {
                let (place, nth) = if pair < dim / 4 { (at / columns, pair) } else { (at % columns, pair - dim / 4) };
                let angle = place as f64 / 10_000f64.powf(nth as f64 / (dim / 4) as f64);
                let [a, b] = [head[pair], head[pair + dim / 2]];
                head[pair] = a * angle.cos() - b * angle.sin();
                head[pair + dim / 2] = a * angle.sin() + b * angle.cos();
            }
        }
        row
    };
    x.into_iter().enumerate().map(of).collect()
}

/// Joins squares of four patches.
fn join(x: &Matrix, columns: usize) -> Matrix {
    let groups = columns / 2;
    let of = |at: usize| -> Vec<f64> {
        let first = at / groups * 2 * columns + at % groups * 2;
        [first, first + 1, first + columns, first + columns + 1].iter().flat_map(|&patch| x[patch].clone()).collect()
    };
    (0..x.len() / 4).map(of).collect()
}

#[test]
fn tower_of_qwen_equals_textbook() {
    let file = open(spec().write());
    for (width, height) in [(16, 16), (40, 24), (8, 32)] {
        let picture = pixels(width, height, 11);
        check_rows(&format!("{width} x {height}"), &rows_of(&file, &picture, ROW), &textbook(&spec(), &picture));
    }
}

#[test]
fn tower_of_qwen_in_ollamas_layout_has_the_same_rows() {
    let picture = pixels(40, 24, 5);
    for (family, deepstack, width) in [(&QWEN3VL, vec![0, 2], ROW), (&QWEN35, vec![], OUTPUT)] {
        let model = cairn_testkit::ModelSpec { width: OUTPUT as u64, ..cairn_testkit::tiny(family) };
        let text = cairn_testkit::write(&model);
        let spec = TowerSpec { kind: TowerKind::Qwen3 { deepstack }, ..spec() };
        // A file of Qwen 3 VL in Ollama's layout has no sections of positions.
        let gguf = Gguf::parse(&text).expect("the file is valid GGUF");
        let file = open(without_sections(&gguf, &spec.write_into(&text)));
        let name = family.name;
        assert_eq!(input_width(file.gguf()).ok(), Some(width), "{name}: width of the text model's rows");
        check_rows(name, &rows_of(&file, &picture, width), &textbook(&spec, &picture));
        let count = gguf.tensors().len();
        assert_eq!(file.gguf().tensors().len(), count, "{name}: the text model has no tensors of the tower");
    }
    for (indexes, expected) in [
        (vec![2i32, 0], "are not ascending layers of 4"),
        (vec![4], "are not ascending layers of 4"),
        (vec![-1], "are not ascending layers of 4"),
    ] {
        let model = cairn_testkit::ModelSpec { width: OUTPUT as u64, ..cairn_testkit::tiny(&QWEN35) };
        let bytes = spec().write_into(&cairn_testkit::write(&model));
        let head = Gguf::parse(&bytes).expect("the file is valid GGUF");
        let changed: Result<Gguf, LoadError> = head.try_change(|metadata, _| {
            metadata.set("qwen35.vision.deepstack_visual_indexes", indexes.clone());
            Ok(())
        });
        let error = super::head(&changed.expect("no name is changed")).expect_err("the marks are wrong").to_string();
        assert!(error.contains(expected), "{indexes:?}: {error:?} lacks {expected:?}");
    }
}

/// Returns a file without sections of positions if it is one of Qwen 3 VL.
fn without_sections(gguf: &Gguf, bytes: &[u8]) -> Vec<u8> {
    const KEY: &str = "qwen3vl.rope.dimension_sections";
    if gguf.metadata().get(KEY).is_none() {
        return bytes.to_vec();
    }
    let gguf = Gguf::parse(bytes).expect("the file is valid GGUF");
    let mut writer = cairn_gguf::Writer::default();
    for (key, value) in gguf.metadata().iter().filter(|(key, _)| *key != KEY) {
        writer.set(key, value.clone());
    }
    for tensor in gguf.tensors() {
        let bytes = bytes[tensor.offset as usize..][..tensor.bytes as usize].to_vec();
        writer.tensor(tensor.name.clone(), tensor.dtype, &tensor.dims, bytes).expect("a parsed tensor is valid");
    }
    writer.finish()
}

#[test]
fn towers_of_qwen_with_other_marks_or_groups_are_refused() {
    let change = |key: &str, value: cairn_gguf::Value| {
        let head = Gguf::parse(&spec().write()).expect("a written file is read");
        let changed: Result<Gguf, LoadError> = head.try_change(|metadata, _| {
            metadata.set(key, value);
            Ok(())
        });
        check(&changed.expect("no name is changed"), ROW).map(drop).map_err(|error| error.to_string())
    };
    let marks = |count: usize| cairn_gguf::Value::Array(cairn_gguf::Array::Bool(vec![true; count]));
    for (key, value, expected) in [
        ("clip.vision.is_deepstack_layers", marks(3), "it is not a list of 4 booleans"),
        ("clip.vision.is_deepstack_layers", 1u32.into(), "it is not a list of 4 booleans"),
        ("clip.vision.is_deepstack_layers", marks(4), "v.deepstack.1.norm.weight"),
        ("clip.vision.spatial_merge_size", 4u32.into(), "groups of 4 x 4 patches"),
        ("clip.vision.attention.head_count", 4u32.into(), "heads of 6"),
        ("clip.vision.projection_dim", 24u32.into(), "mm.2.weight"),
    ] {
        let error = change(key, value).expect_err("the tower is unusable");
        assert!(error.contains(expected), "{key}: {error:?} lacks {expected:?}");
    }
    let head = Gguf::parse(&spec().write()).expect("a written file is read");
    let error = check(&head, OUTPUT).expect_err("a text model without additions behind layers").to_string();
    assert!(error.contains("rows of 60 elements, and the model has rows of 20"), "{error}");
}

#[test]
fn pictures_keep_their_proportions_within_limits() {
    let head = Gguf::parse(&spec().write()).expect("a written file is read");
    let (hparams, _) = check(&head, ROW).expect("the tower is whole");
    for (width, height) in [(16, 16), (1, 1), (8192, 1), (1, 8192), (3000, 2000), (33, 7), (8192, 8192), (17, 100_000)]
    {
        let grid = hparams.grid_for(width, height);
        assert!(grid.groups() <= 1024 && grid.rows > 0 && grid.columns > 0, "{width} x {height}: {grid:?}");
        let [columns, rows] = [grid.columns, grid.rows].map(|groups| groups * 8);
        assert_eq!(hparams.grid_for(columns, rows), grid, "{width} x {height} keeps its size");
        assert_eq!(hparams.grid(columns as u32, rows as u32), Some(grid), "{width} x {height}");
        assert_eq!(hparams.grid(columns as u32 + 1, rows as u32), None, "not whole groups");
    }
    let grid = hparams.grid_for(3000, 2000);
    let ratio = grid.columns as f64 / grid.rows as f64;
    assert!(grid.groups() > 900 && (ratio - 1.5).abs() < 0.06, "{grid:?}");
}

#[test]
fn pictures_of_all_proportions_are_computed() {
    for spec in [spec(), TowerSpec::tiny_qwen25(OUTPUT as u64)] {
        let file = open(spec.write());
        let width = if spec.kind == (TowerKind::Qwen25 { full_interval: 2 }) { OUTPUT } else { ROW };
        let mut backend = cairn_tensor::Reference::new();
        let tower = load(&file, width, &mut backend).expect("the tower is whole");
        let (hparams, patch) = (tower.hparams.clone(), 2 * spec.patch_size as u32);
        let plan = backend.prepare(tower.plan, hparams.limits()).expect("the plan fits its weights");
        backend.grow_pages(hparams.pages()).expect("a few pages fit");
        for (columns, rows) in [(1, 4), (4, 1), (1, 1024), (1024, 1), (3, 5), (9, 2), (2, 9), (17, 13), (4, 256)] {
            let picture = pixels(columns * patch, rows * patch, 3);
            let grid = hparams.grid(picture.width(), picture.height()).expect("whole groups");
            let batch = cairn_tensor::Batch { embeddings: hparams.unfold(&picture), ..hparams.batch(grid) };
            let tile = Some(cairn_tensor::Tile { rows: 0..4, stage: 0 });
            // The first tile checks the whole batch.
            backend
                .run(plan, &cairn_tensor::Batch { tile, ..batch })
                .unwrap_or_else(|error| panic!("{grid:?}: {error}"));
        }
    }
}

//! The tower of Gemma 4.

use cairn_testkit::families::GEMMA4;

use super::*;

fn spec() -> TowerSpec {
    TowerSpec::tiny_gemma4(OUTPUT as u64)
}

/// The forward pass, in the order of the pixels.
struct Gemma4 {
    textbook: Textbook,
    columns: usize,
}

impl Gemma4 {
    /// Limits values, if the tower has limits of this name.
    fn limit(&self, mut x: Matrix, name: &str) -> Matrix {
        let end = |end: &str| self.textbook.tensors.get(&format!("{name}_{end}")).map(|values| values[0]);
        if let (Some(least), Some(most)) = (end("min"), end("max")) {
            x.iter_mut().flatten().for_each(|x| *x = x.max(least).min(most));
        }
        x
    }

    fn product(&self, name: &str, x: &Matrix) -> Matrix {
        let input = self.limit(x.clone(), &format!("{name}.input"));
        self.limit(self.textbook.product_without_bias(&format!("{name}.weight"), &input), &format!("{name}.output"))
    }

    /// Normalises the heads.
    fn norm_heads(&self, mut x: Matrix, name: Option<&str>) -> Matrix {
        let dim = (self.textbook.spec.width / self.textbook.spec.heads) as usize;
        let weight = name.map_or(vec![1.0; dim], |name| self.textbook.tensors[name].clone());
        for head in x.iter_mut().flat_map(|row| row.chunks_mut(dim)) {
            let root = (dot(head, head) / dim as f64 + 1e-6).sqrt();
            head.iter_mut().zip(&weight).for_each(|(x, weight)| *x = *x / root * weight);
        }
        x
    }

    /// Rotates the halves of a head separately: the first by the column, the second by the row.
    fn rotate(&self, mut x: Matrix) -> Matrix {
        let half = (self.textbook.spec.width / self.textbook.spec.heads) as usize / 2;
        for (at, row) in x.iter_mut().enumerate() {
            for (nth, half_head) in row.chunks_mut(half).enumerate() {
                let place = if nth % 2 == 0 { at % self.columns } else { at / self.columns };
                for pair in 0..half / 2 {
                    let angle = place as f64 / 100f64.powf(2.0 * pair as f64 / half as f64);
                    let [a, b] = [half_head[pair], half_head[pair + half / 2]];
                    half_head[pair] = a * angle.cos() - b * angle.sin();
                    half_head[pair + half / 2] = a * angle.sin() + b * angle.cos();
                }
            }
        }
        x
    }

    fn run(&self, picture: &Picture) -> Matrix {
        let Self { textbook, columns } = self;
        let (spec, width) = (&textbook.spec, textbook.spec.width as usize);
        let dim = width / spec.heads as usize;
        let mut x = textbook.product_without_bias("v.patch_embd.weight", &patches(picture, spec.patch_size as usize));
        let positions = &textbook.tensors["v.position_embd.weight"];
        let count = positions.len() / width / 2;
        for (at, x) in x.iter_mut().enumerate() {
            for (element, x) in x.iter_mut().enumerate() {
                let [column, row] = [at % columns, count + at / columns].map(|at| positions[at * width + element]);
                *x += column + row;
            }
        }
        for layer in 0..spec.layers {
            let name = |part: &str| format!("v.blk.{layer}.{part}");
            let input = textbook.rms_norm(&name("ln1"), &x);
            let [q, k, v] = ["attn_q", "attn_k", "attn_v"].map(|part| self.product(&name(part), &input));
            let [mut q, k] = [(q, "attn_q_norm.weight"), (k, "attn_k_norm.weight")]
                .map(|(x, norm)| self.rotate(self.norm_heads(x, Some(&name(norm)))));
            // Scores are not scaled.
            q.iter_mut().flatten().for_each(|q| *q *= (dim as f64).sqrt());
            let attended = textbook.attend([q, k, self.norm_heads(v, None)]);
            add(&mut x, textbook.rms_norm(&name("attn_post_norm"), &self.product(&name("attn_out"), &attended)));
            let input = textbook.rms_norm(&name("ln2"), &x);
            let [mut inner, up] = ["ffn_gate", "ffn_up"].map(|part| self.product(&name(part), &input));
            let gated = inner.iter_mut().flatten().zip(up.into_iter().flatten());
            gated.for_each(|(gate, up)| *gate = *gate / (1.0 + (-1.702 * *gate).exp()) * up);
            add(&mut x, textbook.rms_norm(&name("ffn_post_norm"), &self.product(&name("ffn_down"), &inner)));
            let factor = textbook.tensors[&name("out_scale.weight")][0];
            x.iter_mut().flatten().for_each(|x| *x *= factor);
        }
        let groups = columns / 3;
        let [bias, scale] = ["v.std_bias", "v.std_scale"].map(|name| &textbook.tensors[name]);
        let pooled = |group: usize| -> Vec<f64> {
            let corner = group / groups * 3 * columns + group % groups * 3;
            let row: Vec<f64> = (0..width)
                .map(|element| {
                    let patches = (0..9).map(|of| x[corner + of / 3 * columns + of % 3][element]);
                    (patches.sum::<f64>() / 9.0 * (width as f64).sqrt() - bias[element]) * scale[element]
                })
                .collect();
            let root = (dot(&row, &row) / width as f64 + 1e-6).sqrt();
            row.into_iter().map(|x| x / root).collect()
        };
        let pooled = (0..x.len() / 9).map(pooled).collect();
        let mut rows = self.product("mm.input_projection", &pooled);
        rows.iter_mut().flatten().for_each(|x| *x /= (OUTPUT as f64).sqrt());
        rows
    }
}

fn expected(picture: &Picture) -> Matrix {
    let columns = picture.width() as usize / spec().patch_size as usize;
    Gemma4 { textbook: Textbook::new(spec()), columns }.run(picture)
}

#[test]
fn tower_of_gemma4_equals_textbook() {
    let file = open(spec().write());
    for (width, height) in [(60, 54), (72, 42), (48, 84)] {
        let picture = pixels(width, height, 11);
        check_rows(&format!("{width} x {height}"), &rows(&file, &picture), &expected(&picture));
    }
}

#[test]
fn tower_of_gemma4_in_ollamas_layout_has_the_same_rows() {
    let model = cairn_testkit::ModelSpec { width: OUTPUT as u64, ..cairn_testkit::tiny(&GEMMA4) };
    let text = cairn_testkit::write(&model);
    let file = open(spec().write_into(&text));
    let picture = pixels(60, 54, 3);
    check_rows("Ollama's layout", &rows(&file, &picture), &expected(&picture));
    let count = Gguf::parse(&text).expect("the file is valid GGUF").tensors().len();
    assert_eq!(file.gguf().tensors().len(), count, "the text model has no tensors of the tower");
}

#[test]
fn pictures_of_gemma4_are_within_the_learned_positions() {
    let file = open(spec().write());
    let (hparams, _) = check(file.tower().expect("it is a tower"), OUTPUT).expect("the tower is whole");
    assert!(!hparams.prompt.is_causal, "rows of a picture attend to each other");
    for (width, height) in [(1, 1), (8192, 1), (1, 8192), (600, 500), (7, 9), (8192, 8192)] {
        let grid = hparams.grid_for(width, height);
        let is_within = grid.rows.max(grid.columns) <= 20 && grid.groups() <= 280;
        assert!(is_within, "{width} x {height}: {grid:?} for 60 positions of a side");
        assert_eq!(hparams.grid_for(grid.columns * 6, grid.rows * 6), grid, "{width} x {height} keeps its size");
    }
}

#[test]
fn key_decides_whether_rows_of_gemma4_are_causal() {
    let of = |width: usize, key: Option<bool>| {
        let head = Gguf::parse(&TowerSpec::tiny_gemma4(width as u64).write()).expect("a written file is read");
        let changed: Result<Gguf, LoadError> = head.try_change(|metadata, _| {
            key.map(|key| metadata.set("clip.vision.causal_rows", key));
            Ok(())
        });
        check(&changed.expect("no name is changed"), width).expect("the tower is whole").0.prompt.is_causal
    };
    let small = |key| [1536, 2560].map(|width| of(width, key));
    assert_eq!(small(None), [true; 2], "the small models, in files of other converters");
    assert!(!of(2816, None), "the others, in files of other converters");
    assert_eq!(small(Some(false)), [false; 2], "the key has precedence over the width");
    assert!(of(2816, Some(true)), "the key has precedence over the width");
    let error = with_key(&spec(), "clip.vision.causal_rows", 1u32.into()).expect_err("not a flag");
    assert!(error.contains("clip.vision.causal_rows"), "{error}");
}

#[test]
fn unusable_towers_of_gemma4_are_refused_with_the_reason() {
    for (key, value, expected) in [
        ("clip.vision.projector.scale_factor", 8u32.into(), "8 is not in 1 to 7"),
        ("clip.vision.projector.scale_factor", 0u32.into(), "0 is not in 1 to 7"),
        (
            "clip.vision.attention.head_count",
            4u32.into(),
            "a rotation by row and column of heads of 6 is not supported",
        ),
        ("clip.vision.projection_dim", 24u32.into(), "`mm.input_projection.weight` must be [24, 24], is [24, 20]"),
        ("clip.vision.block_count", 1000u32.into(), "`v.blk.3-999.ln1.weight` are missing"),
        ("clip.vision.patch_size", 8192u32.into(), "`v.patch_embd.weight` must be [8192, 8192, 3, 24]"),
        ("clip.vision.patch_size", u32::MAX.into(), "4294967295 is not in 1 to 8192"),
    ] {
        let error = with_key(&spec(), key, value).expect_err("the tower is unusable");
        assert!(error.contains(expected), "{key}: {error:?} lacks {expected:?}");
    }
    for (name, expected) in [
        ("v.std_bias", "`v.std_bias` is missing"),
        ("v.std_scale", "`v.std_scale` is missing"),
        ("v.position_embd.weight", "a vision tower with 1 positions of patches is not supported"),
        ("v.blk.1.attn_q_norm.weight", "`v.blk.1.attn_q_norm.weight` is missing"),
        ("v.blk.2.ffn_post_norm.weight", "`v.blk.2.ffn_post_norm.weight` is missing"),
    ] {
        let error = changed(&spec(), |_, tensors| tensors.retain(|tensor| tensor.name != name)).expect_err("missing");
        assert!(error.contains(expected), "{name}: {error:?} lacks {expected:?}");
    }
    let shape = |name: &str, dims: &[u64]| {
        changed(&spec(), |_, tensors| {
            tensors.iter_mut().filter(|tensor| tensor.name == name).for_each(|tensor| tensor.dims = dims.to_vec());
        })
    };
    for (name, dims, expected) in [
        ("v.blk.0.attn_q.input_min", &[2][..], "`v.blk.0.attn_q.input_min` must be [1], is [2]"),
        ("v.blk.0.out_scale.weight", &[24], "`v.blk.0.out_scale.weight` must be [1], is [24]"),
        ("v.position_embd.weight", &[24, 60], "`v.position_embd.weight` must be [24, 60, 2], is [24, 60]"),
    ] {
        let error = shape(name, dims).expect_err("a wrong shape");
        assert!(error.contains(expected), "{name}: {error:?} lacks {expected:?}");
    }
}

#[test]
fn limits_and_factors_of_gemma4_that_are_no_numbers_are_refused() {
    for (name, value, expected) in [
        ("v.blk.0.attn_q.input_min", 2.0, "tensor `v.blk.0.attn_q.input_min`: the range from 2 to 0.5 is empty"),
        ("v.blk.0.attn_q.input_max", f32::NAN, "the range from -0.5 to NaN is empty"),
        ("v.blk.1.out_scale.weight", f32::INFINITY, "the factor inf is not finite"),
    ] {
        let mut bytes = spec().write();
        let offset = Gguf::parse(&bytes).expect("it is read").tensor(name).expect("the tower has it").offset as usize;
        bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
        let error = load(&open(bytes), OUTPUT, &mut Reference::new()).expect_err("no number").to_string();
        assert!(error.contains(expected), "{name}: {error:?} lacks {expected:?}");
    }
}

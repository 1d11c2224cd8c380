//! The tower of Pixtral.

use cairn_testkit::families::MISTRAL3;
use cairn_testkit::tower::TowerKind;

use super::*;

fn spec(group: u64) -> TowerSpec {
    TowerSpec { kind: TowerKind::Pixtral { group }, ..TowerSpec::tiny_pixtral(OUTPUT as u64) }
}

/// Rotates adjacent elements: the first half of the pairs by the row, the second by the column. The frequencies of both are one series.
fn rotate(mut x: Matrix, dim: usize, columns: usize) -> Matrix {
    for (at, row) in x.iter_mut().enumerate() {
        for head in row.chunks_mut(dim) {
            for pair in 0..dim / 2 {
                let (place, nth) = match pair.checked_sub(dim / 4) {
                    None => (at / columns, 2 * pair),
                    Some(pair) => (at % columns, 2 * pair + 1),
                };
                let angle = place as f64 / 10_000f64.powf(2.0 * nth as f64 / dim as f64);
                let [a, b] = [head[2 * pair], head[2 * pair + 1]];
                head[2 * pair] = a * angle.cos() - b * angle.sin();
                head[2 * pair + 1] = a * angle.sin() + b * angle.cos();
            }
        }
    }
    x
}

/// The rows of the groups, in the order of the pixels, without those behind lines.
fn textbook(spec: &TowerSpec, picture: &Picture) -> Matrix {
    let textbook = Textbook::new(spec.clone());
    let TowerKind::Pixtral { group } = spec.kind else { panic!("a tower of Pixtral") };
    let (group, width, dim) = (group as usize, spec.width as usize, (spec.width / spec.heads) as usize);
    let columns = picture.width() as usize / spec.patch_size as usize;
    let plain = |name: &str, x: &Matrix| textbook.product_without_bias(&format!("{name}.weight"), x);
    let mut x = plain("v.patch_embd", &patches(picture, spec.patch_size as usize));
    x = textbook.rms_norm("v.pre_ln", &x);
    for layer in 0..spec.layers {
        let name = |part: &str| format!("v.blk.{layer}.{part}");
        let input = textbook.rms_norm(&name("ln1"), &x);
        let [q, k, v] = ["attn_q", "attn_k", "attn_v"].map(|part| plain(&name(part), &input));
        let [q, k] = [q, k].map(|x| rotate(x, dim, columns));
        add(&mut x, plain(&name("attn_out"), &textbook.attend([q, k, v])));
        let input = textbook.rms_norm(&name("ln2"), &x);
        let [mut inner, up] = ["ffn_gate", "ffn_up"].map(|part| plain(&name(part), &input));
        let gated = inner.iter_mut().flatten().zip(up.into_iter().flatten());
        gated.for_each(|(gate, up)| *gate = *gate / (1.0 + (-*gate).exp()) * up);
        add(&mut x, plain(&name("ffn_down"), &inner));
    }
    if group > 1 {
        let normed = textbook.rms_norm("mm.input_norm", &x);
        let groups = columns / group;
        let unfold = |at: usize| -> Vec<f64> {
            let corner = at / groups * group * columns + at % groups * group;
            let elements = (0..width).flat_map(|element| (0..group * group).map(move |patch| (element, patch)));
            elements.map(|(element, at)| normed[corner + at / group * columns + at % group][element]).collect()
        };
        x = plain("mm.patch_merger", &(0..x.len() / group / group).map(unfold).collect());
    }
    textbook.product("mm.2", &gelu(textbook.product("mm.1", &x)))
}

/// Adds the row behind each line but the last.
fn with_breaks(rows: Matrix, columns: usize, row: &[f64]) -> Matrix {
    let lines: Vec<&[Vec<f64>]> = rows.chunks(columns).collect();
    lines.join(&[row.to_vec()][..])
}

#[test]
fn tower_of_pixtral_equals_textbook() {
    for (group, width, height) in [(2, 48, 32), (2, 8, 40), (2, 40, 8), (1, 20, 12)] {
        let spec = spec(group);
        let picture = pixels(width, height, 11);
        let row = &Textbook::new(spec.clone()).tensors["v.token_embd.img_break"];
        let expected = with_breaks(textbook(&spec, &picture), width as usize / (4 * group as usize), row);
        check_rows(&format!("{width} x {height}"), &rows(&open(spec.write()), &picture), &expected);
    }
}

/// The token behind a line, and its embedding.
const BREAK: usize = 7;
const BREAK_ROW: [f32; OUTPUT] = [0.75; OUTPUT];

#[test]
fn tower_of_pixtral_in_ollamas_layout_has_the_same_rows() {
    let spec = spec(2);
    let model = cairn_testkit::ModelSpec { width: OUTPUT as u64, ..cairn_testkit::tiny(&MISTRAL3) };
    let text = cairn_testkit::write(&model);
    let gguf = Gguf::parse(&text).expect("the file is valid GGUF");
    let bytes = spec.write_into(&text);
    let file = open(with_break_token(&bytes));
    let picture = pixels(48, 32, 3);
    let expected = with_breaks(textbook(&spec, &picture), 6, &BREAK_ROW.map(f64::from));
    check_rows("Ollama's layout", &rows(&file, &picture), &expected);
    assert_eq!(file.gguf().tensors().len(), gguf.tensors().len(), "the text model has no tensors of the tower");
    let error = load(&open(bytes), OUTPUT, &mut Reference::new()).expect_err("no token behind lines").to_string();
    assert!(error.contains("`v.token_embd.img_break` is missing"), "{error}");
}

/// Returns a file with the token behind lines in its vocabulary.
fn with_break_token(bytes: &[u8]) -> Vec<u8> {
    let gguf = Gguf::parse(bytes).expect("the file is valid GGUF");
    let mut writer = cairn_gguf::Writer::default();
    for (key, value) in gguf.metadata().iter() {
        let mut value = value.clone();
        if let cairn_gguf::Value::Array(cairn_gguf::Array::String(tokens)) = &mut value
            && key == "tokenizer.ggml.tokens"
        {
            let renamed = |(at, token)| if at == BREAK { "[IMG_BREAK]" } else { token };
            *tokens = tokens.iter().enumerate().map(renamed).collect();
        }
        writer.set(key, value);
    }
    for tensor in gguf.tensors() {
        let mut bytes = bytes[tensor.offset as usize..][..tensor.bytes as usize].to_vec();
        if tensor.name == "token_embd.weight" {
            let row = BREAK_ROW.iter().flat_map(|element| element.to_le_bytes());
            bytes.splice(BREAK * OUTPUT * 4..(BREAK + 1) * OUTPUT * 4, row);
        }
        writer.tensor(tensor.name.clone(), tensor.dtype, &tensor.dims, bytes).expect("a parsed tensor is valid");
    }
    writer.finish()
}

#[test]
fn pictures_of_pixtral_are_limited_by_the_longer_side() {
    let file = open(spec(2).write());
    let (hparams, _) = check(file.tower().expect("it is a tower"), OUTPUT).expect("the tower is whole");
    for (width, height, expected) in [
        (96, 48, [6, 12]),
        (960, 480, [6, 12]),
        (480, 960, [12, 6]),
        (8192, 1, [1, 12]),
        (8, 8, [1, 1]),
        (1, 1, [1, 1]),
    ] {
        let grid = hparams.grid_for(width, height);
        assert_eq!([grid.rows, grid.columns], expected, "{width} x {height}");
    }
    let grid = Grid { rows: 3, columns: 2 };
    assert_eq!(hparams.output_rows(&grid.into()), 8, "two lines have a row behind them");
    assert_eq!(hparams.most_output_rows(), 1024 + 11, "one row behind each line but the last");
}

#[test]
fn unusable_towers_of_pixtral_are_refused_with_the_reason() {
    for (key, value, expected) in [
        ("clip.vision.spatial_merge_size", 5u32.into(), "5 is not in 1 to 4"),
        ("clip.vision.spatial_merge_size", 3u32.into(), "`mm.patch_merger.weight` must be [216, 24], is [96, 24]"),
        ("clip.vision.image_size", 7u32.into(), "it is less than a group of 8 pixels"),
        ("clip.vision.rope.freq_base", (-1f32).into(), "-1 is not a positive number"),
        (
            "clip.vision.attention.head_count",
            4u32.into(),
            "a rotation by row and column of heads of 6 is not supported",
        ),
        ("clip.vision.projection_dim", 24u32.into(), "`v.token_embd.img_break` must be [24], is [20]"),
        ("clip.vision.feed_forward_length", 4_194_304u32.into(), "`v.blk.0-2.ffn_up.weight` must be [24, 4194304]"),
        ("clip.vision.feed_forward_length", 4_194_305u32.into(), "4194305 is not in 1 to 4194304"),
    ] {
        let error = with_key(&spec(2), key, value).expect_err("the tower is unusable");
        assert!(error.contains(expected), "{key}: {error:?} lacks {expected:?}");
    }
    for (name, expected) in [
        ("mm.1.weight", "`mm.1.weight` is missing"),
        ("mm.input_norm.weight", "`mm.input_norm.weight` is missing"),
        ("mm.patch_merger.weight", "`mm.patch_merger.weight` is missing"),
        ("v.token_embd.img_break", "`v.token_embd.img_break` is missing"),
        ("v.pre_ln.weight", "`v.pre_ln.weight` is missing"),
    ] {
        let error = changed(&spec(2), |_, tensors| tensors.retain(|tensor| tensor.name != name)).expect_err("missing");
        assert!(error.contains(expected), "{name}: {error:?} lacks {expected:?}");
    }
    let error = changed(&spec(2), |_, tensors| tensors.clear()).expect_err("no tensors");
    assert!(error.contains("tensors do not fit the model"), "{error}");
}

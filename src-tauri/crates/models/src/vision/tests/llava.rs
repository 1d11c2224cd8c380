//! The tower of LLaVA.

use cairn_image::Filter;
use cairn_testkit::tower::TowerKind;

use super::*;

fn spec(sizes: &[u32], has_norms: bool) -> TowerSpec {
    let kind = TowerKind::Llava { has_class: true, sizes: sizes.to_vec(), has_norms, has_newline: false };
    TowerSpec { kind, ..TowerSpec::tiny_llava(OUTPUT as u64) }
}

/// A tower with or without a row behind lines.
fn with_newline(sizes: &[u32], has_newline: bool) -> TowerSpec {
    let kind = TowerKind::Llava { has_class: true, sizes: sizes.to_vec(), has_norms: false, has_newline };
    TowerSpec { kind, ..spec(sizes, false) }
}

/// Sizes of enlarged pictures: two squares beside each other, two below each other, and four.
const SIZES: [u32; 6] = [48, 24, 24, 48, 48, 48];

/// The forward pass of one square.
fn textbook(spec: &TowerSpec, square: &Picture) -> Matrix {
    let textbook = Textbook::new(spec.clone());
    let width = spec.width as usize;
    let mut x = textbook.product_without_bias("v.patch_embd.weight", &patches(square, spec.patch_size as usize));
    x.insert(0, textbook.tensors["v.class_embd"].clone());
    let positions = &textbook.tensors["v.position_embd.weight"];
    x.iter_mut().flatten().zip(positions).for_each(|(x, position)| *x += position);
    x = textbook.norm("v.pre_ln", &x);
    let quick = |mut x: Matrix| {
        x.iter_mut().flatten().for_each(|x| *x /= 1.0 + (-1.702 * *x).exp());
        x
    };
    for layer in 0..spec.layers - 1 {
        let name = |part: &str| format!("v.blk.{layer}.{part}");
        let input = textbook.norm(&name("ln1"), &x);
        let qkv = ["attn_q", "attn_k", "attn_v"].map(|part| textbook.product(&name(part), &input));
        add(&mut x, textbook.product(&name("attn_out"), &textbook.attend(qkv)));
        let inner = quick(textbook.product(&name("ffn_up"), &textbook.norm(&name("ln2"), &x)));
        add(&mut x, textbook.product(&name("ffn_down"), &inner));
    }
    assert!(x.iter().all(|row| row.len() == width), "the stream has its width");
    let inner = textbook.product("mm.0", &x[1..].to_vec());
    match spec.kind {
        TowerKind::Llava { has_norms: false, .. } => textbook.product("mm.2", &gelu(inner)),
        _ => textbook.norm("mm.4", &textbook.product("mm.3", &gelu(textbook.norm("mm.1", &inner)))),
    }
}

/// A picture of smooth colors.
fn gradient(width: u32, height: u32) -> Picture {
    let color = |x: u32, y: u32| [x * 255 / width, y * 255 / height, (x + y) * 255 / (width + height)];
    let rgb = (0..height).flat_map(|y| (0..width).flat_map(move |x| color(x, y))).map(|color| color as u8);
    Picture::new(width, height, rgb.collect()).expect("the bytes fit the size")
}

/// A square of a picture.
fn square(picture: &Picture, left: u32, top: u32, side: u32) -> Picture {
    let pixels = picture.rgb().chunks(3).enumerate().filter(|(at, _)| {
        let (x, y) = (*at as u32 % picture.width(), *at as u32 / picture.width());
        (left..left + side).contains(&x) && (top..top + side).contains(&y)
    });
    Picture::new(side, side, pixels.flat_map(|(_, pixel)| pixel.to_vec()).collect()).expect("a square of the picture")
}

/// The whole picture on a square, and the squares of the enlarged one.
fn squares(picture: &Picture, [columns, lines]: [u32; 2]) -> Vec<Picture> {
    let mut squares = vec![picture.resize(24, 24, Filter::Cubic).expect("it has pixels")];
    let black = [0; 3];
    let large = picture.fit(columns * 24, lines * 24, Filter::Cubic, black).expect("it has pixels");
    let corners = (0..lines).flat_map(|row| (0..columns).map(move |column| (column * 24, row * 24)));
    squares.extend(corners.map(|(left, top)| square(&large, left, top, 24)));
    squares
}

#[test]
fn tower_of_llava_equals_textbook() {
    for has_norms in [false, true] {
        let spec = spec(&[], has_norms);
        let file = open(spec.write());
        let picture = picture(24, 5);
        check_rows("one square", &rows(&file, &picture), &textbook(&spec, &picture));
    }
}

/// The rows of an enlarged picture as the models were trained: those of the whole picture, then each line of all squares beside each other
/// without the border, with a further row behind it.
fn joined(
    squares: &[Matrix],
    [columns, lines]: [usize; 2],
    [width, height]: [usize; 2],
    newline: Option<&Vec<f64>>,
) -> Matrix {
    const SIDE: usize = 6;
    let mut expected = squares[0].clone();
    let (mut left, mut top) = (0, 0);
    let [all_columns, all_lines] = [columns * SIDE, lines * SIDE].map(|groups| groups as f64);
    let [width, height] = [width as f64, height as f64];
    // The training code's rounding.
    if width / height > all_columns / all_lines {
        top = (lines * SIDE - (height * (all_columns / width) + 1e-9) as usize) / 2;
    } else {
        left = (columns * SIDE - (width * (all_lines / height) + 1e-9) as usize) / 2;
    }
    for line in (0..lines * SIDE).skip(top).take(lines * SIDE - 2 * top) {
        let beside = &squares[1 + line / SIDE * columns..][..columns];
        let row: Matrix = beside.iter().flat_map(|square| square[line % SIDE * SIDE..][..SIDE].to_vec()).collect();
        expected.extend(row[left..row.len() - left].iter().cloned());
        expected.extend(newline.cloned());
    }
    expected
}

#[test]
fn tower_of_llava_joins_squares_of_an_enlarged_picture() {
    for has_newline in [true, false] {
        let spec = with_newline(&SIZES, has_newline);
        let file = open(spec.write());
        let (hparams, _) = check(file.tower().expect("it is a tower"), OUTPUT).expect("the tower is whole");
        let tensors = Textbook::new(spec.clone()).tensors;
        let newline = tensors.get("model.image_newline");
        assert_eq!(newline.is_some(), has_newline, "the row behind lines");
        for (width, height, [columns, lines], shown) in [
            (60, 30, [2, 1], [12, 6]),
            (60, 20, [2, 1], [12, 4]),
            (20, 50, [1, 2], [4, 12]),
            (30, 33, [2, 2], [10, 12]),
            (47, 31, [2, 2], [12, 8]),
            // These fit into one square.
            (24, 20, [2, 1], [8, 6]),
            (24, 24, [2, 1], [6, 6]),
            (5, 13, [2, 1], [2, 6]),
        ] {
            let name = format!("{width} x {height}, {has_newline}");
            let picture = gradient(width, height);
            let layout = hparams.layout(width, height);
            let squares: Vec<Matrix> =
                squares(&picture, [columns, lines]).iter().map(|square| textbook(&spec, square)).collect();
            let sizes = [[columns, lines], [width, height]].map(|size| size.map(|side| side as usize));
            let expected = joined(&squares, sizes[0], sizes[1], newline);
            let count = 36 + shown[1] * (shown[0] + usize::from(has_newline));
            assert_eq!((expected.len(), hparams.output_rows(&layout)), (count, count), "{name}: rows");
            let resized = hparams.resize(&picture).expect("the sizes are not zero");
            check_rows(&name, &rows_in(&file, &resized, &layout, OUTPUT), &expected);
        }
        assert_eq!(hparams.grid(24, 24 * 4), None, "no picture has three parts");
        assert_eq!(hparams.grid(48, 24), None, "squares are in a column");
    }
}

#[test]
fn squares_of_an_enlarged_picture_follow_each_other_in_flat_order() {
    let spec = with_newline(&SIZES, true);
    let file = open(with_value(&spec, "clip.vision.mm_patch_merge_type", "flat".into()));
    let (hparams, _) = check(file.tower().expect("it is a tower"), OUTPUT).expect("the tower is whole");
    let picture = gradient(20, 50);
    let expected: Matrix = squares(&picture, [1, 2]).iter().flat_map(|square| textbook(&spec, square)).collect();
    let resized = hparams.resize(&picture).expect("the sizes are not zero");
    check_rows("flat", &rows_in(&file, &resized, &hparams.layout(20, 50), OUTPUT), &expected);
    assert_eq!(hparams.most_output_rows(), 5 * 36, "the whole picture and four parts, without further rows");
}

#[test]
fn rows_of_enlarged_pictures_are_counted_without_their_border() {
    let sizes = [336, 672, 672, 336, 672, 672, 1008, 336, 336, 1008];
    let hparams = |has_newline: bool| {
        let spec = TowerSpec { image_size: 336, patch_size: 14, ..with_newline(&sizes, has_newline) };
        check(open(spec.write()).tower().expect("it is a tower"), OUTPUT).expect("the tower is whole").0
    };
    let [with, without] = [true, false].map(hparams);
    for (width, height, shown) in [
        (672, 672, [48, 48]),
        (4000, 4000, [48, 48]),
        (640, 480, [48, 36]),
        (480, 640, [36, 48]),
        (1000, 500, [48, 24]),
        (500, 1000, [24, 48]),
        (1600, 500, [72, 22]),
        (500, 1600, [22, 72]),
        // 37 lines are rounded to a border of whole lines.
        (900, 700, [48, 38]),
        (337, 336, [24, 24]),
        (336, 336, [24, 24]),
        (1, 1, [24, 24]),
        // A strip that is thinner than half of a line: the rows of the whole picture remain, and those behind lines.
        (8192, 1, [24, 0]),
        (1, 8192, [0, 48]),
    ] {
        let [columns, lines]: [usize; 2] = shown;
        let rows = |break_rows: usize| 576 + lines * (columns + break_rows);
        let found = [&without, &with].map(|hparams| hparams.output_rows(&hparams.layout(width, height)));
        assert_eq!(found, [rows(0), rows(1)], "{width} x {height}");
        assert!(found[1] <= with.most_output_rows(), "{width} x {height}: the limit");
    }
    assert_eq!(without.most_output_rows(), 5 * 576, "the whole picture and four squares");
    assert_eq!(with.most_output_rows(), 5 * 576 + 48, "and a row behind each of 48 lines");
    let one_square = with_newline(&[], true);
    let (one_square, _) = check(open(one_square.write()).tower().expect("it is a tower"), OUTPUT).expect("whole");
    assert_eq!(one_square.most_output_rows(), 36 + 1, "a row behind the only square");
}

#[test]
fn picture_of_one_square_keeps_its_proportions() {
    let (hparams, _) = check(open(spec(&[], false).write()).tower().expect("it is a tower"), OUTPUT).expect("whole");
    let resized = hparams.resize(&gradient(48, 24)).expect("the sizes are not zero");
    assert_eq!((resized.width(), resized.height()), (24, 24), "one square");
    let color: &[u8] = &[122, 116, 104];
    let is_color = |row: usize| resized.rgb()[row * 72..][..72].chunks(3).all(|pixel| pixel == color);
    let rows: Vec<bool> = (0..24).map(is_color).collect();
    assert_eq!(rows, [[true; 6], [false; 6], [false; 6], [true; 6]].concat(), "the picture is in the middle");
}

/// Writes a tower with another value of a key.
fn with_value(spec: &TowerSpec, key: &str, value: cairn_gguf::Value) -> Vec<u8> {
    let bytes = spec.write();
    let mut writer = cairn_gguf::Writer::default();
    let gguf = Gguf::parse(&bytes).expect("a written file is read");
    gguf.metadata().iter().for_each(|(key, value)| {
        writer.set(key, value.clone());
    });
    writer.set(key, value);
    for tensor in gguf.tensors() {
        let bytes = bytes[tensor.offset as usize..][..tensor.bytes as usize].to_vec();
        writer.tensor(tensor.name.clone(), tensor.dtype, &tensor.dims, bytes).expect("a parsed tensor is valid");
    }
    writer.finish()
}

#[test]
fn key_of_features_selects_the_layer() {
    let of = |layer: Option<i32>, layers: u64| {
        let spec = TowerSpec { layers, ..spec(&[], false) };
        let bytes = match layer {
            None => spec.write(),
            Some(layer) => with_value(&spec, "clip.vision.feature_layer", vec![layer].into()),
        };
        rows(&open(bytes), &picture(24, 1))
    };
    let two = of(None, 3);
    assert_eq!(two, of(Some(2), 3), "all layers but the last");
    assert_eq!(two, of(Some(2), 2), "all layers of the file");
    assert_ne!(two, of(Some(3), 3), "one layer more");
}

#[test]
fn unusable_towers_of_llava_are_refused_with_the_reason() {
    let numbers = |numbers: &[i32]| cairn_gguf::Value::from(numbers.to_vec());
    for (key, value, expected) in [
        ("clip.vision.image_grid_pinpoints", numbers(&[24]), "1 numbers are not at most 64 pairs of width and height"),
        ("clip.vision.image_grid_pinpoints", numbers(&[24; 130]), "130 numbers are not at most 64 pairs"),
        ("clip.vision.image_grid_pinpoints", numbers(&[24, 36]), "24 x 36 pixels are not whole squares of 24"),
        ("clip.vision.image_grid_pinpoints", numbers(&[0, 24]), "0 x 24 pixels are not whole squares of 24"),
        ("clip.vision.image_grid_pinpoints", numbers(&[24, i32::MAX]), "is not in 0 to"),
        ("clip.vision.image_grid_pinpoints", numbers(&[24 * 64; 2]), "4097 squares of a picture have 147492 patches"),
        ("clip.vision.feature_layer", numbers(&[5]), "5 is not in 0 to 4"),
        ("clip.vision.feature_layer", numbers(&[-2]), "-2 is not in 0 to"),
        ("clip.vision.feature_layer", numbers(&[1, 2]), "a vision tower with features of 2 layers is not supported"),
        ("clip.use_silu", 1u32.into(), "expected bool, found u32"),
        ("clip.vision.image_size", 20u32.into(), "`v.position_embd.weight` must be [24, 26], is [24, 37]"),
        ("clip.vision.patch_size", 12u32.into(), "`v.patch_embd.weight` must be [12, 12, 3, 24], is [4, 4, 3, 24]"),
        ("clip.vision.block_count", 1024u32.into(), "`v.blk.4-1022.ln1.weight` are missing"),
        ("clip.vision.block_count", u32::MAX.into(), "4294967295 is not in 1 to 1024"),
        ("clip.vision.embedding_length", 4_000_000u32.into(), "must be [4, 4, 3, 4000000]"),
    ] {
        let error = with_key(&spec(&[], false), key, value).expect_err("unusable");
        assert!(error.contains(expected), "{key}: {error:?} lacks {expected:?}");
    }
    let error = changed(&spec(&[], false), |metadata, _| {
        metadata.set("clip.use_gelu", true);
        metadata.set("clip.use_silu", true);
    });
    let spatial = with_key(&spec(&SIZES, false), "clip.vision.mm_patch_merge_type", "spatial".into());
    let expected = "a vision tower with the order \"spatial\" of rows is not supported";
    assert!(spatial.expect_err("another order").contains(expected), "the order is named");
    with_key(&spec(&[], false), "clip.vision.mm_patch_merge_type", "spatial".into()).expect("one square has no order");
    let one = with_key(&spec(&SIZES, false), "clip.vision.mm_patch_merge_type", 1u32.into()).expect_err("a number");
    assert!(one.contains("found u32"), "{one}");
    assert!(error.expect_err("two activations").contains("there is another activation, too"), "both are named");
}

#[test]
fn towers_of_llava_without_tensors_are_refused() {
    for (name, expected) in [
        ("mm.0.weight", "`mm.0.weight` is missing"),
        ("mm.0.bias", ""),
        ("v.position_embd.weight", "`v.position_embd.weight` is missing"),
        ("v.pre_ln.bias", "`v.pre_ln.bias` is missing"),
        ("v.class_embd", "`v.position_embd.weight` must be [24, 36], is [24, 37]"),
        ("mm.2.weight", "rows of 28 elements, and the model has rows of 20"),
    ] {
        let found = changed(&spec(&[], false), |_, tensors| tensors.retain(|tensor| tensor.name != name));
        let error = found.err().unwrap_or_default();
        assert!(error.contains(expected), "{name}: {error:?} lacks {expected:?}");
    }
    let error = changed(&spec(&[], false), |_, tensors| tensors.clear()).expect_err("no tensors");
    assert!(error.contains("tensors do not fit the model"), "{error}");
    let error = changed(&spec(&[], false), |_, tensors| {
        let bias = tensors.iter_mut().find(|tensor| tensor.name == "v.pre_ln.bias").expect("the file has it");
        bias.name = "v.patch_embd.bias".to_owned();
    });
    let other_width = changed(&spec(&SIZES, false), |_, tensors| {
        let bias = tensors.iter_mut().find(|tensor| tensor.name == "mm.0.bias").expect("the file has it");
        bias.name = "model.image_newline".to_owned();
    });
    let other_width = other_width.expect_err("a row of another width");
    assert!(other_width.contains("`model.image_newline` must be [20], is [28]"), "{other_width}");
    let expected = "a vision tower with a class embedding and `v.patch_embd.bias` is not supported";
    assert!(error.expect_err("a bias").contains(expected), "the reason is named");
}

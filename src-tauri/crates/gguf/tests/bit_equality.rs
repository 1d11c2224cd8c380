//! Decoding and encoding equal ggml's, bit for bit, on recorded blocks: see `record_fixtures.py`.

use std::path::{Path, PathBuf};

use cairn_gguf::DType;

/// Types that are more than numbers in a row; each has fixtures.
fn types() -> impl Iterator<Item = DType> {
    let numbers = [DType::F32, DType::I8, DType::I16, DType::I32, DType::I64, DType::F64];
    DType::all().filter(move |dtype| !numbers.contains(dtype))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn fixture(name: &str) -> Vec<u8> {
    let path = folder().join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let mut out = vec![0.0; bytes.len() / 4];
    DType::F32.decode(bytes, &mut out);
    out
}

#[test]
fn decode_equals_the_recorded_values() {
    for dtype in types() {
        let blocks = fixture(&format!("{dtype}.decode.blocks"));
        let expected = floats(&fixture(&format!("{dtype}.decode.f32")));
        assert_eq!(blocks.len(), dtype.row_bytes(expected.len()), "{dtype}: as many bytes");
        let mut decoded = vec![0.0; expected.len()];
        dtype.decode(&blocks, &mut decoded);
        for (i, (decoded, expected)) in decoded.iter().zip(&expected).enumerate() {
            assert_eq!(decoded.to_bits(), expected.to_bits(), "{dtype} element {i}: {decoded} is not {expected}");
        }
    }
}

#[test]
fn encode_equals_the_recorded_blocks() {
    let x = floats(&fixture("encode.f32"));
    compare_encoded("encode", &x, |dtype, encoded| dtype.encode(&x, encoded).is_ok());
}

#[test]
fn encode_weighted_equals_the_recorded_blocks() {
    let (x, importance) = (floats(&fixture("encode.f32")), floats(&fixture("importance.f32")));
    compare_encoded("encode_weighted", &x, |dtype, encoded| {
        let is_plain = dtype.encode(&x, &mut Vec::new()).is_ok();
        let is_ok = dtype.encode_weighted(&x, &importance, encoded).is_ok();
        // Types with blocks that do not depend on importance have no recording of their own.
        is_ok && (!is_plain || folder().join(format!("{dtype}.encode_weighted.blocks")).exists())
    });
}

/// Compares the blocks of each type with the recorded ones. `encode` returns whether the type has an encoder.
fn compare_encoded(kind: &str, x: &[f32], encode: impl Fn(DType, &mut Vec<u8>) -> bool) {
    for dtype in types() {
        let mut encoded = Vec::new();
        let name = format!("{dtype}.{kind}.blocks");
        if !encode(dtype, &mut encoded) {
            assert!(!folder().join(name).exists(), "{dtype} must have an encoder");
            continue;
        }
        let expected = fixture(&name);
        assert_eq!(encoded.len(), expected.len(), "{dtype}: as many bytes");
        let blocks = encoded.chunks(dtype.block_bytes()).zip(expected.chunks(dtype.block_bytes()));
        let mut compared = 0;
        for (i, ((encoded, expected), x)) in blocks.zip(x.chunks(dtype.block())).enumerate() {
            if dtype == DType::IQ3_S && has_empty_sub_block(x) {
                continue;
            }
            assert_eq!(encoded, expected, "{dtype} block {i}");
            compared += 1;
        }
        assert!(compared * dtype.block() >= x.len() * 9 / 10, "{dtype}: nearly all blocks are compared");
    }
}

/// After 32 zeros ggml writes the next elements of an IQ3_S block over these, so the block decodes to other values. Here
/// every element keeps its position.
fn has_empty_sub_block(x: &[f32]) -> bool {
    x.chunks(32).any(|sub| sub.iter().all(|&x| x == 0.0))
}

#[test]
fn iq3_s_empty_sub_block_keeps_other_elements() {
    let x: Vec<f32> =
        (0..256).map(|i| if i / 32 == 1 { 0.0 } else { [-3.0, 2.0, 3.0, -2.0][i * i % 17 % 4] }).collect();
    let (mut blocks, mut back) = (Vec::new(), vec![0.0; 256]);
    DType::IQ3_S.encode(&x, &mut blocks).expect("IQ3_S has an encoder");
    DType::IQ3_S.decode(&blocks, &mut back);
    for (i, (x, back)) in x.iter().zip(&back).enumerate() {
        assert!((x - back).abs() < 1.5, "element {i}: {back} decodes {x}");
    }
}

#[test]
fn f32_encode_and_decode_copy_bytes() {
    let bytes = fixture("encode.f32");
    let mut encoded = Vec::new();
    DType::F32.encode(&floats(&bytes), &mut encoded).expect("F32 has an encoder");
    assert_eq!(encoded, bytes, "F32 bytes are unchanged");
}

#[test]
fn integers_decode_to_the_same_values() {
    for dtype in types() {
        let blocks = fixture(&format!("{dtype}.decode.blocks"));
        for block in blocks.chunks(dtype.block_bytes()) {
            let Some(integers) = dtype.integers(block) else { continue };
            let mut decoded = [0.0; 256];
            dtype.decode(block, &mut decoded);
            for (i, decoded) in decoded.into_iter().enumerate() {
                let exact = |d: f32, a: f64, b: f64| f64::from(d) * a * b;
                let product = exact(integers.d, integers.scales[i / 16].into(), integers.quants[i].into());
                let minimum = integers.minima.map_or(0.0, |minima| exact(minima.d, minima.values[i / 16].into(), 1.0));
                assert_eq!((product - minimum) as f32, decoded, "{dtype} element {i}");
            }
        }
    }
}

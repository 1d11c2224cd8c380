//! Decoding and encoding equal ggml's, bit for bit, on recorded blocks: see `record_fixtures.py`.

use std::path::Path;

use cairn_gguf::DType;

const TYPES: [DType; 13] = [
    DType::F16,
    DType::BF16,
    DType::Q8_0,
    DType::Q4_0,
    DType::Q5_0,
    DType::Q4_1,
    DType::Q5_1,
    DType::IQ4_NL,
    DType::IQ4_XS,
    DType::MXFP4,
    DType::Q4_K,
    DType::Q5_K,
    DType::Q6_K,
];

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let mut out = vec![0.0; bytes.len() / 4];
    DType::F32.decode(bytes, &mut out);
    out
}

#[test]
fn decoding_equals_the_recorded_values() {
    for dtype in TYPES {
        let blocks = fixture(&format!("{dtype}.decode.blocks"));
        let expected = floats(&fixture(&format!("{dtype}.decode.f32")));
        let mut decoded = vec![0.0; expected.len()];
        dtype.decode(&blocks, &mut decoded);
        for (i, (decoded, expected)) in decoded.iter().zip(&expected).enumerate() {
            assert_eq!(decoded.to_bits(), expected.to_bits(), "{dtype} element {i}: {decoded} is not {expected}");
        }
    }
}

#[test]
fn encoding_equals_the_recorded_blocks() {
    let x = floats(&fixture("encode.f32"));
    for dtype in TYPES {
        let mut encoded = Vec::new();
        if dtype.encode(&x, &mut encoded).is_err() {
            assert!(
                matches!(dtype, DType::Q4_K | DType::Q5_K | DType::IQ4_NL | DType::IQ4_XS),
                "{dtype} must have an encoder"
            );
            continue;
        }
        let expected = fixture(&format!("{dtype}.encode.blocks"));
        assert_eq!(encoded.len(), expected.len(), "{dtype}: as many bytes");
        let blocks = encoded.chunks(dtype.block_bytes()).zip(expected.chunks(dtype.block_bytes()));
        for (i, (encoded, expected)) in blocks.enumerate() {
            assert_eq!(encoded, expected, "{dtype} block {i}");
        }
    }
}

#[test]
fn f32_is_copied_both_ways() {
    let bytes = fixture("encode.f32");
    let mut encoded = Vec::new();
    DType::F32.encode(&floats(&bytes), &mut encoded).expect("F32 has an encoder");
    assert_eq!(encoded, bytes, "F32 bytes come back");
}

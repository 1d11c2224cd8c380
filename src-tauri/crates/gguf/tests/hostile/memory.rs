//! Reading takes memory in proportion to a file's head, whatever its counts are, and never more than a bound.

use cairn_gguf::reader::MAX_HEAD_BYTES;
use cairn_gguf::{Array, DType, Gguf, Value, Writer};
use cairn_testkit::allocation::peak_bytes;

use crate::MOST_BYTES;
use crate::raw::Raw;

/// Returns whether a file is read, and checks the memory that reading took.
#[track_caller]
fn check(what: &str, file: &[u8], times: usize) -> bool {
    let (parsed, bytes) = peak_bytes(|| Gguf::parse(file));
    assert!(bytes <= MOST_BYTES, "{what}: {bytes} bytes for {}", file.len());
    assert!(bytes <= 4096 + times * file.len(), "{what}: {bytes} bytes for {}", file.len());
    parsed.is_ok()
}

/// A head with one entry, an array of a type, filled up with zeros to `len` bytes.
fn zeros(version: u32, kind: u32, least_bytes: u64, len: usize) -> Vec<u8> {
    let raw = Raw::head(version, 0, 1).array("k", kind, (len as u64 - 64) / least_bytes);
    let mut bytes = vec![0; len];
    bytes[..raw.bytes.len()].copy_from_slice(&raw.bytes);
    bytes
}

#[test]
fn densest_arrays_stay_within_the_memory_bound() {
    for (version, kind, least_bytes) in [(1, 8, 4), (3, 8, 8), (1, 9, 8), (3, 9, 12), (1, 0, 1), (3, 7, 1)] {
        let what = format!("version {version}, type {kind}");
        assert!(check(&what, &zeros(version, kind, least_bytes, 1 << 20), 6), "{what}: a head of a megabyte is read");
        for len in [MAX_HEAD_BYTES - 1000, MAX_HEAD_BYTES, 4 * MAX_HEAD_BYTES] {
            check(&what, &zeros(version, kind, least_bytes, len), 1);
        }
    }
}

/// Many entries and many tensors take more memory than bytes: they are read up to the bound and refused beyond it.
#[test]
fn densest_tables_stay_within_the_memory_bound() {
    for version in [1, 3] {
        for (count, may) in [(1000, true), (100_000, true), (600_000, false)] {
            let what = format!("version {version}, {count} entries");
            let raw = Raw::head(version, 0, count);
            let raw = (0..count).fold(raw, |raw, i| raw.entry(&format!("{i:x}"), 0).bytes(&[0]));
            assert_eq!(check(&what, &raw.bytes, 20), may, "{what}");

            let what = format!("version {version}, {count} tensors");
            let raw = Raw::head(version, count, 0);
            let raw = (0..count).fold(raw, |raw, i| raw.tensor(&format!("{i:x}"), &[1], 24, 32 * i));
            assert_eq!(check(&what, &raw.data(32 * count as usize).bytes, 20), may, "{what}");
        }
        let what = format!("version {version}, the longest keys");
        let raw =
            (0..1000).fold(Raw::head(version, 0, 1000), |raw, i| raw.entry(&format!("{i:065000}"), 0).bytes(&[0]));
        assert!(!check(&what, &raw.bytes, 2), "{what}: 65 MB of keys are refused");
    }
}

/// The largest vocabularies that are published, with room: 256,000 tokens with scores, types and twice as many merges.
#[test]
fn largest_vocabularies_fit_the_memory_bound() {
    let tokens: Vec<String> = (0..262_144).map(|i| format!("{i:012}")).collect();
    let merges: Vec<String> = (0..524_288).map(|i| format!("{i:010} {i:010}")).collect();
    let mut writer = Writer::default();
    writer.set("tokenizer.ggml.tokens", tokens.clone()).set("tokenizer.ggml.merges", merges);
    writer.set("tokenizer.ggml.scores", vec![0.0_f32; 262_144]).set("tokenizer.ggml.token_type", vec![1_i32; 262_144]);
    for layer in 0..4000 {
        let name = format!("blk.{layer}.ffn_gate_exps.weight");
        writer.tensor(name, DType::F32, &[1], vec![0; 4]).expect("the tensor is sound");
    }
    let file = writer.finish();
    assert!(file.len() > 20 << 20, "{} bytes are fewer than real ones have", file.len());
    assert!(check("a vocabulary", &file, 2), "it is read");
    let gguf = Gguf::parse(&file).expect("it is read");
    let read = gguf.metadata().required_strings("tokenizer.ggml.tokens").expect("they are there");
    assert!(read.iter().eq(&tokens), "all tokens are as they were");
}

#[test]
fn any_wrong_byte_stays_within_the_memory_bound() {
    let mut writer = Writer::default();
    writer.set("a", "text").set("b", vec!["x".to_owned(); 40]);
    writer.set("c", Value::Array(Array::Array(vec![Array::U8(vec![1; 5]); 7])));
    for name in ["t", "u"] {
        writer.tensor(name, DType::F32, &[8, 2], vec![0; 64]).expect("the tensor is sound");
    }
    let whole = writer.finish();
    for at in 0..whole.len() {
        for value in [0, 1, 9, 0x7F, 0xFF] {
            let mut mutated = whole.clone();
            mutated[at] = value;
            check(&format!("byte {at} as {value}"), &mutated, 20);
        }
    }
}

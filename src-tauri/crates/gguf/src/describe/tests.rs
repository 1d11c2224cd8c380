//! A made-up file, described in both forms to the letter.

use super::*;
use crate::write::Writer;

fn sample() -> (Gguf, u64) {
    let mut writer = Writer::default();
    writer.set("general.architecture", "llama");
    writer.set("steering\u{1b}[2J", "two\nlines");
    writer.set("tokens", (0..300).map(|i| format!("t{i}")).collect::<Vec<_>>());
    writer.set("scores", vec![0.5f32, -1.0]);
    writer.set("nested", Value::Array(Array::Array(vec![Array::U8(vec![1, 2]), Array::Bool(vec![true])])));
    writer.set("long", "x".repeat(200));
    writer.tensor("norm", DType::F32, &[32], vec![0; 128]).expect("the tensor is right");
    writer.tensor("matrix", DType::Q8_0, &[32, 112], vec![0; 34 * 112]).expect("the tensor is right");
    let file = writer.finish();
    (Gguf::parse(&file).expect("a written file is read"), file.len() as u64)
}

#[test]
fn describe_text_has_all_facts() {
    let (gguf, file_len) = sample();
    let expected = format!(
        r#"GGUF version 3, {file_len} bytes ({:.1} kB)
3616 parameters in 2 tensors, 6 metadata entries
data at {}, aligned to 32

Metadata
  general.architecture  "llama"
  steering\u{{1b}}[2J     "two\nlines"
  tokens                ["t0", "t1", "t2", "t3", ...] (300 x string)
  scores                [0.5, -1.0] (2 x f32)
  nested                [[1, 2] (2 x u8), [true] (1 x bool)] (2 x array)
  long                  "{}"... (200 bytes)

Types
  F32         1 tensors             128 bytes (   0.1 kB)    3.3 %
  Q8_0        1 tensors            3808 bytes (   3.8 kB)   96.7 %

Tensors
  norm    F32                       32             128 bytes at {}
  matrix  Q8_0                32 x 112            3808 bytes at {}
"#,
        file_len as f64 / 1e3,
        gguf.data_offset,
        "x".repeat(80),
        gguf.data_offset,
        gguf.data_offset + 128,
    );
    assert_eq!(text(&gguf, file_len), expected, "the whole description");
}

#[test]
fn describe_json_has_all_facts() {
    let (gguf, file_len) = sample();
    let json: Json = serde_json::from_str(&json(&gguf, file_len)).expect("valid JSON");
    let check = |pointer: &str, expected: Json| assert_eq!(json.pointer(pointer), Some(&expected), "{pointer}");
    check("/file_bytes", json!(file_len));
    check("/parameters", json!(3616));
    check("/metadata/general.architecture", json!("llama"));
    check("/metadata/tokens", json!({ "type": "array of string", "length": 300, "first": ["t0", "t1", "t2", "t3"] }));
    check("/metadata/nested", json!([[1, 2], [true]]));
    check("/metadata/long", json!("x".repeat(200)));
    check("/types/Q8_0/bytes", json!(3808));
    check("/types/Q8_0/elements", json!(3584));
    check("/tensors/1/dims", json!([32, 112]));
    check("/tensors/1/type", json!("Q8_0"));
}

#[test]
fn describe_accepts_a_file_without_tensors() {
    let file = Writer::default().finish();
    let gguf = Gguf::parse(&file).expect("a written file is read");
    assert!(text(&gguf, file.len() as u64).contains("0 parameters in 0 tensors"), "text counts none");
    assert!(json(&gguf, file.len() as u64).contains("\"tensors\": []"), "so does JSON");
}

//! What the writer writes the reader reads, and no bytes whatsoever make the reader panic.

use cairn_gguf::{Array, DType, Gguf, Value, Writer, describe};
use proptest::collection::vec;
use proptest::prelude::*;

fn array() -> impl Strategy<Value = Array> {
    let leaf = prop_oneof![
        vec(any::<u8>(), 0..9).prop_map(Array::U8),
        vec(any::<i8>(), 0..9).prop_map(Array::I8),
        vec(any::<u16>(), 0..9).prop_map(Array::U16),
        vec(any::<i16>(), 0..9).prop_map(Array::I16),
        vec(any::<u32>(), 0..9).prop_map(Array::U32),
        vec(any::<i32>(), 0..9).prop_map(Array::I32),
        vec(any::<f32>(), 0..9).prop_map(Array::F32),
        vec(any::<bool>(), 0..9).prop_map(Array::Bool),
        vec(".{0,12}", 0..9).prop_map(|texts| Array::String(texts.into())),
        vec(any::<u64>(), 0..9).prop_map(Array::U64),
        vec(any::<i64>(), 0..9).prop_map(Array::I64),
        vec(any::<f64>(), 0..9).prop_map(Array::F64),
    ];
    leaf.prop_recursive(3, 32, 4, |inner| vec(inner, 0..4).prop_map(Array::Array))
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u8>().prop_map(Value::U8),
        any::<i8>().prop_map(Value::I8),
        any::<u16>().prop_map(Value::U16),
        any::<i16>().prop_map(Value::I16),
        any::<u32>().prop_map(Value::U32),
        any::<i32>().prop_map(Value::I32),
        any::<f32>().prop_map(Value::F32),
        any::<bool>().prop_map(Value::Bool),
        ".{0,100}".prop_map(Value::String),
        array().prop_map(Value::Array),
        any::<u64>().prop_map(Value::U64),
        any::<i64>().prop_map(Value::I64),
        any::<f64>().prop_map(Value::F64),
    ]
}

#[derive(Clone, Debug)]
struct Content {
    alignment: u64,
    metadata: Vec<(String, Value)>,
    /// Types, blocks in a row and rows.
    tensors: Vec<(DType, u64, u64)>,
}

fn content() -> impl Strategy<Value = Content> {
    let dtypes: Vec<DType> = DType::all().collect();
    let tensor = (prop::sample::select(dtypes), 1..4u64, 1..4u64);
    let alignment = prop::sample::select(vec![1u64, 8, 32, 4096]);
    (alignment, vec(("[a-z.]{1,20}", value()), 0..8), vec(tensor, 0..6))
        .prop_map(|(alignment, metadata, tensors)| Content { alignment, metadata, tensors })
}

fn blocks(index: usize, dtype: DType, dims: &[u64]) -> Vec<u8> {
    let elements: u64 = dims.iter().product();
    (0..dtype.row_bytes(elements as usize)).map(|i| (i + 31 * index) as u8).collect()
}

fn write(content: &Content) -> Vec<u8> {
    let mut writer = Writer::new(content.alignment);
    for (key, value) in &content.metadata {
        writer.set(key, value.clone());
    }
    for (index, &(dtype, row_blocks, rows)) in content.tensors.iter().enumerate() {
        let dims = [row_blocks * dtype.block() as u64, rows];
        let (name, bytes) = (format!("t{index}"), blocks(index, dtype, &dims));
        if index % 2 == 0 {
            writer.tensor(name, dtype, &dims, bytes).expect("the tensor is right");
        } else {
            writer.tensor_from(name, dtype, &dims, move |out| out.write_all(&bytes)).expect("the tensor is right");
        }
    }
    writer.finish()
}

proptest! {
    #[test]
    fn written_file_reads_back_equal(content in content()) {
        let file = write(&content);
        let gguf = Gguf::parse(&file).expect("a written file is read");
        prop_assert_eq!(gguf.alignment, content.alignment);
        for (key, _) in &content.metadata {
            let (_, last) = content.metadata.iter().rev().find(|(other, _)| other == key).expect("it is there");
            // Compared as text, because a NaN is not equal to itself.
            prop_assert_eq!(format!("{:?}", gguf.metadata().get(key)), format!("{:?}", Some(last)), "key {}", key);
        }
        prop_assert_eq!(gguf.tensors().len(), content.tensors.len());
        for (index, (tensor, &(dtype, row_blocks, rows))) in gguf.tensors().iter().zip(&content.tensors).enumerate() {
            prop_assert_eq!(tensor.dtype, dtype);
            prop_assert_eq!(&tensor.dims, &vec![row_blocks * dtype.block() as u64, rows]);
            prop_assert_eq!(Some(tensor), gguf.tensor(&format!("t{index}")));
            let bytes = &file[tensor.offset as usize..][..tensor.bytes as usize];
            prop_assert_eq!(bytes, &blocks(index, dtype, &tensor.dims)[..], "tensor {}", index);
            prop_assert_eq!((tensor.offset - gguf.data_offset) % content.alignment, 0);
        }
        let json: serde_json::Value = serde_json::from_str(&describe::json(&gguf, file.len() as u64)).expect("valid JSON");
        prop_assert_eq!(json["tensors"].as_array().map(Vec::len), Some(content.tensors.len()));
        prop_assert!(describe::text(&gguf, file.len() as u64).contains("GGUF version 3"));
    }

    #[test]
    fn truncated_file_is_refused(content in content(), cut in 0.0..1.0f64) {
        let file = write(&content);
        let head = Gguf::parse(&file).expect("a written file is read");
        let end = head.tensors().iter().map(|tensor| tensor.offset + tensor.bytes).max();
        let cut = (cut * file.len() as f64) as usize;
        let parsed = Gguf::parse(&file[..cut]);
        if end.is_some_and(|end| (cut as u64) < end) {
            prop_assert!(parsed.is_err(), "cut at {} of {}", cut, file.len());
        }
    }

    #[test]
    fn flipped_bits_never_panic(content in content(), flips in vec((any::<prop::sample::Index>(), 0..8u32), 1..6)) {
        let mut file = write(&content);
        for (at, bit) in flips {
            let at = at.index(file.len());
            file[at] ^= 1 << bit;
        }
        if let Ok(gguf) = Gguf::parse(&file) {
            for tensor in gguf.tensors() {
                prop_assert!(tensor.offset + tensor.bytes <= file.len() as u64, "{} leaves the file", tensor.name);
            }
            describe::text(&gguf, file.len() as u64);
            describe::json(&gguf, file.len() as u64);
        }
    }

    #[test]
    fn reader_never_panics_on_arbitrary_bytes(version in 1..4u32, counts in [0..4u64, 0..4u64], tail in vec(prop_oneof![Just(0u8), 0..13u8, any::<u8>()], 0..200)) {
        let mut file = b"GGUF".to_vec();
        file.extend(version.to_le_bytes());
        let width = if version == 1 { 4 } else { 8 };
        for count in counts {
            file.extend(&count.to_le_bytes()[..width]);
        }
        file.extend(tail);
        let _ = Gguf::parse(&file);
    }
}

/// Version 1 has 32-bit counts, lengths and dimensions; version 2 is version 3 under another number.
#[test]
fn reader_accepts_older_versions() {
    let mut file = b"GGUF".to_vec();
    file.extend([1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
    file.extend(*b"\x03\0\0\0key\x08\0\0\0\x05\0\0\0value");
    file.extend(*b"\x01\0\0\0w\x02\0\0\0\x02\0\0\0\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    file.resize(file.len().next_multiple_of(32) + 24, 0);
    let gguf = Gguf::parse(&file).expect("version 1 is read");
    assert_eq!(gguf.metadata().required_str("key"), Ok("value"), "the text is there");
    assert_eq!(gguf.tensor("w").map(|tensor| tensor.dims.clone()), Some(vec![2, 3]), "the dimensions are there");

    let mut file = write(&Content { alignment: 32, metadata: Vec::new(), tensors: vec![(DType::F32, 2, 3)] });
    file[4] = 2;
    assert_eq!(Gguf::parse(&file).expect("version 2 is read").version, 2, "the version is the file's");
}

#[test]
fn writer_refuses_the_same_input_as_the_reader() {
    let check = |name: &str, dims: &[u64], bytes: usize, expected: &str| {
        let mut writer = Writer::default();
        writer.tensor("taken", DType::F32, &[1], vec![0; 4]).expect("the tensor is right");
        let error = writer.tensor(name, DType::Q8_0, dims, vec![0; bytes]).err().expect("this must be refused");
        assert_eq!(error.to_string(), expected);
    };
    let dimensions =
        |dims: &str| format!("tensor `w`: dimensions {dims} are not 1 to 4 of at least 1, in whole blocks of Q8_0");
    check("w", &[33], 34, &dimensions("[33]"));
    check("w", &[], 0, &dimensions("[]"));
    check("w", &[32, 0], 0, &dimensions("[32, 0]"));
    check("w", &[1 << 63, 1 << 63], 0, &dimensions("[9223372036854775808, 9223372036854775808]"));
    check("w", &[32], 33, "tensor `w`: 34 bytes are needed, 33 are there");
    check("taken", &[32], 34, "tensor `taken`: a name must be new and not empty");

    let mut writer = Writer::default();
    writer.tensor_from("w", DType::F32, &[2], |out| out.write_all(&[0; 7])).expect("the tensor is right");
    let error = writer.write_to(&mut Vec::new()).expect_err("one byte is missing");
    assert_eq!(error.to_string(), "tensor `w`: 8 bytes are needed, 7 are there", "a streamed tensor is counted");
}

//! A model file: its head is parsed and described, the first and last row of each tensor are decoded, and a head in Ollama's
//! layout is translated.
//!
//! Guarantees: no panic, no tensor outside of the file, bounded memory, and the same head from the whole file and from
//! its beginning.

use cairn_gguf::{Gguf, Tensor, describe};
use cairn_testkit::allocation::peak_bytes;

/// Peak memory in bytes for parsing any head.
const MOST_BYTES: usize = 64 << 20;
/// Maximum length of a decoded row. Longer rows are skipped, so that fuzzing time is spent on the file's structure.
const MAX_ROW_ELEMENTS: u64 = 1 << 16;

/// Runs this fuzz target on one input.
pub fn run(file: &[u8]) {
    let (parsed, bytes) = peak_bytes(|| Gguf::parse(file));
    assert!(bytes <= MOST_BYTES, "{bytes} bytes to read a head of {}", file.len());
    match &parsed {
        Ok(gguf) => {
            use_all(gguf, file);
            let head = file.get(..gguf.data_offset as usize).unwrap_or(file);
            let again = Gguf::parse_header(head, file.len() as u64).expect("the head alone is read too");
            assert_eq!(again.tensors(), gguf.tensors(), "the head alone has the same tensors");
            // As text, because a NaN in the metadata is not equal to itself.
            let metadata = |gguf: &Gguf| format!("{:?}", gguf.metadata().iter().collect::<Vec<_>>());
            assert!(metadata(&again) == metadata(gguf), "the head alone has the same metadata");
            let (translated, bytes) = peak_bytes(|| cairn_models::translated(gguf));
            assert!(bytes <= 3 * MOST_BYTES, "{bytes} bytes to translate a head of {}", file.len());
            use_all(&translated, file);
        }
        Err(error) => assert!(!error.to_string().is_empty(), "an error says what is wrong"),
    }
    // A file that claims to be long gets further: its tensors may lie where there are no bytes.
    for file_len in [1 << 33, u64::MAX] {
        if let Ok(gguf) = Gguf::parse_header(file, file_len) {
            describe(&gguf, file_len);
        }
    }
}

fn use_all(gguf: &Gguf, file: &[u8]) {
    describe(gguf, file.len() as u64);
    for tensor in gguf.tensors() {
        assert_eq!(gguf.tensor(&tensor.name), Some(tensor), "a tensor is found by its name");
        let bytes = file.get(tensor.offset as usize..(tensor.offset + tensor.bytes) as usize);
        decode_ends(tensor, bytes.expect("a tensor lies in its file"));
    }
}

fn describe(gguf: &Gguf, file_len: u64) {
    assert!(describe::text(gguf, file_len).starts_with("GGUF version"), "the text says what it is");
    assert!(describe::json(gguf, file_len).starts_with('{'), "the description is one object");
}

fn decode_ends(tensor: &Tensor, bytes: &[u8]) {
    let Some(&elements) = tensor.dims.first().filter(|&&elements| elements <= MAX_ROW_ELEMENTS) else { return };
    let mut row = vec![0.0; elements as usize];
    let row_bytes = tensor.dtype.row_bytes(row.len());
    let (_, last) = bytes.split_at(bytes.len() - row_bytes);
    tensor.dtype.decode(last, &mut row);
    let (first, _) = bytes.split_at(row_bytes);
    tensor.dtype.decode(first, &mut row);
    tensor.dtype.dot(first, &row);
}

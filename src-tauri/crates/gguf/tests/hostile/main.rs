//! Files broken by hand: each is refused, with an error that names the place and its offset, and little memory.
//!
//! `cargo test -p cairn-gguf --test hostile -- --nocapture broken` prints all of them as a table.

mod headers;
mod memory;
mod metadata;
mod raw;
mod tensors;

use std::collections::HashSet;

use cairn_gguf::{DType, Gguf, Writer};
use cairn_testkit::allocation::{CountingAllocator, peak_bytes};

use raw::Broken;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The most memory that a file may make us take, whatever is in it.
const MOST_BYTES: usize = 64 << 20;

fn check(broken: &Broken) {
    let Broken { what, file, place, offset, error } = broken;
    let ((parsed, text), bytes) = peak_bytes(|| {
        let parsed = Gguf::parse(file);
        let text = parsed.as_ref().err().map(ToString::to_string);
        (parsed, text)
    });
    assert!(parsed.is_err(), "{what}: accepted, instead of: {error}");
    let text = text.unwrap_or_default();
    // How much memory is needed depends on the compiler's layout.
    let (start, end) = error.split_once('*').unwrap_or((error, ""));
    assert!(text.starts_with(start) && text.ends_with(end), "{what}: {text:?} instead of {error:?}");
    assert!(error.contains('*') || text == *error, "{what}: {text:?} instead of {error:?}");
    assert!(text.contains(place), "{what}: {text:?} does not name {place:?}");
    assert!(text.contains(&format!("offset {offset}")), "{what}: {text:?} does not have offset {offset}");
    assert!(bytes <= MOST_BYTES, "{what}: {bytes} bytes were allocated");
    println!("| {what} | {text} | {bytes} |");
}

#[test]
fn broken_file_error_has_location_and_offset() {
    let cases: Vec<Broken> = [headers::cases(), metadata::cases(), tensors::cases()].into_iter().flatten().collect();
    println!("| fault | error | most bytes allocated |\n|---|---|---|");
    cases.iter().for_each(check);
    let names: HashSet<&str> = cases.iter().map(|broken| broken.what).collect();
    assert_eq!(names.len(), cases.len(), "each file is another");
    assert!(cases.len() >= 70, "{} files are too few", cases.len());
}

/// Every type that comes in blocks, also those that are added later.
#[test]
fn rows_that_are_not_whole_blocks_are_refused_in_every_type() {
    for dtype in DType::all().filter(|dtype| dtype.block() > 1) {
        let elements = dtype.block() as u64 / 2;
        let file = raw::Raw::head(3, 1, 0).tensor("w", &[elements, 2], dtype.ggml_id(), 0).data(4096);
        let error = Gguf::parse(&file.bytes).expect_err("half a block is no row").to_string();
        let expected = format!(
            "tensor `w`: rows of {elements} elements at offset 37 are not whole blocks; {dtype} has {} in a block",
            dtype.block()
        );
        assert_eq!(error, expected);
    }
}

#[test]
fn parse_header_needs_only_the_head_of_the_file() {
    let mut writer = Writer::default();
    writer.tensor("w", DType::Q8_0, &[64, 2], vec![1; 136]).expect("the tensor is right");
    let file = writer.finish();
    let whole = Gguf::parse(&file).expect("a written file is read");
    let head = &file[..whole.data_offset as usize];
    assert_eq!(Gguf::parse_header(head, file.len() as u64), Ok(whole), "the head alone gives the same result");
    let text = "tensor `w`: needs 136 bytes at offset 96, the file has 200 bytes";
    let error = Gguf::parse_header(head, 200).expect_err("the file is too short").to_string();
    assert_eq!(error, text, "the size that is given counts, not the bytes");
}

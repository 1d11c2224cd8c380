//! Files broken by hand, each with the whole text of the error that it must give.

use cairn_gguf::{DType, Gguf, Writer};

/// A file's head, field by field, so that any field can be wrong.
#[derive(Clone, Default)]
struct Raw(Vec<u8>);

impl Raw {
    fn head(version: u32, tensors: u64, entries: u64) -> Raw {
        Raw(b"GGUF".to_vec()).u32(version).u64(tensors).u64(entries)
    }

    fn bytes(mut self, bytes: &[u8]) -> Raw {
        self.0.extend(bytes);
        self
    }

    fn u32(self, value: u32) -> Raw {
        self.bytes(&value.to_le_bytes())
    }

    fn u64(self, value: u64) -> Raw {
        self.bytes(&value.to_le_bytes())
    }

    fn string(self, text: &str) -> Raw {
        self.u64(text.len() as u64).bytes(text.as_bytes())
    }

    /// A metadata entry as far as its type.
    fn entry(self, key: &str, kind: u32) -> Raw {
        self.string(key).u32(kind)
    }

    fn tensor(self, name: &str, dims: &[u64], kind: u32, offset: u64) -> Raw {
        let raw = self.string(name).u32(dims.len() as u32);
        dims.iter().fold(raw, |raw, &dim| raw.u64(dim)).u32(kind).u64(offset)
    }

    /// Padding to the data section and `data` zero bytes in it.
    fn data(mut self, data: usize) -> Raw {
        self.0.resize(self.0.len().next_multiple_of(32) + data, 0);
        self
    }
}

#[track_caller]
fn check(raw: Raw, expected: &str) {
    match Gguf::parse(&raw.0) {
        Ok(_) => panic!("accepted, instead of: {expected}"),
        Err(error) => assert_eq!(error.to_string(), expected),
    }
}

#[test]
fn broken_headers() {
    check(Raw::default(), r#"not a GGUF file: it must start with "GGUF", it starts with """#);
    check(
        Raw(b"PK\x03\x04....".to_vec()),
        r#"not a GGUF file: it must start with "GGUF", it starts with "PK\x03\x04""#,
    );
    check(
        Raw(b"FUGG\0\0\0\x03".to_vec()),
        "header: this is a big-endian GGUF file, at offset 0; only little-endian ones are read",
    );
    check(
        Raw(b"GGUF\0\0\0\x03".to_vec()),
        "header: this is a big-endian GGUF file, at offset 4; only little-endian ones are read",
    );
    check(Raw(b"GGUF".to_vec()), "header: version at offset 4 needs 4 bytes, 0 remain");
    check(Raw(b"GGUF".to_vec()).u32(4), "header: GGUF version 4 at offset 4; versions 1 to 3 are read");
    check(Raw(b"GGUF".to_vec()).u32(0), "header: GGUF version 0 at offset 4; versions 1 to 3 are read");
    check(Raw(b"GGUF".to_vec()).u32(3).u32(1), "header: tensor count at offset 8 needs 8 bytes, 4 remain");
    check(Raw::head(3, 0, 5), "header: metadata count at offset 24 needs 70 bytes, 0 remain");
    check(Raw::head(3, 9, 0), "header: tensor count at offset 24 needs 297 bytes, 0 remain");
    check(
        Raw::head(3, 0, u64::MAX),
        "header: metadata count at offset 16 is 18446744073709551615, which is more than any file holds",
    );
    check(
        Raw::head(3, u64::MAX, 0),
        "header: tensor count at offset 8 is 18446744073709551615, which is more than any file holds",
    );
    check(Raw(b"GGUF".to_vec()).u32(1).u32(0).u32(3), "header: metadata count at offset 16 needs 30 bytes, 0 remain");
}

#[test]
fn broken_metadata() {
    let entry = || Raw::head(3, 0, 1);
    check(
        entry().u64(1 << 60).data(32),
        "metadata entry 0: key at offset 32 needs 1152921504606846976 bytes, 32 remain",
    );
    check(entry().string("").data(32), "metadata entry 0: key at offset 24 has 0 bytes; 1 to 65535 are allowed");
    check(
        entry().string(&"k".repeat(65_536)).data(32),
        "metadata entry 0: key at offset 24 has 65536 bytes; 1 to 65535 are allowed",
    );
    check(
        entry().u64(2).bytes(b"k\xff").data(32),
        "metadata entry 0: key at offset 32 is not UTF-8: byte 1 of it breaks the encoding",
    );
    check(
        entry().string("key").u32(13).data(32),
        "metadata key `key`: value type 13 at offset 35 is unknown; types are 0 to 12",
    );
    check(
        entry().entry("key", 7).bytes(&[2]).data(32),
        "metadata key `key`: boolean at offset 39 is 2; it must be 0 or 1",
    );
    check(entry().entry("key", 10).bytes(&[0; 7]), "metadata key `key`: value at offset 39 needs 8 bytes, 7 remain");
    check(
        entry().entry("key", 8).u64(100).bytes(b"short"),
        "metadata key `key`: text at offset 47 needs 100 bytes, 5 remain",
    );
    check(
        entry().entry("key", 8).u64(1).bytes(b"\x80"),
        "metadata key `key`: text at offset 47 is not UTF-8: byte 0 of it breaks the encoding",
    );
    check(
        entry().entry("key", 9).u32(99).u64(0),
        "metadata key `key`: value type 99 at offset 39 is unknown; types are 0 to 12",
    );
    check(
        entry().entry("key", 9).u32(4).u64(1 << 40),
        "metadata key `key`: array length at offset 51 needs 4398046511104 bytes, 0 remain",
    );
    check(
        entry().entry("key", 9).u32(6).u64(1 << 62),
        "metadata key `key`: array length at offset 43 is 4611686018427387904, which is more than any file holds",
    );
    check(
        entry().entry("key", 9).u32(8).u64(3).data(8),
        "metadata key `key`: array length at offset 51 needs 24 bytes, 21 remain",
    );
    check(
        entry().entry("key", 9).u32(7).u64(2).bytes(&[1, 3]),
        "metadata key `key`: boolean at offset 52 is 3; it must be 0 or 1",
    );
    let nested = (0..9).fold(entry().entry("key", 9), |raw, _| raw.u32(9).u64(1));
    check(nested.data(32), "metadata key `key`: array at offset 135 is nested deeper than 8 levels");
    let twice = Raw::head(3, 0, 2).entry("key", 0).bytes(&[1]).entry("key", 0).bytes(&[1]);
    check(twice, "metadata key `key` is repeated at offset 40");
    let alignment = |value| entry().entry("general.alignment", 4).u32(value);
    check(alignment(48), "metadata key `general.alignment`: 48 is not a power of two");
    check(alignment(0), "metadata key `general.alignment`: 0 is not a power of two");
    check(
        entry().entry("general.alignment", 8).string("32"),
        "metadata key `general.alignment`: expected u32, found string",
    );
    check(
        entry().entry("k\n\u{1b}[2J", 7).bytes(&[9]),
        "metadata key `k\\n\\u{1b}[2J`: boolean at offset 42 is 9; it must be 0 or 1",
    );
}

#[test]
fn broken_tensor_tables() {
    const F32: u32 = 0;
    const Q8_0: u32 = 8;
    let one = || Raw::head(3, 1, 0);
    check(one().string("").data(64), "tensor table row 0: name at offset 24 has 0 bytes; 1 to 65535 are allowed");
    check(one().tensor("w", &[], F32, 0).data(64), "tensor `w`: 0 dimensions at offset 33; 1 to 4 are read");
    check(one().tensor("w", &[1; 5], F32, 0).data(64), "tensor `w`: 5 dimensions at offset 33; 1 to 4 are read");
    check(one().tensor("w", &[4, 0], F32, 0).data(64), "tensor `w`: dimension 1 at offset 45 is 0");
    check(one().tensor("w", &[4], 4, 0).data(64), "tensor `w`: type 4 at offset 45 is Q4_2, which is not read");
    check(one().tensor("w", &[4], 41, 0).data(64), "tensor `w`: type 41 at offset 45 is Q1_0, which is not read");
    check(one().tensor("w", &[4], 43, 0).data(64), "tensor `w`: type 43 at offset 45 is unknown");
    check(one().tensor("w", &[4], u32::MAX, 0).data(64), "tensor `w`: type 4294967295 at offset 45 is unknown");
    check(
        one().tensor("w", &[100, 2], Q8_0, 0).data(512),
        "tensor `w`: rows of 100 elements are not whole blocks; Q8_0 has 32 elements in a block",
    );
    for dtype in DType::all().filter(|dtype| dtype.block() > 1) {
        let (block, half) = (dtype.block(), dtype.block() / 2);
        check(
            one().tensor("w", &[half as u64, 2], dtype.ggml_id(), 0).data(512),
            &format!(
                "tensor `w`: rows of {half} elements are not whole blocks; {dtype} has {block} elements in a block"
            ),
        );
    }
    check(
        one().tensor("w", &[1 << 33, 1 << 33], F32, 0).data(64),
        "tensor `w`: dimensions [8589934592, 8589934592] at offset 37 have more elements than any file holds",
    );
    check(
        one().tensor("w", &[1 << 63], F32, 0).data(64),
        "tensor `w`: dimensions [9223372036854775808] at offset 37 have more elements than any file holds",
    );
    check(one().tensor("w", &[4], F32, 8).data(64), "tensor `w`: data offset 8 is not a multiple of the alignment 32");
    check(
        one().tensor("w", &[4, 5], F32, 0).data(79),
        "tensor `w`: needs 80 bytes at offset 96, the file has 175 bytes",
    );
    check(
        one().tensor("w", &[4], F32, 1 << 40).data(64),
        "tensor `w`: needs 16 bytes at offset 1099511627840, the file has 128 bytes",
    );
    check(
        one().tensor("w", &[4], F32, u64::MAX - 31).data(64),
        "tensor `w`: needs 16 bytes at offset 18446744073709551615, the file has 128 bytes",
    );
    let two = || Raw::head(3, 2, 0);
    check(two().tensor("w", &[4], F32, 0).tensor("w", &[4], F32, 32).data(64), "tensor `w` is repeated at offset 57");
    check(
        two().tensor("a", &[16], F32, 0).tensor("b", &[4], F32, 32).data(64),
        "tensor `b`: begins at offset 128, inside tensor `a`, which ends at 160",
    );
    check(
        two().tensor("a", &[4], F32, 0).tensor("b", &[16], F32, 0).data(64),
        "tensor `b`: begins at offset 96, inside tensor `a`, which ends at 112",
    );
    check(one().tensor("w", &[4], F32, 0), "tensor `w`: needs 16 bytes at offset 64, the file has 57 bytes");
    check(one().string("weight").u32(2).u64(1).u64(1), "tensor `weight`: type at offset 58 needs 4 bytes, 0 remain");
}

#[test]
fn a_whole_head_is_accepted_with_a_part_of_the_file() {
    let mut writer = Writer::default();
    writer.tensor("w", DType::Q8_0, &[64, 2], vec![1; 136]).expect("the tensor is right");
    let file = writer.finish();
    let whole = Gguf::parse(&file).expect("a written file is read");
    let head = &file[..whole.data_offset as usize];
    assert_eq!(Gguf::parse_header(head, file.len() as u64), Ok(whole), "the head alone says the same");
    let text = "tensor `w`: needs 136 bytes at offset 96, the file has 200 bytes";
    let error = Gguf::parse_header(head, 200).expect_err("the file is too short").to_string();
    assert_eq!(error, text, "the size that is given counts, not the bytes");
}

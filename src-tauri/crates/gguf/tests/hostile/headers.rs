//! Files whose first fields are wrong.

use crate::raw::{Broken, Raw};

pub(crate) fn cases() -> Vec<Broken> {
    vec![
        Raw::of(b"").refused(
            "no bytes",
            "GGUF",
            r#"not a GGUF file: it must start with "GGUF" at offset 0, where it has """#,
        ),
        Raw::of(b"GGU").refused(
            "three bytes",
            "GGUF",
            r#"not a GGUF file: it must start with "GGUF" at offset 0, where it has "GGU""#,
        ),
        Raw::of(b"PK\x03\x04....").refused(
            "another format",
            "GGUF",
            r#"not a GGUF file: it must start with "GGUF" at offset 0, where it has "PK\x03\x04""#,
        ),
        Raw::of(b"ggjt\x03\0\0\0").refused(
            "ggml's older format",
            "GGUF",
            r#"not a GGUF file: it must start with "GGUF" at offset 0, where it has "ggjt""#,
        ),
        Raw::of(b"FUGG\0\0\0\x03").refused(
            "magic in the wrong byte order",
            "header",
            "header: this is a big-endian GGUF file, at offset 0; only little-endian ones are read",
        ),
        Raw::of(b"GGUF").here().bytes(b"\0\0\0\x03").refused(
            "version in the wrong byte order",
            "header",
            "header: this is a big-endian GGUF file, at offset 4; only little-endian ones are read",
        ),
        Raw::of(b"GGUF").here().refused("no version", "header", "header: version at offset 4 needs 4 bytes, 0 remain"),
        Raw::of(b"GGUF").here().bytes(b"\x03\0\0").refused(
            "version cut",
            "header",
            "header: version at offset 4 needs 4 bytes, 3 remain",
        ),
        Raw::head(0, 0, 0).at(4).refused(
            "version 0",
            "header",
            "header: GGUF version 0 at offset 4; versions 1 to 3 are read",
        ),
        Raw::head(4, 0, 0).at(4).refused(
            "version 4",
            "header",
            "header: GGUF version 4 at offset 4; versions 1 to 3 are read",
        ),
        Raw::head(u32::MAX, 0, 0).at(4).refused(
            "version 2^32 - 1",
            "header",
            "header: GGUF version 4294967295 at offset 4; versions 1 to 3 are read",
        ),
        Raw::of(b"GGUF").u32(3).here().u32(1).refused(
            "tensor count cut",
            "header",
            "header: tensor count at offset 8 needs 8 bytes, 4 remain",
        ),
        Raw::of(b"GGUF").u32(3).u64(0).here().u32(1).refused(
            "metadata count cut",
            "header",
            "header: metadata count at offset 16 needs 8 bytes, 4 remain",
        ),
        Raw::head(3, 0, 5).here().refused(
            "entries that are not there",
            "header",
            "header: metadata count at offset 24 needs 70 bytes, 0 remain",
        ),
        Raw::head(3, 9, 0).here().refused(
            "tensors that are not there",
            "header",
            "header: tensor count at offset 24 needs 297 bytes, 0 remain",
        ),
        Raw::head(3, 0, u64::MAX).at(16).refused(
            "2^64 - 1 entries",
            "header",
            "header: metadata count at offset 16 is 18446744073709551615, which is more than any file holds",
        ),
        Raw::head(3, u64::MAX, 0).at(8).refused(
            "2^64 - 1 tensors",
            "header",
            "header: tensor count at offset 8 is 18446744073709551615, which is more than any file holds",
        ),
        Raw::head(2, 0, u64::MAX / 14).here().refused(
            "as many entries as can be counted",
            "header",
            "header: metadata count at offset 24 needs 18446744073709551614 bytes, 0 remain",
        ),
        Raw::head(1, 0, 3).here().refused(
            "version 1, entries that are not there",
            "header",
            "header: metadata count at offset 16 needs 30 bytes, 0 remain",
        ),
        Raw::head(1, u64::from(u32::MAX), 0).here().refused(
            "version 1, 2^32 - 1 tensors",
            "header",
            "header: tensor count at offset 16 needs 107374182375 bytes, 0 remain",
        ),
        Raw::head(3, 0, 4_000_000).at(16).bytes(&vec![0; 56_000_000]).refused(
            "entries that take more memory than bytes",
            "header",
            "header: metadata count at offset 16 makes the head take * bytes of memory; 66060288 are allowed",
        ),
        Raw::head(3, 1_500_000, 0).at(8).bytes(&vec![0; 49_500_000]).refused(
            "tensors that take more memory than bytes",
            "header",
            "header: tensor count at offset 8 makes the head take * bytes of memory; 66060288 are allowed",
        ),
    ]
}

//! Files whose metadata are wrong.

use crate::raw::{Broken, Raw};

pub(crate) fn cases() -> Vec<Broken> {
    [keys(), values(), arrays(), alignments()].into_iter().flatten().collect()
}

fn one() -> Raw {
    Raw::head(3, 0, 1)
}

fn keys() -> Vec<Broken> {
    vec![
        one().u64(1 << 60).here().data(32).refused(
            "key of 2^60 bytes",
            "metadata entry 0",
            "metadata entry 0: key at offset 32 needs 1152921504606846976 bytes, 32 remain",
        ),
        one().u64(u64::MAX).here().data(32).refused(
            "key of 2^64 - 1 bytes",
            "metadata entry 0",
            "metadata entry 0: key at offset 32 needs 18446744073709551615 bytes, 32 remain",
        ),
        one().here().string("").data(32).refused(
            "empty key",
            "metadata entry 0",
            "metadata entry 0: key at offset 24 has 0 bytes; 1 to 65535 are allowed",
        ),
        one().here().string(&"k".repeat(65_536)).data(32).refused(
            "key too long",
            "metadata entry 0",
            "metadata entry 0: key at offset 24 has 65536 bytes; 1 to 65535 are allowed",
        ),
        one().u64(2).here().bytes(b"k\xff").data(32).refused(
            "key that is not UTF-8",
            "metadata entry 0",
            "metadata entry 0: key at offset 32 is not UTF-8: byte 1 of it breaks the encoding",
        ),
        one().u64(2).here().bytes(b"\xed\xa0").bytes(&[0; 10]).refused(
            "key with half a surrogate",
            "metadata entry 0",
            "metadata entry 0: key at offset 32 is not UTF-8: byte 0 of it breaks the encoding",
        ),
        Raw::head(3, 0, 2).entry("key", 0).bytes(&[1]).here().entry("key", 0).bytes(&[1]).refused(
            "key twice",
            "metadata key `key`",
            "metadata key `key` is repeated at offset 40",
        ),
        one().entry("k\n\u{1b}[2J", 7).here().bytes(&[9]).refused(
            "key that would steer a terminal",
            "metadata key `k\\n\\u{1b}[2J`",
            "metadata key `k\\n\\u{1b}[2J`: boolean at offset 42 is 9; it must be 0 or 1",
        ),
        one().string("key").here().bytes(&[0; 3]).refused(
            "value type cut",
            "metadata key `key`",
            "metadata key `key`: value type at offset 35 needs 4 bytes, 3 remain",
        ),
        one().string("key").here().u32(13).data(32).refused(
            "value type 13",
            "metadata key `key`",
            "metadata key `key`: value type 13 at offset 35 is unknown; types are 0 to 12",
        ),
        one().string("key").here().u32(u32::MAX).data(32).refused(
            "value type 2^32 - 1",
            "metadata key `key`",
            "metadata key `key`: value type 4294967295 at offset 35 is unknown; types are 0 to 12",
        ),
        Raw::head(1, 0, 1).u32(1 << 30).here().data(32).refused(
            "version 1, key of 2^30 bytes",
            "metadata entry 0",
            "metadata entry 0: key at offset 20 needs 1073741824 bytes, 44 remain",
        ),
    ]
}

/// Returns files that end one byte before the end of a metadata value, one file for each value type.
fn values() -> Vec<Broken> {
    // The key is so long that an entry of one byte is as long as the shortest that a count allows.
    let cut = |kind: u32, bytes: usize| one().entry("key", kind).here().bytes(&vec![0; bytes - 1]);
    vec![
        cut(0, 1).refused(
            "u8 cut",
            "metadata key `key`",
            "metadata key `key`: value at offset 39 needs 1 bytes, 0 remain",
        ),
        cut(1, 1).refused(
            "i8 cut",
            "metadata key `key`",
            "metadata key `key`: value at offset 39 needs 1 bytes, 0 remain",
        ),
        cut(2, 2).refused(
            "u16 cut",
            "metadata key `key`",
            "metadata key `key`: value at offset 39 needs 2 bytes, 1 remain",
        ),
        cut(3, 2).refused(
            "i16 cut",
            "metadata key `key`",
            "metadata key `key`: value at offset 39 needs 2 bytes, 1 remain",
        ),
        cut(4, 4).refused(
            "u32 cut",
            "metadata key `key`",
            "metadata key `key`: value at offset 39 needs 4 bytes, 3 remain",
        ),
        cut(5, 4).refused(
            "i32 cut",
            "metadata key `key`",
            "metadata key `key`: value at offset 39 needs 4 bytes, 3 remain",
        ),
        cut(6, 4).refused(
            "f32 cut",
            "metadata key `key`",
            "metadata key `key`: value at offset 39 needs 4 bytes, 3 remain",
        ),
        cut(7, 1).refused(
            "bool cut",
            "metadata key `key`",
            "metadata key `key`: value at offset 39 needs 1 bytes, 0 remain",
        ),
        cut(8, 8).refused(
            "text's length cut",
            "metadata key `key`",
            "metadata key `key`: text at offset 39 needs 8 bytes, 7 remain",
        ),
        cut(9, 4).refused(
            "array's type cut",
            "metadata key `key`",
            "metadata key `key`: value type at offset 39 needs 4 bytes, 3 remain",
        ),
        cut(10, 8).refused(
            "u64 cut",
            "metadata key `key`",
            "metadata key `key`: value at offset 39 needs 8 bytes, 7 remain",
        ),
        cut(11, 8).refused(
            "i64 cut",
            "metadata key `key`",
            "metadata key `key`: value at offset 39 needs 8 bytes, 7 remain",
        ),
        cut(12, 8).refused(
            "f64 cut",
            "metadata key `key`",
            "metadata key `key`: value at offset 39 needs 8 bytes, 7 remain",
        ),
        one().entry("key", 7).here().bytes(&[2]).data(32).refused(
            "bool of 2",
            "metadata key `key`",
            "metadata key `key`: boolean at offset 39 is 2; it must be 0 or 1",
        ),
        one().entry("key", 8).u64(100).here().bytes(b"short").refused(
            "text cut",
            "metadata key `key`",
            "metadata key `key`: text at offset 47 needs 100 bytes, 5 remain",
        ),
        one().entry("key", 8).u64(u64::MAX).here().bytes(b"short").refused(
            "text of 2^64 - 1 bytes",
            "metadata key `key`",
            "metadata key `key`: text at offset 47 needs 18446744073709551615 bytes, 5 remain",
        ),
        one().entry("key", 8).u64(1).here().bytes(b"\x80").refused(
            "text that is not UTF-8",
            "metadata key `key`",
            "metadata key `key`: text at offset 47 is not UTF-8: byte 0 of it breaks the encoding",
        ),
        Raw::head(1, 0, 1).entry("key", 8).u32(100).here().bytes(b"short").refused(
            "version 1, text cut",
            "metadata key `key`",
            "metadata key `key`: text at offset 31 needs 100 bytes, 5 remain",
        ),
    ]
}

fn arrays() -> Vec<Broken> {
    let nested = |levels: usize| (0..levels).fold(one().entry("key", 9), |raw, _| raw.u32(9).u64(1));
    let bomb = (0..7).fold(one().entry("key", 9), |raw, _| raw.u32(9).u64(1)).u32(9).here().u64(5_000_000);
    let alike = "metadata key `key`";
    vec![
        one().entry("key", 9).here().u32(99).u64(0).refused("array of type 99", alike, "metadata key `key`: value type 99 at offset 39 is unknown; types are 0 to 12"),
        one().entry("key", 9).u32(4).here().u32(1).refused("array length cut", alike, "metadata key `key`: array length at offset 43 needs 8 bytes, 4 remain"),
        one().array("key", 4, 1 << 40).here().refused("2^40 elements of u32", alike, "metadata key `key`: array length at offset 51 needs 4398046511104 bytes, 0 remain"),
        one().array("key", 6, 1 << 62).at(43).refused("2^62 elements of f32", alike, "metadata key `key`: array length at offset 43 is 4611686018427387904, which is more than any file holds"),
        one().array("key", 0, u64::MAX).here().refused("2^64 - 1 elements of u8", alike, "metadata key `key`: array length at offset 51 needs 18446744073709551615 bytes, 0 remain"),
        one().array("key", 12, u64::MAX / 8).here().refused("as many f64 as can be counted", alike, "metadata key `key`: array length at offset 51 needs 18446744073709551608 bytes, 0 remain"),
        one().array("key", 2, 3).here().bytes(&[0; 5]).refused("array of u16 cut", alike, "metadata key `key`: array length at offset 51 needs 6 bytes, 5 remain"),
        one().array("key", 8, 3).here().data(8).refused("array of texts cut", alike, "metadata key `key`: array length at offset 51 needs 24 bytes, 21 remain"),
        one().array("key", 8, 2).string("a").u64(9).here().bytes(b"short").refused("last text of an array cut", alike, "metadata key `key`: text at offset 68 needs 9 bytes, 5 remain"),
        one().array("key", 8, 2).string("a").u64(1).here().bytes(b"\xff").refused("text in an array that is not UTF-8", alike, "metadata key `key`: text at offset 68 is not UTF-8: byte 0 of it breaks the encoding"),
        one().array("key", 8, 1).u64(1 << 63).here().refused("text of 2^63 bytes in an array", alike, "metadata key `key`: text at offset 59 needs 9223372036854775808 bytes, 0 remain"),
        one().array("key", 7, 2).bytes(&[1]).here().bytes(&[3]).refused("bool of 3 in an array", alike, "metadata key `key`: boolean at offset 52 is 3; it must be 0 or 1"),
        nested(8).here().data(32).refused("arrays nested nine levels deep", alike, "metadata key `key`: array at offset 135 is nested deeper than 8 levels"),
        nested(100_000).at(135).data(32).refused("arrays nested 100,000 levels deep", alike, "metadata key `key`: array at offset 135 is nested deeper than 8 levels"),
        bomb.bytes(&vec![0; 60_000_000]).refused("five million empty arrays in an array", alike, "metadata key `key`: array length at offset 127 makes the head take * bytes of memory; 66060288 are allowed"),
        one().array("key", 9, u64::MAX / 12).here().refused("as many arrays as can be counted", alike, "metadata key `key`: array length at offset 51 needs 18446744073709551612 bytes, 0 remain"),
        one().array("key", 9, 1).u32(9).u64(1).u32(4).u64(9).here().refused("innermost array cut", alike, "metadata key `key`: array length at offset 75 needs 36 bytes, 0 remain"),
        one().array("key", 0, 70_000_000).here().bytes(&vec![0; 70_000_000]).refused("head of 70 MB", alike, "metadata key `key`: array length at offset 51 leads beyond the 67108864 bytes that a head may have"),
        Raw::head(1, 0, 1).array("key", 4, u64::from(u32::MAX)).here().refused("version 1, 2^32 - 1 elements", alike, "metadata key `key`: array length at offset 35 needs 17179869180 bytes, 0 remain"),
    ]
}

fn alignments() -> Vec<Broken> {
    let alignment = |kind: u32| one().entry("general.alignment", kind).here();
    let alike = "metadata key `general.alignment`";
    vec![
        alignment(4).u32(0).refused("alignment 0", alike, "metadata key `general.alignment`: value at offset 53 is 0; it must be a power of two, as u32"),
        alignment(4).u32(3).refused("alignment 3", alike, "metadata key `general.alignment`: value at offset 53 is 3; it must be a power of two, as u32"),
        alignment(4).u32(48).refused("alignment 48", alike, "metadata key `general.alignment`: value at offset 53 is 48; it must be a power of two, as u32"),
        alignment(4).u32(u32::MAX).refused("alignment 2^32 - 1", alike, "metadata key `general.alignment`: value at offset 53 is 4294967295; it must be a power of two, as u32"),
        alignment(10).u64(1 << 63).refused("alignment 2^63", alike, "metadata key `general.alignment`: value at offset 53 is 9223372036854775808; it must be a power of two, as u32"),
        alignment(5).u32(-32_i32 as u32).refused("alignment -32", alike, "metadata key `general.alignment`: value at offset 53 is -32; it must be a power of two, as u32"),
        alignment(6).bytes(&32.0_f32.to_le_bytes()).refused("alignment 32.0", alike, "metadata key `general.alignment`: value at offset 53 is of type f32; it must be a power of two, as u32"),
        alignment(8).string("32").refused("alignment as a text", alike, "metadata key `general.alignment`: value at offset 53 is of type string; it must be a power of two, as u32"),
        alignment(9).u32(4).u64(1).u32(32).refused("alignment in an array", alike, "metadata key `general.alignment`: value at offset 53 is of type array of u32; it must be a power of two, as u32"),
        Raw::head(3, 1, 1).entry("general.alignment", 4).u32(1 << 31).tensor("w", &[4], 0, 0).at(1 << 31).data(64).refused("alignment 2^31, data not there", "tensor `w`", "tensor `w`: needs 16 bytes at offset 2147483648, the file has 160 bytes"),
    ]
}

//! Files whose tensor table is wrong.

use crate::raw::{Broken, Raw};

const F32: u32 = 0;
const Q8_0: u32 = 8;
const Q4_K: u32 = 12;

pub(crate) fn cases() -> Vec<Broken> {
    [rows(), types(), places()].into_iter().flatten().collect()
}

fn one() -> Raw {
    Raw::head(3, 1, 0)
}

fn two() -> Raw {
    Raw::head(3, 2, 0)
}

fn rows() -> Vec<Broken> {
    let row = "tensor table row 0";
    vec![
        one().here().string("").data(64).refused("empty name", row, "tensor table row 0: name at offset 24 has 0 bytes; 1 to 65535 are allowed"),
        one().here().string(&"w".repeat(65_536)).data(64).refused("name too long", row, "tensor table row 0: name at offset 24 has 65536 bytes; 1 to 65535 are allowed"),
        one().u64(1 << 62).here().data(64).refused("name of 2^62 bytes", row, "tensor table row 0: name at offset 32 needs 4611686018427387904 bytes, 64 remain"),
        one().u64(2).here().bytes(b"\xc3(").data(64).refused("name that is not UTF-8", row, "tensor table row 0: name at offset 32 is not UTF-8: byte 0 of it breaks the encoding"),
        two().tensor("w", &[4], F32, 0).here().tensor("w", &[4], F32, 32).data(64).refused("name twice", "tensor `w`", "tensor `w` is repeated at offset 57"),
        one().string("w").here().u32(0).data(64).refused("no dimensions", "tensor `w`", "tensor `w`: 0 dimensions at offset 33; 1 to 4 are read"),
        one().string("w").here().u32(5).data(64).refused("five dimensions", "tensor `w`", "tensor `w`: 5 dimensions at offset 33; 1 to 4 are read"),
        one().string("w").here().u32(u32::MAX).data(64).refused("2^32 - 1 dimensions", "tensor `w`", "tensor `w`: 4294967295 dimensions at offset 33; 1 to 4 are read"),
        one().tensor("w", &[0, 4], F32, 0).at(37).data(64).refused("first dimension 0", "tensor `w`", "tensor `w`: dimension 0 at offset 37 is 0"),
        one().tensor("w", &[4, 0], F32, 0).at(45).data(64).refused("second dimension 0", "tensor `w`", "tensor `w`: dimension 1 at offset 45 is 0"),
        one().tensor("w", &[1 << 33, 1 << 33], F32, 0).at(37).data(64).refused("2^66 elements", "tensor `w`", "tensor `w`: dimensions [8589934592, 8589934592] at offset 37 have more elements than any file holds"),
        one().tensor("w", &[1 << 16, 1 << 16, 1 << 16, 1 << 16], F32, 0).at(37).data(64).refused("2^64 elements in four dimensions", "tensor `w`", "tensor `w`: dimensions [65536, 65536, 65536, 65536] at offset 37 have more elements than any file holds"),
        one().tensor("w", &[1 << 63], F32, 0).at(37).data(64).refused("2^65 bytes", "tensor `w`", "tensor `w`: dimensions [9223372036854775808] at offset 37 have more elements than any file holds"),
        one().string("weight").u32(2).u64(1).u64(1).here().refused("row cut at its type", "tensor `weight`", "tensor `weight`: type at offset 58 needs 4 bytes, 0 remain"),
        one().shape("weight", &[1]).u32(F32).here().u32(0).refused("row cut at its data offset", "tensor `weight`", "tensor `weight`: data offset at offset 54 needs 8 bytes, 4 remain"),
        Raw::head(1, 1, 0).string("weight").u32(4).length(1).length(1).length(1).here().refused("version 1, row cut at its last dimension", "tensor `weight`", "tensor `weight`: dimension at offset 42 needs 4 bytes, 0 remain"),
        Raw::head(1, 1, 0).tensor("w", &[u64::from(u32::MAX); 3], F32, 0).at(25).data(64).refused("version 1, 2^96 elements", "tensor `w`", "tensor `w`: dimensions [4294967295, 4294967295, 4294967295] at offset 25 have more elements than any file holds"),
    ]
}

fn types() -> Vec<Broken> {
    let typed = |kind: u32| one().shape("w", &[256]).here().u32(kind).u64(0).data(512);
    let rows = |kind: u32, elements: u64| one().tensor("w", &[elements, 2], kind, 0).at(37).data(1024);
    vec![
        typed(4).refused("type Q4_2", "tensor `w`", "tensor `w`: type 4 at offset 45 is Q4_2, which is not read"),
        typed(5).refused("type Q4_3", "tensor `w`", "tensor `w`: type 5 at offset 45 is Q4_3, which is not read"),
        typed(31).refused(
            "type Q4_0_4_4",
            "tensor `w`",
            "tensor `w`: type 31 at offset 45 is Q4_0_4_4, which is not read",
        ),
        typed(33).refused(
            "type Q4_0_8_8",
            "tensor `w`",
            "tensor `w`: type 33 at offset 45 is Q4_0_8_8, which is not read",
        ),
        typed(36).refused(
            "type IQ4_NL_4_4",
            "tensor `w`",
            "tensor `w`: type 36 at offset 45 is IQ4_NL_4_4, which is not read",
        ),
        typed(1000).refused("type 1000", "tensor `w`", "tensor `w`: type 1000 at offset 45 is unknown"),
        typed(u32::MAX).refused("type 2^32 - 1", "tensor `w`", "tensor `w`: type 4294967295 at offset 45 is unknown"),
        rows(Q8_0, 100).refused(
            "rows of 100 in Q8_0",
            "tensor `w`",
            "tensor `w`: rows of 100 elements at offset 37 are not whole blocks; Q8_0 has 32 in a block",
        ),
        rows(Q4_K, 128).refused(
            "rows of 128 in Q4_K",
            "tensor `w`",
            "tensor `w`: rows of 128 elements at offset 37 are not whole blocks; Q4_K has 256 in a block",
        ),
    ]
}

fn places() -> Vec<Broken> {
    vec![
        one().shape("w", &[4]).u32(F32).here().u64(8).data(64).refused(
            "data offset 8",
            "tensor `w`",
            "tensor `w`: data offset 8, at offset 49, is not a multiple of the alignment 32",
        ),
        one().shape("w", &[4]).u32(F32).here().u64(u64::MAX).data(64).refused(
            "data offset 2^64 - 1",
            "tensor `w`",
            "tensor `w`: data offset 18446744073709551615, at offset 49, is not a multiple of the alignment 32",
        ),
        one().tensor("w", &[4, 5], F32, 0).at(96).data(79).refused(
            "data cut by a byte",
            "tensor `w`",
            "tensor `w`: needs 80 bytes at offset 96, the file has 175 bytes",
        ),
        one().tensor("w", &[4], F32, 0).at(64).refused(
            "no data",
            "tensor `w`",
            "tensor `w`: needs 16 bytes at offset 64, the file has 57 bytes",
        ),
        one().tensor("w", &[4], F32, 1 << 40).at((1 << 40) + 64).data(64).refused(
            "data offset 2^40",
            "tensor `w`",
            "tensor `w`: needs 16 bytes at offset 1099511627840, the file has 128 bytes",
        ),
        one().tensor("w", &[4], F32, u64::MAX - 31).at(u64::MAX).data(64).refused(
            "data offset that overflows",
            "tensor `w`",
            "tensor `w`: needs 16 bytes at offset 18446744073709551615, the file has 128 bytes",
        ),
        one().tensor("w", &[1 << 61], F32, 0).at(64).data(64).refused(
            "2^63 bytes",
            "tensor `w`",
            "tensor `w`: needs 9223372036854775808 bytes at offset 64, the file has 128 bytes",
        ),
        two().tensor("a", &[16], F32, 0).tensor("b", &[4], F32, 32).at(128).data(64).refused(
            "data inside another's",
            "tensor `b`",
            "tensor `b`: begins at offset 128, inside tensor `a`, which ends at 160",
        ),
        two().tensor("a", &[4], F32, 32).tensor("b", &[16], F32, 0).at(128).data(64).refused(
            "data inside a later one's",
            "tensor `a`",
            "tensor `a`: begins at offset 128, inside tensor `b`, which ends at 160",
        ),
        two().tensor("a", &[4], F32, 0).tensor("b", &[16], F32, 0).at(96).data(64).refused(
            "data at the same offset",
            "tensor `b`",
            "tensor `b`: begins at offset 96, inside tensor `a`, which ends at 112",
        ),
        Raw::head(1, 1, 0).tensor("w", &[4], F32, 0).at(64).data(0).refused(
            "version 1, no data",
            "tensor `w`",
            "tensor `w`: needs 16 bytes at offset 64, the file has 64 bytes",
        ),
    ]
}

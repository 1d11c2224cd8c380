//! The grids of the IQ types: tables of the vectors that indices in blocks select. They are data of the format.
//!
//! A grid has the most useful of all vectors of four or eight small magnitudes (in IQ1, of -1, 0 and 1). Its file holds
//! a little-endian `u16` for each vector, with two bits for each of eight elements or four bits for each of four, the
//! first element in the lowest bits; they number the element's level among those given here. `tests/record_fixtures.py`
//! writes the files from the tables of the PyPI package `gguf`.
//!
//! Signs are stored beside the indices. Where eight signs have seven bits, the number of set ones is even, and the
//! eighth follows from that.

/// Vectors of eight for IQ2_XXS.
pub(super) static IQ2_XXS: [[i8; 8]; 256] = expand(include_bytes!("grids/iq2_xxs.bin"), &LEVELS_2);
/// Vectors of eight for IQ2_XS.
pub(super) static IQ2_XS: [[i8; 8]; 512] = expand(include_bytes!("grids/iq2_xs.bin"), &LEVELS_2);
/// Vectors of eight for IQ2_S.
pub(super) static IQ2_S: [[i8; 8]; 1024] = expand(include_bytes!("grids/iq2_s.bin"), &LEVELS_2);
/// Vectors of four for IQ3_XXS.
pub(super) static IQ3_XXS: [[i8; 4]; 256] =
    expand(include_bytes!("grids/iq3_xxs.bin"), &[4, 12, 20, 28, 36, 44, 52, 62]);
/// Vectors of four for IQ3_S.
pub(super) static IQ3_S: [[i8; 4]; 512] = expand(include_bytes!("grids/iq3_s.bin"), &ODD);
/// Vectors of eight for IQ1_S and IQ1_M.
pub(super) static IQ1: [[i8; 8]; 2048] = expand(include_bytes!("grids/iq1.bin"), &[-1, 0, 1]);

/// [`IQ2_XXS`] with odd numbers for the levels, as encoders search it.
pub(super) static IQ2_XXS_ODD: [[i8; 8]; 256] = expand(include_bytes!("grids/iq2_xxs.bin"), &ODD);
/// [`IQ2_XS`] with odd numbers for the levels.
pub(super) static IQ2_XS_ODD: [[i8; 8]; 512] = expand(include_bytes!("grids/iq2_xs.bin"), &ODD);
/// [`IQ2_S`] with odd numbers for the levels.
pub(super) static IQ2_S_ODD: [[i8; 8]; 1024] = expand(include_bytes!("grids/iq2_s.bin"), &ODD);
/// [`IQ3_XXS`] with odd numbers for the levels.
pub(super) static IQ3_XXS_ODD: [[i8; 4]; 256] = expand(include_bytes!("grids/iq3_xxs.bin"), &ODD);
/// [`IQ1`] with odd numbers for the levels.
pub(super) static IQ1_ODD: [[i8; 8]; 2048] = expand(include_bytes!("grids/iq1.bin"), &ODD);

const LEVELS_2: [i8; 3] = [8, 25, 43];
const ODD: [i8; 8] = [1, 3, 5, 7, 9, 11, 13, 15];

#[expect(clippy::indexing_slicing, reason = "evaluated when compiling, where an index out of bounds is an error")]
const fn expand<const LEN: usize, const COUNT: usize, const BYTES: usize>(
    packed: &[u8; BYTES],
    levels: &[i8],
) -> [[i8; LEN]; COUNT] {
    assert!(BYTES == 2 * COUNT, "a file has two bytes for each vector");
    let mut grid = [[0; LEN]; COUNT];
    let bits = 16 / LEN;
    let mut at = 0;
    while at < COUNT * LEN {
        let (entry, element) = (at / LEN, at % LEN);
        let word = u16::from_le_bytes([packed[2 * entry], packed[2 * entry + 1]]);
        grid[entry][element] = levels[(word >> (bits * element)) as usize & ((1 << bits) - 1)];
        at += 1;
    }
    grid
}

/// The vector that the low bits of `index` number: as many as the grid has room for.
#[expect(clippy::indexing_slicing, reason = "the remainder is within the grid")]
pub(super) fn entry<const LEN: usize, const COUNT: usize>(grid: &[[i8; LEN]; COUNT], index: u16) -> &[i8; LEN] {
    &grid[usize::from(index) % COUNT]
}

/// Negates the elements whose bits are set, the first element's the lowest.
pub(super) fn signed<const LEN: usize>(magnitudes: &[i8; LEN], signs: u8) -> [i8; LEN] {
    let mut out = *magnitudes;
    for (at, out) in out.iter_mut().enumerate() {
        if signs >> at & 1 == 1 {
            *out = -*out;
        }
    }
    out
}

/// Returns eight sign bits. The file stores the lowest seven; the eighth makes their parity even.
pub(super) fn eight_signs(seven: u32) -> u8 {
    let seven = seven as u8 & 0x7f;
    seven | (seven.count_ones() as u8 & 1) << 7
}

/// Two for one: the odd numbers that IQ scales of a few bits encode.
pub(super) fn odd(scale: u32) -> i8 {
    2 * scale as i8 + 1
}

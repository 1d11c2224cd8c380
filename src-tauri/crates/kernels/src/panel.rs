//! Tiles of unpacked weight rows. The kernels of each architecture fill and read them.
//!
//! Only the data is here, so that the scratch memory of a product does not import the kernels that use it.

/// One number per row. An eight-row panel leaves the last eight lanes unused.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(crate) struct Lanes<T>(pub(crate) [T; 16]);

/// A cache line of quants.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Line(pub(crate) [u8; 64]);

/// A tile of weight rows, interleaved so that one register holds the same elements of all its rows.
///
/// A panel has as many rows as a register has 32-bit lanes: eight (AVX2) or sixteen (AVX-512). Its quants are registers
/// of `rows x 4` bytes, eight registers for each 32 elements. A broadcast dword of a column is multiplied with all rows at once, and
/// the sums of the rows stay in their lanes without any horizontal step. The memory stays when the panel is refilled.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Default)]
pub(crate) struct Panel {
    /// Quants, by groups of 32 elements: eight registers of the variant's width for each group.
    pub(crate) quants: Vec<Line>,
    /// Scale of each block.
    pub(crate) scales: Vec<Lanes<f32>>,
    /// Scale of the minima of each block, for types with minima.
    pub(crate) minimum_scales: Vec<Lanes<f32>>,
    /// Blocks of 256: per sub-block (32 elements; 16 in Q6_K) its integer scale.
    pub(crate) sub_scales: Vec<Lanes<i32>>,
    /// Blocks of 256: per 32 elements a pair of `i16` that a column's two sums over 16 elements are multiplied with: the
    /// minimum twice (Q4_K, Q5_K), or the scales of both (Q6_K, IQ4_XS, to subtract their offset).
    pub(crate) pairs: Vec<Lanes<i32>>,
}

/// Rows of a panel.
#[cfg(target_arch = "aarch64")]
pub(crate) const ROWS: usize = 4;

/// A tile of four weight rows, unpacked to signed bytes, with one row of scales per lane. The memory stays when the
/// panel is refilled.
#[cfg(target_arch = "aarch64")]
#[derive(Debug, Default)]
pub(crate) struct Panel {
    /// Quants, by groups of 32 elements.
    pub(crate) quants: Vec<[[u8; 32]; ROWS]>,
    /// Scale of each block.
    pub(crate) scales: Vec<[f32; ROWS]>,
    /// Scale of the minima of each block, for types with minima.
    pub(crate) minimum_scales: Vec<[f32; ROWS]>,
    /// Blocks of 256, per block: the integer scale of each 16 elements.
    pub(crate) sub_scales: Vec<[[i32; 16]; ROWS]>,
    /// Q4_K and Q5_K, per block: the minimum of each 32 elements.
    pub(crate) minima: Vec<[[i16; 8]; ROWS]>,
}

//! Tensor element types: one row each, with ggml's id, its name and its block geometry.

/// The type of a tensor's elements, numbered as in ggml.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(non_camel_case_types, reason = "the field writes these names with underscores")]
pub enum DType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of a binary32.
    BF16,
    /// 32 int8 with one f16 scale.
    Q8_0,
    /// 32 4-bit values with one f16 scale.
    Q4_0,
    /// 256 4-bit values, eight 6-bit scales and minima.
    Q4_K,
    /// 256 5-bit values, eight 6-bit scales and minima.
    Q5_K,
    /// 256 6-bit values, sixteen 8-bit scales.
    Q6_K,
}

impl DType {
    /// Elements in one block.
    pub const fn block(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => 1,
            Self::Q8_0 | Self::Q4_0 => 32,
            Self::Q4_K | Self::Q5_K | Self::Q6_K => 256,
        }
    }

    /// Bytes in one block.
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::Q8_0 => 34,
            Self::Q4_0 => 18,
            Self::Q4_K => 144,
            Self::Q5_K => 176,
            Self::Q6_K => 210,
        }
    }

    /// Bytes of a row of `elements` values, which must be whole blocks.
    pub const fn row_bytes(self, elements: usize) -> usize {
        elements / self.block() * self.block_bytes()
    }
}

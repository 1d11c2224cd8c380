//! Tensor element types: one row each, with ggml's id, its name, its block geometry and its scalar codec.
//!
//! A quantised row is a sequence of *blocks*: a fixed number of elements that share scales. Everything that the rest of
//! the engine knows about a type without touching its bits is in [`TABLE`]; the bits are in one file per type below,
//! each with its layout drawn. The codecs are the definition that fast kernels are held against, so they are plain
//! scalar code: decoding gives exactly the `f32` that ggml's own scalar code gives, in ggml's order of operations.
//!
//! Numbering and layouts: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md> (`ggml_type`).

mod bfloat16;
pub mod codebook;
mod float16;
mod float32;
mod grids;
mod integers;
mod iq1_m;
mod iq1_s;
mod iq2_s;
mod iq2_xs;
mod iq2_xxs;
mod iq3_s;
mod iq3_xxs;
mod iq4_nl;
mod iq4_search;
mod iq4_xs;
mod k_scales;
mod lanes;
mod minimum_search;
mod mxfp4;
mod numbers;
mod nvfp4;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
mod q8_1;
mod q8_k;
mod tq1_0;
mod tq2_0;
mod two_bits;

#[cfg(test)]
mod tests;

use crate::error::EncodeError;
pub use integers::{Integers, Minima};
pub use nvfp4::ue4m3_half;

/// The type of a tensor's elements, named as in ggml.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(non_camel_case_types, reason = "the field writes these names with underscores")]
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
    /// 32 5-bit values with one f16 scale.
    Q5_0,
    /// 32 4-bit values with one f16 scale and one f16 minimum.
    Q4_1,
    /// 32 5-bit values with one f16 scale and one f16 minimum.
    Q5_1,
    /// 32 indices into a non-linear grid with one f16 scale.
    IQ4_NL,
    /// 256 indices into a non-linear grid, eight 6-bit scales.
    IQ4_XS,
    /// 32 4-bit floats with a power of two as their scale.
    MXFP4,
    /// 256 4-bit values, eight 6-bit scales and minima.
    Q4_K,
    /// 256 5-bit values, eight 6-bit scales and minima.
    Q5_K,
    /// 256 6-bit values, sixteen 8-bit scales.
    Q6_K,
    /// 256 2-bit values, sixteen 4-bit scales and minima.
    Q2_K,
    /// 256 3-bit values, sixteen 6-bit scales.
    Q3_K,
    /// 256 values of a grid, eight 4-bit scales: 2.06 bits a value.
    IQ2_XXS,
    /// 256 values of a grid, sixteen 4-bit scales: 2.31 bits a value.
    IQ2_XS,
    /// 256 values of a grid, sixteen 4-bit scales: 2.56 bits a value.
    IQ2_S,
    /// 256 values of a grid, eight 4-bit scales: 3.06 bits a value.
    IQ3_XXS,
    /// 256 values of a grid, eight 4-bit scales: 3.44 bits a value.
    IQ3_S,
    /// 256 values of a ternary grid, eight 3-bit scales: 1.56 bits a value.
    IQ1_S,
    /// 256 values of a ternary grid, sixteen 3-bit scales: 1.75 bits a value.
    IQ1_M,
    /// 256 ternary values with one f16 scale: 1.69 bits a value.
    TQ1_0,
    /// 256 ternary values with one f16 scale: 2.06 bits a value.
    TQ2_0,
    /// 64 4-bit floats, four 8-bit floats as scales.
    NVFP4,
    /// 32 int8 with an f16 scale and their sum; ggml's activations, not a type for weights.
    Q8_1,
    /// 256 int8 with an f32 scale and sums; ggml's activations, not a type for weights.
    Q8_K,
    /// Signed 8-bit integer; not a type for weights.
    I8,
    /// Signed 16-bit integer; not a type for weights.
    I16,
    /// Signed 32-bit integer; not a type for weights.
    I32,
    /// Signed 64-bit integer; not a type for weights.
    I64,
    /// IEEE 754 binary64; not a type for weights.
    F64,
}

/// Appends whole blocks' worth of elements as blocks.
type Encode = fn(&[f32], &mut Vec<u8>);

/// What is known about one type.
struct Row {
    dtype: DType,
    ggml_id: u32,
    name: &'static str,
    /// Elements in one block.
    block: usize,
    /// Bytes in one block.
    block_bytes: usize,
    /// Whether matrices of this type can be multiplied with.
    weight: bool,
    /// Whole blocks to as many elements.
    decode: fn(&[u8], &mut [f32]),
    /// `None` for a type that is only read.
    encode: Option<Encode>,
}

/// One row per type, in the order of [`DType`]'s variants (a test holds that), so that a lookup is an index.
#[rustfmt::skip]
static TABLE: [Row; 33] = [
    Row { dtype: DType::F32,  ggml_id: 0,  name: "F32",  block: 1,   block_bytes: 4,   weight: true,  decode: float32::decode,       encode: Some(float32::encode) },
    Row { dtype: DType::F16,  ggml_id: 1,  name: "F16",  block: 1,   block_bytes: 2,   weight: true,  decode: float16::decode,       encode: Some(float16::encode) },
    Row { dtype: DType::BF16, ggml_id: 30, name: "BF16", block: 1,   block_bytes: 2,   weight: true,  decode: bfloat16::decode,      encode: Some(bfloat16::encode) },
    Row { dtype: DType::Q8_0, ggml_id: 8,  name: "Q8_0", block: 32,  block_bytes: 34,  weight: true,  decode: q8_0::decode,        encode: Some(q8_0::encode) },
    Row { dtype: DType::Q4_0, ggml_id: 2,  name: "Q4_0", block: 32,  block_bytes: 18,  weight: true,  decode: q4_0::decode,        encode: Some(q4_0::encode) },
    Row { dtype: DType::Q5_0, ggml_id: 6,  name: "Q5_0", block: 32,  block_bytes: 22,  weight: true,  decode: q5_0::decode,        encode: Some(q5_0::encode) },
    Row { dtype: DType::Q4_1, ggml_id: 3,  name: "Q4_1", block: 32,  block_bytes: 20,  weight: true,  decode: q4_1::decode,        encode: Some(q4_1::encode) },
    Row { dtype: DType::Q5_1, ggml_id: 7,  name: "Q5_1", block: 32,  block_bytes: 24,  weight: true,  decode: q5_1::decode,        encode: Some(q5_1::encode) },
    Row { dtype: DType::IQ4_NL, ggml_id: 20, name: "IQ4_NL", block: 32, block_bytes: 18, weight: true, decode: iq4_nl::decode,     encode: Some(iq4_nl::encode) },
    Row { dtype: DType::IQ4_XS, ggml_id: 23, name: "IQ4_XS", block: 256, block_bytes: 136, weight: true, decode: iq4_xs::decode,   encode: Some(iq4_xs::encode) },
    Row { dtype: DType::MXFP4, ggml_id: 39, name: "MXFP4", block: 32, block_bytes: 17, weight: true,  decode: mxfp4::decode,       encode: Some(mxfp4::encode) },
    Row { dtype: DType::Q4_K, ggml_id: 12, name: "Q4_K", block: 256, block_bytes: 144, weight: true,  decode: q4_k::decode,        encode: Some(q4_k::encode) },
    Row { dtype: DType::Q5_K, ggml_id: 13, name: "Q5_K", block: 256, block_bytes: 176, weight: true,  decode: q5_k::decode,        encode: Some(q5_k::encode) },
    Row { dtype: DType::Q6_K, ggml_id: 14, name: "Q6_K", block: 256, block_bytes: 210, weight: true,  decode: q6_k::decode,        encode: Some(q6_k::encode) },
    Row { dtype: DType::Q2_K,    ggml_id: 10, name: "Q2_K",    block: 256, block_bytes: 84,  weight: true,  decode: |blocks, out| integers::decode(blocks, out, q2_k::read), encode: Some(q2_k::encode) },
    Row { dtype: DType::Q3_K,    ggml_id: 11, name: "Q3_K",    block: 256, block_bytes: 110, weight: true,  decode: |blocks, out| integers::decode(blocks, out, q3_k::read), encode: Some(q3_k::encode) },
    Row { dtype: DType::IQ2_XXS, ggml_id: 16, name: "IQ2_XXS", block: 256, block_bytes: 66,  weight: true,  decode: |blocks, out| integers::decode(blocks, out, iq2_xxs::read), encode: None },
    Row { dtype: DType::IQ2_XS,  ggml_id: 17, name: "IQ2_XS",  block: 256, block_bytes: 74,  weight: true,  decode: |blocks, out| integers::decode(blocks, out, iq2_xs::read), encode: None },
    Row { dtype: DType::IQ2_S,   ggml_id: 22, name: "IQ2_S",   block: 256, block_bytes: 82,  weight: true,  decode: |blocks, out| integers::decode(blocks, out, iq2_s::read), encode: None },
    Row { dtype: DType::IQ3_XXS, ggml_id: 18, name: "IQ3_XXS", block: 256, block_bytes: 98,  weight: true,  decode: |blocks, out| integers::decode(blocks, out, iq3_xxs::read), encode: None },
    Row { dtype: DType::IQ3_S,   ggml_id: 21, name: "IQ3_S",   block: 256, block_bytes: 110, weight: true,  decode: |blocks, out| integers::decode(blocks, out, iq3_s::read), encode: Some(iq3_s::encode) },
    Row { dtype: DType::IQ1_S,   ggml_id: 19, name: "IQ1_S",   block: 256, block_bytes: 50,  weight: true,  decode: |blocks, out| integers::decode(blocks, out, iq1_s::read), encode: None },
    Row { dtype: DType::IQ1_M,   ggml_id: 29, name: "IQ1_M",   block: 256, block_bytes: 56,  weight: true,  decode: |blocks, out| integers::decode(blocks, out, iq1_m::read), encode: None },
    Row { dtype: DType::TQ1_0,   ggml_id: 34, name: "TQ1_0",   block: 256, block_bytes: 54,  weight: true,  decode: |blocks, out| integers::decode(blocks, out, tq1_0::read), encode: Some(tq1_0::encode) },
    Row { dtype: DType::TQ2_0,   ggml_id: 35, name: "TQ2_0",   block: 256, block_bytes: 66,  weight: true,  decode: |blocks, out| integers::decode(blocks, out, tq2_0::read), encode: Some(tq2_0::encode) },
    Row { dtype: DType::NVFP4,   ggml_id: 40, name: "NVFP4",   block: 64,  block_bytes: 36,  weight: true,  decode: nvfp4::decode, encode: None },
    Row { dtype: DType::Q8_1,    ggml_id: 9,  name: "Q8_1",    block: 32,  block_bytes: 36,  weight: false, decode: q8_1::decode, encode: None },
    Row { dtype: DType::Q8_K,    ggml_id: 15, name: "Q8_K",    block: 256, block_bytes: 292, weight: false, decode: q8_k::decode, encode: None },
    Row { dtype: DType::I8,   ggml_id: 24, name: "I8",   block: 1,   block_bytes: 1,   weight: false, decode: numbers::decode_i8,  encode: None },
    Row { dtype: DType::I16,  ggml_id: 25, name: "I16",  block: 1,   block_bytes: 2,   weight: false, decode: numbers::decode_i16, encode: None },
    Row { dtype: DType::I32,  ggml_id: 26, name: "I32",  block: 1,   block_bytes: 4,   weight: false, decode: numbers::decode_i32, encode: None },
    Row { dtype: DType::I64,  ggml_id: 27, name: "I64",  block: 1,   block_bytes: 8,   weight: false, decode: numbers::decode_i64, encode: None },
    Row { dtype: DType::F64,  ggml_id: 28, name: "F64",  block: 1,   block_bytes: 8,   weight: false, decode: numbers::decode_f64, encode: None },
];

impl DType {
    #[expect(clippy::indexing_slicing, reason = "a variant's number is its row's index; a test compares them all")]
    const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// All types, in the order of the table.
    pub fn all() -> impl Iterator<Item = DType> {
        TABLE.iter().map(|row| row.dtype)
    }

    /// The type that ggml numbers `id`, or `None` for a type that this engine does not read.
    pub fn from_ggml_id(id: u32) -> Option<DType> {
        TABLE.iter().find(|row| row.ggml_id == id).map(|row| row.dtype)
    }

    /// The name of a type that ggml has or had, but that is not read here.
    pub(crate) const fn refused_name(id: u32) -> Option<&'static str> {
        Some(match id {
            4 => "Q4_2",
            5 => "Q4_3",
            31 => "Q4_0_4_4",
            32 => "Q4_0_4_8",
            33 => "Q4_0_8_8",
            36 => "IQ4_NL_4_4",
            37 => "IQ4_NL_4_8",
            38 => "IQ4_NL_8_8",
            41 => "Q1_0",
            42 => "Q2_0",
            _ => return None,
        })
    }

    /// The number that stands for the type in a file.
    pub const fn ggml_id(self) -> u32 {
        self.row().ggml_id
    }

    /// The type's name as the field writes it, for example `Q4_K`.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether matrices of this type can be multiplied with; integers and F64 are read but are not weights.
    pub const fn is_weight(self) -> bool {
        self.row().weight
    }

    /// Elements in one block.
    pub const fn block(self) -> usize {
        self.row().block
    }

    /// Bytes in one block.
    pub const fn block_bytes(self) -> usize {
        self.row().block_bytes
    }

    /// Bytes of a row of `elements` values, which must be whole blocks.
    pub const fn row_bytes(self, elements: usize) -> usize {
        elements / self.block() * self.block_bytes()
    }

    /// Decodes whole blocks to `f32`, bit for bit as ggml does.
    ///
    /// # Panics
    /// When `blocks` is not exactly the bytes of `out.len()` elements: a caller takes both from a checked table.
    pub fn decode(self, blocks: &[u8], out: &mut [f32]) {
        self.assert_fits(blocks, out.len());
        (self.row().decode)(blocks, out);
    }

    /// One block as integers, without loss, for the 256-element types that [`Integers`] describes; `None` for others.
    ///
    /// # Panics
    /// When `block` is not exactly the bytes of one block.
    pub fn integers(self, block: &[u8]) -> Option<Integers> {
        self.assert_fits(block, self.block());
        match self {
            DType::Q2_K => integers::first(block, q2_k::read),
            DType::Q3_K => integers::first(block, q3_k::read),
            DType::IQ2_XXS => integers::first(block, iq2_xxs::read),
            DType::IQ2_XS => integers::first(block, iq2_xs::read),
            DType::IQ2_S => integers::first(block, iq2_s::read),
            DType::IQ3_XXS => integers::first(block, iq3_xxs::read),
            DType::IQ3_S => integers::first(block, iq3_s::read),
            DType::IQ1_S => integers::first(block, iq1_s::read),
            DType::IQ1_M => integers::first(block, iq1_m::read),
            DType::TQ1_0 => integers::first(block, tq1_0::read),
            DType::TQ2_0 => integers::first(block, tq2_0::read),
            _ => None,
        }
    }

    /// Encodes `x` and appends its blocks to `out`, bit for bit as ggml's reference encoder does.
    ///
    /// # Errors
    /// When the type has no encoder here, or `x` is not a whole number of blocks.
    pub fn encode(self, x: &[f32], out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let encode = self.row().encode.ok_or(EncodeError::NoEncoder { dtype: self })?;
        if !x.len().is_multiple_of(self.block()) {
            return Err(EncodeError::PartialBlock { dtype: self, elements: x.len(), block: self.block() });
        }
        out.reserve(self.row_bytes(x.len()));
        encode(x, out);
        Ok(())
    }

    /// The dot product of decoded `blocks` with `x`, accumulated in `f64`: the measure for faster kernels, not one.
    ///
    /// # Panics
    /// When `blocks` is not exactly the bytes of `x.len()` elements.
    pub fn dot(self, blocks: &[u8], x: &[f32]) -> f64 {
        // 256 is a multiple of every block, so a chunk never cuts one.
        const CHUNK: usize = 256;
        self.assert_fits(blocks, x.len());
        let mut values = [0.0; CHUNK];
        let mut sum = 0.0;
        for (blocks, x) in blocks.chunks(self.row_bytes(CHUNK)).zip(x.chunks(CHUNK)) {
            let (values, _) = values.split_at_mut(x.len());
            (self.row().decode)(blocks, values);
            sum += values.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum::<f64>();
        }
        sum
    }

    fn assert_fits(self, blocks: &[u8], elements: usize) {
        assert!(
            elements.is_multiple_of(self.block()) && blocks.len() == self.row_bytes(elements),
            "{}: {} bytes are not {elements} elements",
            self.name(),
            blocks.len(),
        );
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// The `f16` at the start of `bytes` as `f32`; scales are stored so.
fn scale(bytes: [u8; 2]) -> f32 {
    half::f16::from_le_bytes(bytes).to_f32()
}

/// Below this magnitude a sub-block counts as all zero, as in ggml (`GROUP_MAX_EPS`).
const SMALLEST: f32 = 1e-15;

/// The element of the largest magnitude, the first of equals; zero for an empty slice.
fn largest(x: &[f32]) -> f32 {
    x.iter().fold(0.0, |largest: f32, &x| if x.abs() > largest.abs() { x } else { largest })
}

/// What starts a block with a minimum, `d` and `m`, and the elements' places on the grid of `levels` steps that `d` spreads
/// from the least element `m` to the greatest.
fn grid_above_minimum(x: &[f32; 32], levels: u8) -> ([u8; 4], [u8; 32]) {
    let least = x.iter().copied().fold(f32::INFINITY, f32::min);
    let greatest = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let d = (greatest - least) / f32::from(levels);
    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
    let [d0, d1] = half::f16::from_f32(d).to_le_bytes();
    let [m0, m1] = half::f16::from_f32(least).to_le_bytes();
    ([d0, d1, m0, m1], x.map(|x| (((x - least) * inverse + 0.5) as u8).min(levels)))
}

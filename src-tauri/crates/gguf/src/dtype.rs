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
mod iq4_nl;
mod iq4_xs;
mod k_scales;
mod mxfp4;
mod numbers;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;

#[cfg(test)]
mod tests;

use crate::error::EncodeError;

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
static TABLE: [Row; 19] = [
    Row { dtype: DType::F32,  ggml_id: 0,  name: "F32",  block: 1,   block_bytes: 4,   weight: true,  decode: float32::decode,       encode: Some(float32::encode) },
    Row { dtype: DType::F16,  ggml_id: 1,  name: "F16",  block: 1,   block_bytes: 2,   weight: true,  decode: float16::decode,       encode: Some(float16::encode) },
    Row { dtype: DType::BF16, ggml_id: 30, name: "BF16", block: 1,   block_bytes: 2,   weight: true,  decode: bfloat16::decode,      encode: Some(bfloat16::encode) },
    Row { dtype: DType::Q8_0, ggml_id: 8,  name: "Q8_0", block: 32,  block_bytes: 34,  weight: true,  decode: q8_0::decode,        encode: Some(q8_0::encode) },
    Row { dtype: DType::Q4_0, ggml_id: 2,  name: "Q4_0", block: 32,  block_bytes: 18,  weight: true,  decode: q4_0::decode,        encode: Some(q4_0::encode) },
    Row { dtype: DType::Q5_0, ggml_id: 6,  name: "Q5_0", block: 32,  block_bytes: 22,  weight: true,  decode: q5_0::decode,        encode: Some(q5_0::encode) },
    Row { dtype: DType::Q4_1, ggml_id: 3,  name: "Q4_1", block: 32,  block_bytes: 20,  weight: true,  decode: q4_1::decode,        encode: Some(q4_1::encode) },
    Row { dtype: DType::Q5_1, ggml_id: 7,  name: "Q5_1", block: 32,  block_bytes: 24,  weight: true,  decode: q5_1::decode,        encode: Some(q5_1::encode) },
    Row { dtype: DType::IQ4_NL, ggml_id: 20, name: "IQ4_NL", block: 32, block_bytes: 18, weight: true, decode: iq4_nl::decode,     encode: None },
    Row { dtype: DType::IQ4_XS, ggml_id: 23, name: "IQ4_XS", block: 256, block_bytes: 136, weight: true, decode: iq4_xs::decode,   encode: None },
    Row { dtype: DType::MXFP4, ggml_id: 39, name: "MXFP4", block: 32, block_bytes: 17, weight: true,  decode: mxfp4::decode,       encode: Some(mxfp4::encode) },
    Row { dtype: DType::Q4_K, ggml_id: 12, name: "Q4_K", block: 256, block_bytes: 144, weight: true,  decode: q4_k::decode,        encode: None },
    Row { dtype: DType::Q5_K, ggml_id: 13, name: "Q5_K", block: 256, block_bytes: 176, weight: true,  decode: q5_k::decode,        encode: None },
    Row { dtype: DType::Q6_K, ggml_id: 14, name: "Q6_K", block: 256, block_bytes: 210, weight: true,  decode: q6_k::decode,        encode: Some(q6_k::encode) },
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

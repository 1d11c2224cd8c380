//! Tensor element types: one row each, with ggml's id, its name, its block geometry and its scalar codec.
//!
//! A quantised row is a sequence of *blocks*: a fixed number of elements that share scales. Every property of a type that
//! other crates use is in its row of [`TABLE`]. Its block's bits are in one file per type below, with the layout drawn. The
//! codecs define the types: fast kernels are compared with them. They are plain scalar code, and decoding gives exactly
//! the `f32` of ggml's own scalar code, in ggml's order of operations.
//!
//! **A new type** is one file with its block and one row here. Encoders, error bounds, test weights and the recorded
//! fixtures follow from the row. Vector kernels are separate: `cairn-kernels` has a table of the types that have them.
//!
//! Numbering and layouts: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md> (`ggml_type`).

mod bfloat16;
pub mod codebook;
mod corners;
mod float16;
mod float32;
mod grid_search;
mod grids;
mod importance;
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
mod positive_search;
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
mod scales;
mod symmetric_search;
mod ternary_search;
mod tq1_0;
mod tq2_0;
mod two_bits;
mod unpacked;

#[cfg(test)]
mod tests;

pub use integers::{Integers, Minima};
pub use scales::Scales;
pub use unpacked::UnpackedRow;

type Unpack = fn(&[u8], &mut UnpackedRow);
type ReadIntegers = fn(&[u8]) -> Option<Integers>;
type Encode = fn(&[f32], &mut Vec<u8>);
type EncodeWeighted = fn(&[f32], &[f32], &mut Vec<u8>);

/// Properties of one type.
struct Row {
    dtype: DType,
    name: &'static str,
    ggml_id: u32,
    /// Elements in one block.
    block: usize,
    /// Bytes in one block.
    block_bytes: usize,
    /// Whether matrices of this type can be multiplied with.
    weight: bool,
    /// Where a block stores its scales.
    scales: Scales,
    /// `general.file_type` of a model whose matrices have this type (llama.cpp's `llama_ftype`).
    file_type: Option<u32>,
    /// The type that llama.cpp quantises to if a matrix's rows are not whole blocks of this one.
    narrow: Option<DType>,
    /// Decodes whole blocks. The output has exactly as many elements as the blocks.
    decode: fn(&[u8], &mut [f32]),
    /// Appends one block to an unpacked row. `None` for floats and for types that are not weights.
    unpack: Option<Unpack>,
    /// Reads one block of a type that [`Integers`] describes.
    integers: Option<ReadIntegers>,
    /// Appends whole blocks' worth of elements as blocks. `None` for a type that is only read, or that needs importance.
    encode: Option<Encode>,
    /// Appends one row of elements as blocks, with errors weighted by the importance of their columns. `None` for a type with
    /// blocks that do not depend on it.
    encode_weighted: Option<EncodeWeighted>,
    /// Bound for [`DType::encode_error`].
    encode_error: f64,
}

impl Row {
    /// Defaults of a type that is not for weights.
    const DATA: Row = Row {
        dtype: DType::F32,
        name: "",
        ggml_id: 0,
        block: 1,
        block_bytes: 0,
        weight: false,
        scales: Scales::None,
        file_type: None,
        narrow: None,
        decode: |_, _| {},
        unpack: None,
        integers: None,
        encode: None,
        encode_weighted: None,
        encode_error: 0.0,
    };
    /// Defaults of a type for weights.
    const WEIGHT: Row = Row { weight: true, ..Row::DATA };
}

/// Defaults of a quantised type whose `$module` has `decode`, `unpack` and `encode`.
macro_rules! blocks {
    ($module:ident) => {
        Row { decode: $module::decode, unpack: Some($module::unpack), encode: Some($module::encode), ..Row::WEIGHT }
    };
}

/// Defaults of a quantised type whose `$module` has `read`, which reads a block as [`Integers`].
macro_rules! integer_blocks {
    ($module:ident) => {
        Row {
            decode: |blocks, out| integers::decode(blocks, out, $module::read),
            unpack: Some(|block, row| {
                row.push_integers(&integers::first(block, $module::read).expect("a whole block is unpacked"));
            }),
            integers: Some(|block| integers::first(block, $module::read)),
            ..Row::WEIGHT
        }
    };
}

/// Defines [`DType`] and [`TABLE`] from one list of rows: documentation, name, and the fields of [`Row`] but its first two.
macro_rules! types {
    ($(#[doc = $doc:literal] $name:ident { $($fields:tt)* })*) => {
        /// The type of a tensor's elements, named as in ggml.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(non_camel_case_types, reason = "the field writes these names with underscores")]
        pub enum DType {
            $(#[doc = $doc] $name,)*
        }

        /// One row per type, in the order of [`DType`]'s variants, so that a lookup is an index.
        static TABLE: &[Row] = &[$(Row { dtype: DType::$name, name: stringify!($name), $($fields)* }),*];
    };
}

types! {
    /// IEEE 754 binary32.
    F32 {
        ggml_id: 0, block: 1, block_bytes: 4, file_type: Some(0),
        encode_error: 0.0, decode: float32::decode, encode: Some(float32::encode), ..Row::WEIGHT
    }
    /// IEEE 754 binary16.
    F16 {
        ggml_id: 1, block: 1, block_bytes: 2, file_type: Some(1),
        encode_error: 2.5e-4, decode: float16::decode, encode: Some(float16::encode), ..Row::WEIGHT
    }
    /// The upper half of a binary32.
    BF16 {
        ggml_id: 30, block: 1, block_bytes: 2, file_type: Some(32),
        encode_error: 2.0e-3, decode: bfloat16::decode, encode: Some(bfloat16::encode), ..Row::WEIGHT
    }
    /// 32 int8 with one f16 scale.
    Q8_0 {
        ggml_id: 8, block: 32, block_bytes: 34, scales: Scales::F16(&[0]), file_type: Some(7),
        encode_error: 6.0e-3, ..blocks!(q8_0)
    }
    /// 32 4-bit values with one f16 scale.
    Q4_0 {
        ggml_id: 2, block: 32, block_bytes: 18, scales: Scales::F16(&[0]), file_type: Some(2),
        encode_error: 0.10,
        encode_weighted: Some(q4_0::encode_weighted),
        ..blocks!(q4_0)
    }
    /// 32 5-bit values with one f16 scale.
    Q5_0 {
        ggml_id: 6, block: 32, block_bytes: 22, scales: Scales::F16(&[0]), file_type: Some(8),
        encode_error: 0.05,
        encode_weighted: Some(q5_0::encode_weighted),
        ..blocks!(q5_0)
    }
    /// 32 4-bit values with one f16 scale and one f16 minimum.
    Q4_1 {
        ggml_id: 3, block: 32, block_bytes: 20, scales: Scales::F16(&[0, 2]), file_type: Some(3),
        encode_error: 0.09,
        encode_weighted: Some(q4_1::encode_weighted),
        ..blocks!(q4_1)
    }
    /// 32 5-bit values with one f16 scale and one f16 minimum.
    Q5_1 {
        ggml_id: 7, block: 32, block_bytes: 24, scales: Scales::F16(&[0, 2]), file_type: Some(9),
        encode_error: 0.045,
        encode_weighted: Some(q5_1::encode_weighted),
        ..blocks!(q5_1)
    }
    /// 32 indices into a non-linear grid with one f16 scale.
    IQ4_NL {
        ggml_id: 20, block: 32, block_bytes: 18, scales: Scales::F16(&[0]), file_type: Some(25),
        encode_error: 0.088,
        encode_weighted: Some(iq4_nl::encode_weighted),
        ..blocks!(iq4_nl)
    }
    /// 256 indices into a non-linear grid, eight 6-bit scales.
    IQ4_XS {
        ggml_id: 23, block: 256, block_bytes: 136, scales: Scales::F16(&[0]), file_type: Some(30),
        narrow: Some(DType::IQ4_NL), encode_error: 0.088,
        encode_weighted: Some(iq4_xs::encode_weighted),
        ..blocks!(iq4_xs)
    }
    /// 32 4-bit floats with a power of two as their scale.
    MXFP4 {
        ggml_id: 39, block: 32, block_bytes: 17, scales: Scales::E8M0, file_type: Some(38),
        encode_error: 0.14, ..blocks!(mxfp4)
    }
    /// 256 4-bit values, eight 6-bit scales and minima.
    Q4_K {
        ggml_id: 12, block: 256, block_bytes: 144, scales: Scales::F16(&[0, 2]), file_type: Some(14),
        narrow: Some(DType::Q5_0), encode_error: 0.08,
        encode_weighted: Some(q4_k::encode_weighted),
        ..blocks!(q4_k)
    }
    /// 256 5-bit values, eight 6-bit scales and minima.
    Q5_K {
        ggml_id: 13, block: 256, block_bytes: 176, scales: Scales::F16(&[0, 2]), file_type: Some(16),
        narrow: Some(DType::Q5_1), encode_error: 0.042,
        encode_weighted: Some(q5_k::encode_weighted),
        ..blocks!(q5_k)
    }
    /// 256 6-bit values, sixteen 8-bit scales.
    Q6_K {
        ggml_id: 14, block: 256, block_bytes: 210, scales: Scales::F16(&[208]), file_type: Some(18),
        narrow: Some(DType::Q8_0), encode_error: 0.022,
        encode_weighted: Some(q6_k::encode_weighted),
        ..blocks!(q6_k)
    }
    /// 256 2-bit values, sixteen 4-bit scales and minima.
    Q2_K {
        ggml_id: 10, block: 256, block_bytes: 84, scales: Scales::F16(&[80, 82]), file_type: Some(10),
        narrow: Some(DType::Q4_0), encode_error: 0.34, encode: Some(q2_k::encode),
        encode_weighted: Some(q2_k::encode_weighted),
        ..integer_blocks!(q2_k)
    }
    /// 256 3-bit values, sixteen 6-bit scales.
    Q3_K {
        ggml_id: 11, block: 256, block_bytes: 110, scales: Scales::F16(&[108]), file_type: Some(11),
        narrow: Some(DType::Q4_0), encode_error: 0.17, encode: Some(q3_k::encode),
        encode_weighted: Some(q3_k::encode_weighted),
        ..integer_blocks!(q3_k)
    }
    /// 256 values of a grid, eight 4-bit scales: 2.06 bits a value.
    IQ2_XXS {
        ggml_id: 16, block: 256, block_bytes: 66, scales: Scales::F16(&[0]), file_type: Some(19),
        narrow: Some(DType::IQ4_NL), encode_error: 0.41,
        encode_weighted: Some(iq2_xxs::encode_weighted),
        ..integer_blocks!(iq2_xxs)
    }
    /// 256 values of a grid, sixteen 4-bit scales: 2.31 bits a value.
    IQ2_XS {
        ggml_id: 17, block: 256, block_bytes: 74, scales: Scales::F16(&[0]), file_type: Some(20),
        narrow: Some(DType::IQ4_NL), encode_error: 0.36,
        encode_weighted: Some(iq2_xs::encode_weighted),
        ..integer_blocks!(iq2_xs)
    }
    /// 256 values of a grid, sixteen 4-bit scales: 2.56 bits a value.
    IQ2_S {
        ggml_id: 22, block: 256, block_bytes: 82, scales: Scales::F16(&[0]), file_type: Some(28),
        narrow: Some(DType::IQ4_NL), encode_error: 0.29,
        encode_weighted: Some(iq2_s::encode_weighted),
        ..integer_blocks!(iq2_s)
    }
    /// 256 values of a grid, eight 4-bit scales: 3.06 bits a value.
    IQ3_XXS {
        ggml_id: 18, block: 256, block_bytes: 98, scales: Scales::F16(&[0]), file_type: Some(23),
        narrow: Some(DType::IQ4_NL), encode_error: 0.22,
        encode_weighted: Some(iq3_xxs::encode_weighted),
        ..integer_blocks!(iq3_xxs)
    }
    /// 256 values, stored as indices into a grid, with eight 4-bit scales: 3.44 bits per value.
    IQ3_S {
        ggml_id: 21, block: 256, block_bytes: 110, scales: Scales::F16(&[0]), file_type: Some(26),
        narrow: Some(DType::IQ4_NL), encode_error: 0.19, encode: Some(iq3_s::encode),
        encode_weighted: Some(iq3_s::encode_weighted),
        ..integer_blocks!(iq3_s)
    }
    /// 256 values of a ternary grid, eight 3-bit scales: 1.56 bits a value.
    IQ1_S {
        ggml_id: 19, block: 256, block_bytes: 50, scales: Scales::F16(&[0]), file_type: Some(24),
        narrow: Some(DType::IQ4_NL), encode_error: 0.57,
        encode_weighted: Some(iq1_s::encode_weighted),
        ..integer_blocks!(iq1_s)
    }
    /// 256 values of a ternary grid, sixteen 3-bit scales: 1.75 bits a value.
    IQ1_M {
        ggml_id: 29, block: 256, block_bytes: 56, scales: Scales::SplitF16(48), file_type: Some(31),
        narrow: Some(DType::IQ4_NL), encode_error: 0.53,
        encode_weighted: Some(iq1_m::encode_weighted),
        ..integer_blocks!(iq1_m)
    }
    /// 256 ternary values with one f16 scale: 1.69 bits a value.
    TQ1_0 {
        ggml_id: 34, block: 256, block_bytes: 54, scales: Scales::F16(&[52]), file_type: Some(36),
        narrow: Some(DType::Q4_0), encode_error: 0.9, encode: Some(tq1_0::encode), ..integer_blocks!(tq1_0)
    }
    /// 256 ternary values with one f16 scale: 2.06 bits a value.
    TQ2_0 {
        ggml_id: 35, block: 256, block_bytes: 66, scales: Scales::F16(&[64]), file_type: Some(37),
        narrow: Some(DType::Q4_0), encode_error: 0.9, encode: Some(tq2_0::encode), ..integer_blocks!(tq2_0)
    }
    /// 64 4-bit floats, four 8-bit floats as scales.
    NVFP4 {
        ggml_id: 40, block: 64, block_bytes: 36, scales: Scales::UE4M3, file_type: Some(39),
        decode: nvfp4::decode, unpack: Some(nvfp4::unpack), ..Row::WEIGHT
    }
    /// 32 int8 with an f16 scale and their sum; ggml's activations, not a type for weights.
    Q8_1 {
        ggml_id: 9, block: 32, block_bytes: 36, scales: Scales::F16(&[0, 2]),
        decode: q8_1::decode, ..Row::DATA
    }
    /// 256 int8 with an f32 scale and sums; ggml's activations, not a type for weights.
    Q8_K { ggml_id: 15, block: 256, block_bytes: 292, decode: q8_k::decode, ..Row::DATA }
    /// Signed 8-bit integer; not a type for weights.
    I8 { ggml_id: 24, block: 1, block_bytes: 1, decode: numbers::decode_i8, ..Row::DATA }
    /// Signed 16-bit integer; not a type for weights.
    I16 { ggml_id: 25, block: 1, block_bytes: 2, decode: numbers::decode_i16, ..Row::DATA }
    /// Signed 32-bit integer; not a type for weights.
    I32 { ggml_id: 26, block: 1, block_bytes: 4, decode: numbers::decode_i32, ..Row::DATA }
    /// Signed 64-bit integer; not a type for weights.
    I64 { ggml_id: 27, block: 1, block_bytes: 8, decode: numbers::decode_i64, ..Row::DATA }
    /// IEEE 754 binary64; not a type for weights.
    F64 { ggml_id: 28, block: 1, block_bytes: 8, decode: numbers::decode_f64, ..Row::DATA }
}

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

    /// ggml's number of the type, as stored in files.
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

    /// Where a block stores its scales.
    pub const fn scales(self) -> Scales {
        self.row().scales
    }

    /// `general.file_type` of a model whose matrices have this type, or `None` if llama.cpp has no such number.
    pub const fn file_type(self) -> Option<u32> {
        self.row().file_type
    }

    /// The type that llama.cpp quantises to if a matrix's rows are not whole blocks of this type.
    pub const fn narrow(self) -> Option<DType> {
        self.row().narrow
    }

    /// Upper bound on the root mean square error of encoding values with the spread of weights, relative to the values'; about
    /// 1.2 times the measured error. `None` for a type without an encoder.
    pub fn encode_error(self) -> Option<f64> {
        let row = self.row();
        (row.encode.is_some() || row.encode_weighted.is_some()).then_some(row.encode_error)
    }

    /// Whether the type can only be encoded with the importance of columns: without it, so few bits give useless weights.
    pub fn needs_importance(self) -> bool {
        let row = self.row();
        row.encode.is_none() && row.encode_weighted.is_some()
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
        self.row().integers.and_then(|read| read(block))
    }

    /// Replaces `out` by a row of this type as integers and scales, without loss.
    ///
    /// # Panics
    /// When the type is not a quantised type for weights, or `blocks` is not whole blocks.
    pub fn unpack(self, blocks: &[u8], out: &mut UnpackedRow) {
        let unpack = self.row().unpack.expect("only quantised types for weights are unpacked");
        assert!(blocks.len().is_multiple_of(self.block_bytes()), "{self}: {} bytes are not whole blocks", blocks.len());
        out.clear();
        for block in blocks.chunks_exact(self.block_bytes()) {
            unpack(block, out);
        }
    }

    /// Encodes `x` and appends its blocks to `out`, bit for bit as ggml's reference encoder does.
    ///
    /// # Errors
    /// When the type has no encoder here, or `x` is not a whole number of blocks.
    pub fn encode(self, x: &[f32], out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let none = if self.needs_importance() {
            EncodeError::NeedsImportance { dtype: self }
        } else {
            EncodeError::NoEncoder { dtype: self }
        };
        let encode = self.row().encode.ok_or(none)?;
        self.reserve_blocks(x, out)?;
        encode(x, out);
        Ok(())
    }

    /// Encodes rows of `importance.len()` elements and appends their blocks to `out`, with errors weighted by the importance
    /// of their columns, bit for bit as ggml does with an importance matrix. Types with blocks that do not depend on it are
    /// encoded as without. Importance is finite and not negative; a column of zero may get any value.
    ///
    /// # Errors
    /// When the type has no encoder here, or the rows are not whole blocks or `x` is not whole rows.
    pub fn encode_weighted(self, x: &[f32], importance: &[f32], out: &mut Vec<u8>) -> Result<(), EncodeError> {
        if importance.is_empty() || !x.len().is_multiple_of(importance.len()) {
            return Err(EncodeError::PartialRow { elements: x.len(), columns: importance.len() });
        }
        let Some(encode) = self.row().encode_weighted else { return self.encode(x, out) };
        self.reserve_blocks(importance, out)?;
        out.reserve(self.row_bytes(x.len()));
        for row in x.chunks_exact(importance.len()) {
            encode(row, importance, out);
        }
        Ok(())
    }

    /// Reserves the memory of elements, which must be whole blocks.
    fn reserve_blocks(self, x: &[f32], out: &mut Vec<u8>) -> Result<(), EncodeError> {
        if !x.len().is_multiple_of(self.block()) {
            return Err(EncodeError::PartialBlock { dtype: self, elements: x.len(), block: self.block() });
        }
        out.reserve(self.row_bytes(x.len()));
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

/// Reason why elements cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The type can be read but not written from floats.
    #[error("{dtype} has no encoder")]
    NoEncoder {
        /// The type.
        dtype: DType,
    },
    /// The type can only be encoded with the importance of columns.
    #[error("{dtype} can only be encoded with an importance matrix")]
    NeedsImportance {
        /// The type.
        dtype: DType,
    },
    /// The elements are not whole rows.
    #[error("{elements} elements are not whole rows of {columns} columns, one for each number of the importance")]
    PartialRow {
        /// Elements that were given.
        elements: usize,
        /// Numbers of the importance.
        columns: usize,
    },
    /// The elements are not whole blocks.
    #[error("{elements} elements are not whole blocks; {dtype} has {block} elements in a block")]
    PartialBlock {
        /// The type.
        dtype: DType,
        /// Elements that were given.
        elements: usize,
        /// Elements in a block.
        block: usize,
    },
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

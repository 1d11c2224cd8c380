//! The operands of a product of weight rows with activation columns.

use cairn_gguf::DType;
use cairn_gguf::dtype::UnpackedRow;

use crate::format::{Columns, Format};

/// `out[column * out_stride + row]` = the dot product of a weight row and an activation column.
///
/// One column is the decode path, bound by memory: each weight byte is read once. Several columns are the prefill path:
/// tiles of rows are unpacked once into `scratch` and multiplied with all columns. Both give the same bits.
#[derive(Debug)]
pub struct MatMul<'a> {
    /// Type of the weights.
    pub dtype: DType,
    /// Elements of a row and of a column, whole blocks of the type.
    pub k: usize,
    /// `rows` rows of `dtype.row_bytes(k)`, in the file's layout and at any alignment.
    pub weights: &'a [u8],
    /// How many rows; kernels take them by 8 or 16, so a caller that splits them does so at multiples of 16.
    pub rows: usize,
    /// Activations in the format of `dtype`.
    pub columns: Columns<'a>,
    /// Receives `[columns, rows]`. Between two columns' results it is left as it is; threads that share one output by
    /// rows need a slice each, so they compute into memory of their own.
    pub out: &'a mut [f32],
    /// Elements from one column's results to the next one's, at least `rows`.
    pub out_stride: usize,
    /// Memory for unpacked tiles; one per thread.
    pub scratch: &'a mut Scratch,
}

impl<'a> MatMul<'a> {
    /// Checks all lengths, so that a kernel may rely on them.
    ///
    /// # Panics
    /// When the operands do not fit each other: a caller takes them from a checked plan.
    pub(crate) fn check(&self) {
        let Self { dtype, k, weights, rows, columns, out, out_stride, .. } = self;
        assert_eq!(columns.format, Format::of(*dtype), "columns for {dtype:?}");
        assert_eq!(columns.k, *k, "weights and columns of one width");
        assert!(k.is_multiple_of(dtype.block()), "{k} elements are whole blocks of {dtype:?}");
        assert_eq!(weights.len(), rows * dtype.row_bytes(*k), "{rows} rows of {k} {dtype:?}");
        assert_eq!(columns.bytes.len(), columns.count * columns.format.column_bytes(*k), "{} columns", columns.count);
        assert!(out_stride >= rows || columns.count < 2, "results of {rows} rows fit a stride of {out_stride}");
        let needed = columns.count.saturating_sub(1) * out_stride + rows;
        assert!(out.len() >= needed || columns.count == 0, "{needed} results fit {} places", out.len());
    }

    /// The bytes of weight row `index`.
    pub(crate) fn row(&self, index: usize) -> &'a [u8] {
        let bytes = self.dtype.row_bytes(self.k);
        &self.weights[index * bytes..(index + 1) * bytes]
    }

    /// The bytes of the rows of a panel, repeating the last row past the end. (Closures are avoided in functions
    /// with target features: they would have them too, and are then not inlined where the library calls them.)
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[inline(always)]
    pub(crate) fn panel_rows<const ROWS: usize>(&self, first: usize) -> [&'a [u8]; ROWS] {
        std::array::from_fn(|r| self.row((first + r).min(self.rows - 1)))
    }
}

/// Memory for unpacked tiles of weights. Grows to what the largest product needs and is then reused.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Unpacked weights of the scalar variant.
    pub(crate) row: UnpackedRow,
    /// Unpacked weights of the vector variants.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    pub(crate) panels: Vec<crate::panel::Panel>,
}

impl Scratch {
    /// Empty memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

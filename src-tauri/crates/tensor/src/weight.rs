//! Weights: bytes in GGUF block layout, used in place.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use cairn_gguf::DType;

/// Handle of an uploaded weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeightId(pub u32);

/// Shared read-only bytes: a part of a mapped file, of the program's own image, or of memory. Cloning copies nothing.
#[derive(Clone)]
pub struct Bytes {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl Bytes {
    /// Wraps all bytes of `owner`.
    pub fn new(owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        let range = 0..(*owner).as_ref().len();
        Self { owner, range }
    }

    /// Returns a part of these bytes; `None` if the range exceeds them.
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        let start = self.range.start.checked_add(range.start)?;
        let end = self.range.start.checked_add(range.end)?;
        (start <= end && end <= self.range.end).then(|| Self { owner: Arc::clone(&self.owner), range: start..end })
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(Arc::new(bytes))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.range.clone()]
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({:?})", self.range)
    }
}

/// A matrix `[rows, cols]`, row by row, in blocks of its type along `cols`; a vector is a matrix of one row.
#[derive(Clone, Debug)]
pub struct Weight {
    /// The tensor's name in the model file, for error texts.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Output width, or the vocabulary of an embedding table.
    pub rows: usize,
    /// Input width: whole blocks.
    pub cols: usize,
    /// `rows * dtype.row_bytes(cols)` bytes.
    pub bytes: Bytes,
}

impl Weight {
    /// Returns the bytes of a range of rows.
    pub(crate) fn row_bytes(&self, rows: Range<usize>) -> &[u8] {
        let bytes = self.dtype.row_bytes(self.cols);
        &self.bytes[rows.start * bytes..rows.end * bytes]
    }
}

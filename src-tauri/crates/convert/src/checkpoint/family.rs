//! What a family of models provides: descriptions and tensors in the form of GGUF.

use std::ops::Range;
use std::sync::Arc;

use cairn_gguf::Metadata;

use super::config::Config;
use super::description::Description;
use super::error::ConvertError;

/// Model family.
pub(super) trait Family: Sync {
    /// Values of `architectures` in `config.json` of this family.
    fn architectures(&self) -> &'static [&'static str];

    /// Returns `general.architecture` of the new file.
    fn name(&self) -> &'static str;

    /// Returns the matrices of a file of this family that a linear module of the checkpoint becomes; none if the family has no
    /// such module or its adapters are not supported.
    fn matrices(&self, _: &str) -> Vec<ModuleMatrix> {
        Vec::new()
    }

    /// Returns whether a checkpoint with one of these architectures is of this family.
    fn applies(&self, _: &Config) -> bool {
        true
    }

    /// Returns whether matrices behind the pooling are part of the new file.
    fn has_dense(&self) -> bool {
        false
    }

    /// Gives values of a config their usual names, and adds those that the family derives from others.
    fn prepare(&self, _: &mut Config) -> Result<(), ConvertError> {
        Ok(())
    }

    /// Returns the metadata of the new file, including its vocabulary.
    fn metadata(&self, description: &Description<'_>) -> Result<Metadata, ConvertError>;

    /// Returns the tensors of the new file that a tensor of the checkpoint becomes; none if the forward pass does not need it.
    fn places(&self, name: &str, description: &Description<'_>) -> Result<Vec<Place>, ConvertError>;

    /// Returns whether a tensor of the checkpoint is of a part that is not converted: a tower of images or sound.
    fn is_left_out(&self, _: &str) -> bool {
        false
    }

    /// Returns whether the files must have an output matrix, because it is not the embedding.
    fn needs_output(&self, _: &Description<'_>) -> Result<bool, ConvertError> {
        Ok(false)
    }

    /// Returns tensors that the new file has in addition, which are computed from the config.
    fn computed(&self, _: &Description<'_>) -> Result<Vec<(&'static str, Vec<f32>)>, ConvertError> {
        Ok(Vec::new())
    }
}

/// Place of a checkpoint's tensor in the new file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    /// Name in GGUF.
    pub(super) name: String,
    /// Number of the expert that the matrix belongs to. The new file has the matrices of all experts in one tensor.
    pub(super) expert: Option<u32>,
    /// Number of experts that the new tensor has.
    pub(super) experts: u32,
    pub(super) contents: Contents,
    pub(super) layout: Layout,
    /// Dimensions of the new tensor that are determined by the config, row length first.
    pub(super) dims: Vec<Option<u64>>,
    /// Whether the new tensor has these dimensions in place of those of the checkpoint, for as many elements.
    pub(super) is_reshaped: bool,
    /// Whether several tensors of the checkpoint have the same elements, of which the new file has one.
    pub(super) is_shared: bool,
}

/// Matrix of a GGUF file that a linear module of a checkpoint becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModuleMatrix {
    /// Name in GGUF.
    pub(super) name: String,
    /// Rows of the module that belong to the matrix.
    pub(super) select: Select,
    /// Heads of its rows, if they are interleaved.
    pub(super) heads: Option<Heads>,
}

/// Heads of attention, with a number for each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heads {
    Query,
    KeyValue,
}

/// What the elements of a tensor are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// Numbers.
    Numbers,
    /// 4-bit floats, two in each byte.
    Blocks,
    /// The scales of 4-bit floats.
    BlockScales,
}

/// Order of the elements in the new file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    /// Number of matrices with equally many rows that a matrix of the checkpoint consists of.
    pub(super) split: u64,
    /// Rows of each matrix that belong to the tensor.
    pub(super) select: Select,
    /// Rows of each matrix that belong to the tensor, in their new order; all of the selected ones if there is no list.
    /// An element of a vector is a row.
    pub(super) rows: Option<Arc<[Range<u64>]>>,
    /// The same of columns.
    pub(super) columns: Option<Arc<[Range<u64>]>>,
    /// Number of heads, if their rows are reordered: the two halves of a head are interleaved, because this family's rotation
    /// pairs adjacent elements in GGUF, and the halves in checkpoints.
    pub(super) heads: Option<u64>,
    /// Whether rows and columns are swapped.
    pub(super) is_transposed: bool,
    /// Added to each element. A checkpoint of Gemma has the distance of norms from 1.
    pub(super) shift: f32,
    /// Factor of each element, before the shift.
    pub(super) factor: f32,
    /// Whether each element is replaced by the negative of its power of e: checkpoints have logarithms of rates of
    /// decay.
    pub(super) is_logarithm: bool,
}

impl Layout {
    pub(super) const PLAIN: Self = Self {
        split: 1,
        select: Select::All,
        rows: None,
        columns: None,
        heads: None,
        is_transposed: false,
        shift: 0.0,
        factor: 1.0,
        is_logarithm: false,
    };
}

/// Returns the number of rows, or columns, of a list.
pub(super) fn total(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Rows of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Select {
    All,
    Even,
    Odd,
    FirstHalf,
    SecondHalf,
}

impl Select {
    /// Returns how many of `rows` are selected, if they can be divided.
    pub(super) fn count(self, rows: u64) -> Option<u64> {
        match self {
            Select::All => Some(rows),
            _ => Some(rows / 2).filter(|_| rows.is_multiple_of(2)),
        }
    }

    /// Returns the `index`-th selected row of `rows`.
    pub(super) fn row(self, index: u64, rows: u64) -> u64 {
        match self {
            Select::All | Select::FirstHalf => index,
            Select::Even => 2 * index,
            Select::Odd => 2 * index + 1,
            Select::SecondHalf => rows / 2 + index,
        }
    }
}

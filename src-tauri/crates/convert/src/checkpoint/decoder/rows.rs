//! Tables of tensors: names in checkpoints and in GGUF, dimensions, and the order of elements.

use std::ops::Range;

use super::super::config::Config;
use super::super::error::ConvertError;
use super::super::family::{Heads, Select};

/// A dimension that the config determines.
#[derive(Clone, Copy, Debug)]
pub(in crate::checkpoint) enum Dim {
    Any,
    /// A computed size.
    Of(SizeOf),
    Width,
    /// Width inside the MLP.
    Inner,
    /// Twice that: gate and linear part.
    TwoInner,
    /// All heads of queries.
    Query,
    /// All heads of keys, or of values.
    KeyValue,
    /// Queries, keys and values.
    Fused,
    Head,
    Heads,
    Experts,
    /// Width inside an expert.
    ExpertInner,
    /// Width inside a shared expert.
    SharedInner,
}

/// Reads a size from a configuration.
type SizeOf = fn(&Config) -> Result<u64, ConvertError>;

/// Reads the order of rows and columns from a configuration.
type OrderOf = fn(&Config) -> Result<Order, ConvertError>;

/// A tensor of a checkpoint and its place in the new file.
pub(in crate::checkpoint) struct Row {
    /// Name without prefix and ending. `*` is the number of an expert.
    pub(super) from: &'static str,
    /// Name in GGUF, without prefix and ending.
    pub(super) to: &'static str,
    /// Dimensions, row length first. A bias has those behind the first one.
    pub(super) dims: &'static [Dim],
    /// Heads of its rows, if they are interleaved in some families.
    pub(super) heads: Option<Heads>,
    pub(super) select: Select,
    /// Whether numbers, in contrast to 4-bit blocks, have rows and columns swapped.
    pub(super) is_transposed: bool,
    /// The order of rows and columns, if it is another one.
    pub(super) order: Option<OrderOf>,
    /// Whether the name in GGUF has no ending.
    pub(super) is_bare: bool,
    /// Whether its dimensions replace those of the checkpoint.
    pub(super) is_reshaped: bool,
    /// Whether the elements are logarithms.
    pub(super) is_logarithm: bool,
    /// Number of matrices that the new tensor consists of, if the checkpoint has a tensor of each: `*` is its number.
    pub(super) stacked: Option<SizeOf>,
    /// Whether the weights of this norm have no distance from 1, in contrast to others of the family.
    pub(super) is_unshifted: bool,
}

/// Order of rows and columns of a tensor.
#[derive(Clone, Debug, Default)]
pub(in crate::checkpoint) struct Order {
    /// Number of matrices with equally many rows that the matrix consists of; 0 for one.
    pub(in crate::checkpoint) split: u64,
    /// Ranges of rows in their new order; all if there are none.
    pub(in crate::checkpoint) rows: Option<Vec<Range<u64>>>,
    /// Ranges of columns in their new order; all if there are none.
    pub(in crate::checkpoint) columns: Option<Vec<Range<u64>>>,
}

impl Order {
    pub(in crate::checkpoint) fn rows(ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        Self { rows: Some(ranges.into_iter().collect()), ..Self::default() }
    }
}

/// A tensor with its elements in the same order.
pub(in crate::checkpoint) const fn row(from: &'static str, to: &'static str, dims: &'static [Dim]) -> Row {
    Row {
        from,
        to,
        dims,
        heads: None,
        select: Select::All,
        is_transposed: false,
        order: None,
        is_bare: false,
        is_reshaped: false,
        is_logarithm: false,
        stacked: None,
        is_unshifted: false,
    }
}

impl Row {
    pub(in crate::checkpoint) const fn heads(self, heads: Heads) -> Self {
        Self { heads: Some(heads), ..self }
    }

    /// Takes some rows of each matrix.
    pub(in crate::checkpoint) const fn select(self, select: Select) -> Self {
        Self { select, ..self }
    }

    /// Swaps rows and columns.
    pub(in crate::checkpoint) const fn transposed(self) -> Self {
        Self { is_transposed: true, ..self }
    }

    /// Takes rows and columns in another order.
    pub(in crate::checkpoint) const fn order(self, order: fn(&Config) -> Result<Order, ConvertError>) -> Self {
        Self { order: Some(order), ..self }
    }

    /// Has no ending in GGUF.
    pub(in crate::checkpoint) const fn bare(self) -> Self {
        Self { is_bare: true, ..self }
    }

    /// Has these dimensions whatever those of the checkpoint are.
    pub(in crate::checkpoint) const fn reshaped(self) -> Self {
        Self { is_reshaped: true, ..self }
    }

    /// Has logarithms of the rates of decay.
    pub(in crate::checkpoint) const fn logarithm(self) -> Self {
        Self { is_logarithm: true, ..self }
    }

    /// Consists of several matrices.
    pub(in crate::checkpoint) const fn stacked(self, count: fn(&Config) -> Result<u64, ConvertError>) -> Self {
        Self { stacked: Some(count), ..self }
    }

    /// Is a norm with the weights themselves.
    pub(in crate::checkpoint) const fn unshifted(self) -> Self {
        Self { is_unshifted: true, ..self }
    }
}

/// Projections of attention.
pub(in crate::checkpoint) const ATTENTION: &[Row] = &[
    row("self_attn.q_proj", "attn_q", &[Dim::Width, Dim::Query]).heads(Heads::Query),
    row("self_attn.k_proj", "attn_k", &[Dim::Width, Dim::KeyValue]).heads(Heads::KeyValue),
    row("self_attn.v_proj", "attn_v", &[Dim::Width, Dim::KeyValue]),
    row("self_attn.o_proj", "attn_output", &[Dim::Query, Dim::Width]),
];

/// Gated MLP.
pub(in crate::checkpoint) const MLP: &[Row] = &[
    row("mlp.gate_proj", "ffn_gate", &[Dim::Width, Dim::Inner]),
    row("mlp.up_proj", "ffn_up", &[Dim::Width, Dim::Inner]),
    row("mlp.down_proj", "ffn_down", &[Dim::Inner, Dim::Width]),
];

/// Norms before attention and MLP.
pub(in crate::checkpoint) const NORMS: &[Row] =
    &[row("input_layernorm", "attn_norm", &[Dim::Width]), row("post_attention_layernorm", "ffn_norm", &[Dim::Width])];

/// Tensors outside of layers.
pub(in crate::checkpoint) const TABLES: &[Row] = &[
    row("embed_tokens", "token_embd", &[Dim::Width, Dim::Any]),
    row("norm", "output_norm", &[Dim::Width]),
    row(OUTPUT, "output", &[Dim::Width, Dim::Any]),
];

pub(in crate::checkpoint) const OUTPUT: &str = "lm_head";

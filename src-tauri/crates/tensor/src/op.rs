//! The ops of a plan. Each has its formula, the shapes of its buffers, and the source.

use std::ops::Range;

use crate::buffer::BufferId;
use crate::delta::DeltaRule;
use crate::part_attention::PartAttention;
use crate::router::Router;
use crate::state::{RecurrentId, StateId};
use crate::state_space::StateSpace;
use crate::weight::WeightId;

/// The activation of a gated feed-forward block (Shazeer, arXiv 2002.05202).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Glu {
    /// `silu(gate) * up` with `silu(x) = x / (1 + exp(-x))`.
    Silu,
    /// `gelu(gate) * up` with the gelu of [`Op::Gelu`].
    Gelu,
    /// `g / (1 + exp(-alpha * g)) * (u + 1)` with `g = min(gate, limit)` and `u = clamp(up, -limit, limit)`.
    Clamped {
        /// Steepness of the sigmoid.
        alpha: f32,
        /// Limit of both inputs; above zero.
        limit: f32,
    },
}

/// One product of an op that multiplies the same input by several weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projection {
    /// `[out width, in width]`.
    pub weight: WeightId,
    /// `[out width]`, added after the product.
    pub bias: Option<WeightId>,
    /// Receives `[rows, out width]`.
    pub out: BufferId,
}

/// Elements of each head of a buffer `[rows, heads * width]`, from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadPart {
    /// The buffer.
    pub buffer: BufferId,
    /// Number of heads in a row.
    pub heads: usize,
    /// First element of the part in each head.
    pub first: usize,
}

impl HeadPart {
    /// Range of the part of a head, with this number of elements, in a row of `row_width` elements.
    pub(crate) fn range(&self, head: usize, width: usize, row_width: usize) -> Range<usize> {
        let start = head * (row_width / self.heads) + self.first;
        start..start + width
    }
}

/// One step of a forward pass. In-place use (`out` equal to an input) is allowed where stated.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Rows of the embedding table, or the batch's own embedding rows.
    Embed {
        /// `[vocabulary, width]`.
        table: WeightId,
        /// Receives `[rows, width]`.
        out: BufferId,
    },
    /// Adds to each row of `x` with an embedding row as its input the elements of that from `first` on. Other rows stay as they are.
    AddInput {
        /// Accumulator, `[rows, width]`.
        x: BufferId,
        /// Index of an element of the batch's embedding rows.
        first: usize,
    },
    /// Rows of a table by token. A row of the batch that is not a token has the table's first row, which is that of padding.
    EmbedTokens {
        /// `[vocabulary, width]`.
        table: WeightId,
        /// Receives `[rows, width]`.
        out: BufferId,
    },
    /// The batch's own embedding rows. No row of the batch is a token.
    Input {
        /// Receives `[rows, width]`.
        out: BufferId,
    },
    /// Adds to each row of `x` the table's row with the index that is a component of the row's position: learned positions and
    /// segments (Devlin et al., arXiv 1810.04805).
    AddEmbedding {
        /// Accumulator, `[rows, width]`.
        x: BufferId,
        /// `[indices, width]`.
        table: WeightId,
        /// Component of [`crate::Row::pos`].
        component: usize,
    },
    /// Adds to each row of `x` learned positions of a square grid, scaled to the size of a picture: row `y` and column `x` of a picture of
    /// `h` rows and `w` columns have the place `y (side - 1) / (h - 1)`, `x (side - 1) / (w - 1)` in the grid, and get the bilinear
    /// interpolation of the four entries around it. [`Row::pos`](crate::Row::pos) is `[y, x, h, w]`.
    AddGridEmbedding {
        /// Accumulator, `[rows, width]`.
        x: BufferId,
        /// `[side * side, width]`, the rows of the grid one after the other.
        table: WeightId,
        /// Entries of a side of the grid.
        side: usize,
    },
    /// `out = x / sqrt(mean(x²) + eps) * weight` over each group of `group` elements (Zhang & Sennrich, arXiv
    /// 1910.07467). `out` may be `x`.
    RmsNorm {
        /// Input.
        x: BufferId,
        /// `[group]`, the same for all groups, or `[width]`.
        weight: WeightId,
        /// Added to the mean of squares.
        eps: f32,
        /// Elements normalised together: the row's width, or one head.
        group: usize,
        /// Output, as wide as `x`.
        out: BufferId,
    },
    /// `out = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias` over each row (Ba et al., arXiv 1607.06450).
    /// `out` may be `x`.
    LayerNorm {
        /// Input.
        x: BufferId,
        /// `[width]`.
        weight: WeightId,
        /// `[width]`.
        bias: Option<WeightId>,
        /// Added to the variance.
        eps: f32,
        /// Output, as wide as `x`.
        out: BufferId,
    },
    /// Each projection's `out = x · weightᵀ + bias`. `x` is converted once for all of them.
    MatMul {
        /// Input.
        x: BufferId,
        /// At least one.
        projections: Vec<Projection>,
    },
    /// As [`Op::MatMul`], for a part of a low-rank adapter (Hu et al., arXiv 2106.09685). The outputs are undefined if no sequence
    /// of the batch uses the adapter.
    MatMulAdapter {
        /// Index of the adapter, as in [`AdapterUse`](crate::AdapterUse).
        adapter: u32,
        /// Input.
        x: BufferId,
        /// At least one.
        projections: Vec<Projection>,
    },
    /// `x += factor * scale * y` for each row of a sequence that uses the adapter with `scale`. Other rows keep their bits. `y` is
    /// undefined afterwards.
    AddAdapter {
        /// Index of the adapter, as in [`AdapterUse`](crate::AdapterUse).
        adapter: u32,
        /// Accumulator.
        x: BufferId,
        /// Summand, as wide as `x`.
        y: BufferId,
        /// The adapter's own factor; any finite number.
        factor: f32,
    },
    /// Multiplies the part of each head by a matrix of its own: `to = from · weightᵀ`.
    MatMulHeads {
        /// Input, of `in width` elements.
        from: HeadPart,
        /// `[heads * out width, in width]`.
        weight: WeightId,
        /// Receives `out width` elements, in as many heads. Another buffer.
        to: HeadPart,
    },
    /// Copies the part of each head, or of the only head to all of them.
    CopyHeads {
        /// Source.
        from: HeadPart,
        /// Target. Another buffer.
        to: HeadPart,
        /// Elements of a part.
        width: usize,
    },
    /// Adds the part of each head, or of the only head to all of them.
    AddHeads {
        /// Summand.
        from: HeadPart,
        /// Accumulator. Another buffer.
        to: HeadPart,
        /// Elements of a part.
        width: usize,
    },
    /// Mixes the parts of a row: `out`'s part `i` of `n` gets the sum over the `m` parts of `x`, in ascending order, of a part times
    /// factor `i * m + j` of the row (alternating updates: Baykal et al., arXiv 2301.13310, section 3.1).
    AddMixed {
        /// `[rows, m * width]`.
        x: BufferId,
        /// `[rows, n * m]`.
        factors: BufferId,
        /// Elements of a part.
        width: usize,
        /// Accumulator, `[rows, n * width]`. Neither `x` nor `factors`.
        out: BufferId,
    },
    /// Scales each part of `x` that is as wide as `like` to the length of that row: `x *= |like| / |x|`. Zeros stay zeros.
    MatchLength {
        /// Input and output.
        x: BufferId,
        /// Its width divides that of `x`. Not `x`.
        like: BufferId,
    },
    /// `x = max(0, x - mean(x) - deviations * deviation(x))` over each row in place, with the deviation of a sample: keeps the part
    /// of a normal distribution beyond a quantile.
    KeepOutliers {
        /// Input and output, `[rows, width]` with a width of at least two.
        x: BufferId,
        /// Any finite number.
        deviations: f32,
    },
    /// `x += weight` by element.
    AddWeight {
        /// Accumulator, `[rows, width]`.
        x: BufferId,
        /// `[width]`.
        weight: WeightId,
    },
    /// `x *= weight` by element.
    MulWeight {
        /// Input and output, `[rows, width]`.
        x: BufferId,
        /// `[width]`.
        weight: WeightId,
    },
    /// Chooses and weighs the experts of each row.
    Route {
        /// `[rows, experts]`.
        logits: BufferId,
        /// The choice and the weights.
        router: Router,
        /// Receives `[rows, 2 * used]`: the experts' indices as whole numbers, then their weights. Not `logits`.
        out: BufferId,
    },
    /// Multiplies the input of each of a row's experts by the expert's weight, instead of its output: `out`'s part `i`
    /// is weight `i` times `x`, and the weights of the routes are 1 afterwards (Llama 4,
    /// <https://ai.meta.com/blog/llama-4-multimodal-intelligence/>).
    WeighInputs {
        /// `[rows, width]`.
        x: BufferId,
        /// Output of [`Op::Route`].
        routes: BufferId,
        /// Receives `[rows, used * width]`, for [`Op::MatMulId`]. Not `x`.
        out: BufferId,
    },
    /// For each expert that a row has chosen, each projection's `out = x · weightᵀ + bias` with the expert's own part
    /// of the weight and the bias. `x` is converted once for all of them.
    MatMulId {
        /// `[rows, width]`, the same for all experts of a row, or `[rows, used * width]`, one part for each.
        x: BufferId,
        /// Output of [`Op::Route`].
        routes: BufferId,
        /// Number of experts.
        experts: usize,
        /// At least one: weights `[experts * out width, width]`, biases `[experts, out width]`, outputs
        /// `[rows, used * out width]` in the order of the routes.
        projections: Vec<Projection>,
    },
    /// `out` = the sum over a row's experts, in the order of the routes, of weight times `x`.
    Combine {
        /// `[rows, used * width]`.
        x: BufferId,
        /// Output of [`Op::Route`].
        routes: BufferId,
        /// Receives `[rows, width]`. Not `x`.
        out: BufferId,
    },
    /// Rotates every head of `x` in place by its row's position.
    Rope {
        /// `[rows, heads * head_dim]`.
        x: BufferId,
        /// Elements of one head.
        head_dim: usize,
        /// Index into [`Plan::ropes`].
        rope: usize,
    },
    /// Writes each row's key and value into the sequence's pages at the row's slot.
    StoreKv {
        /// State of the layer.
        state: StateId,
        /// `[rows, kv_heads * head_dim]`.
        k: BufferId,
        /// `[rows, kv_heads * value_dim]`.
        v: BufferId,
    },
    /// Writes each row's key, which contains its value, into the sequence's pages at the row's slot. The state has one key/value
    /// head.
    StoreLatent {
        /// State of the layer.
        state: StateId,
        /// First elements of the keys, with the position: `[rows, head_dim - value_dim]`.
        k: BufferId,
        /// The other elements of the keys, which are the values: `[rows, value_dim]`.
        v: BufferId,
    },
    /// Softmax attention of each row over the visible slots of its own sequence; query heads are grouped over key/value
    /// heads (Ainslie et al., arXiv 2305.13245).
    Attention {
        /// State of the layer.
        state: StateId,
        /// `[rows, heads * head_dim]`.
        q: BufferId,
        /// Query heads; a multiple of the state's `kv_heads`.
        heads: usize,
        /// Factor on the scores, usually 1 / sqrt(head_dim).
        scale: f32,
        /// `cap * tanh(score / cap)` where set.
        softcap: Option<f32>,
        /// `[heads]`: an additional score of each query head, unscaled, that takes part in the softmax and has no
        /// value.
        sinks: Option<WeightId>,
        /// Receives `[rows, heads * value_dim]`. Not `q`.
        out: BufferId,
    },
    /// Softmax attention of each row to one part of its own sequence, with a bias by distance.
    PartAttention(PartAttention),
    /// Causal convolution along the tokens of a sequence, separately for each element: the output of a row is the sum over its last
    /// `kernel` rows, oldest first, of the row times its column of the weight. Rows before the sequence are zero.
    Conv {
        /// State of the layer: the last `kernel - 1` rows of `x`, oldest first.
        state: RecurrentId,
        /// `[rows, width]`.
        x: BufferId,
        /// `[width, kernel]`, oldest row first.
        weight: WeightId,
        /// `[width]`, added to the sum.
        bias: Option<WeightId>,
        /// Receives `[rows, width]`. Not `x`.
        out: BufferId,
    },
    /// Linear attention by the gated delta rule over the tokens of a sequence.
    DeltaRule(DeltaRule),
    /// `x = exp(rate * ln(1 + exp(x + bias)))` in place: factors on the states of [`Op::DeltaRule`].
    Decay {
        /// Input and output, `[rows, width]`.
        x: BufferId,
        /// `[width]`, negative in models.
        rate: WeightId,
        /// `[width]`.
        bias: WeightId,
    },
    /// Steps of a state space model over the tokens of a sequence.
    StateSpace(StateSpace),
    /// `x = ln(1 + exp(x + bias))` in place and `decay = exp(rate * x)`: step sizes and factors on the states of
    /// [`Op::StateSpace`].
    Discretise {
        /// Input, then step sizes, `[rows, width]`.
        x: BufferId,
        /// `[width]`, negative in models.
        rate: WeightId,
        /// `[width]`.
        bias: WeightId,
        /// Receives the factors, `[rows, width]`. Not `x`.
        decay: BufferId,
    },
    /// `out = activation(gate, up)`, element by element. `out` may be `gate`.
    Glu {
        /// The activation.
        activation: Glu,
        /// Gate.
        gate: BufferId,
        /// Linear part, as wide as the gate.
        up: BufferId,
        /// Output.
        out: BufferId,
    },
    /// `x = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x³)))` in place (Hendrycks & Gimpel, arXiv 1606.08415).
    Gelu {
        /// Input and output.
        x: BufferId,
    },
    /// `x = x / 2 * (1 + erf(x / sqrt(2)))` in place (Hendrycks & Gimpel, arXiv 1606.08415).
    GeluErf {
        /// Input and output.
        x: BufferId,
    },
    /// `x = 1 / (1 + exp(-x))` in place.
    Sigmoid {
        /// Input and output.
        x: BufferId,
    },
    /// `x = x / (1 + exp(-x))` in place.
    Silu {
        /// Input and output.
        x: BufferId,
    },
    /// `x = max(x, 0)²` in place (So et al., arXiv 2109.08668).
    ReluSquared {
        /// Input and output.
        x: BufferId,
    },
    /// `x = max(x, 0)` in place.
    Relu {
        /// Input and output.
        x: BufferId,
    },
    /// `x *= factor` in place.
    Scale {
        /// Input and output.
        x: BufferId,
        /// Any finite number.
        factor: f32,
    },
    /// `x = min(max(x, least), most)` in place.
    Clamp {
        /// Input and output.
        x: BufferId,
        /// Smallest value; not NaN.
        least: f32,
        /// Largest value; not below the smallest.
        most: f32,
    },
    /// `x = cap * tanh(x / cap)` in place.
    Softcap {
        /// Input and output.
        x: BufferId,
        /// Above zero.
        cap: f32,
    },
    /// `x += y`.
    Add {
        /// Accumulator.
        x: BufferId,
        /// Summand, as wide as `x`.
        y: BufferId,
    },
    /// `x *= y`. Each element of `y` is the factor of equally many consecutive elements of `x`.
    Mul {
        /// First factor and output.
        x: BufferId,
        /// Second factor; its width divides that of `x`.
        y: BufferId,
    },
    /// Copies the rows whose logits are computed from a [`Rows::Batch`](crate::Rows::Batch) buffer to a [`Rows::Logits`](crate::Rows::Logits) one.
    Gather {
        /// `[rows, width]`.
        x: BufferId,
        /// Receives `[logit rows, width]`.
        out: BufferId,
    },
    /// Joins the rows of each group of `count` adjacent rows, in order. A row with logits is the last of its group.
    Join {
        /// `[rows, width]`.
        x: BufferId,
        /// Rows of a group.
        count: usize,
        /// Receives `[logit rows, count * width]`.
        out: BufferId,
    },
    /// Means of groups of adjacent rows. A row with logits is the last of its group, and the row behind it the first of the next
    /// group.
    Mean {
        /// `[rows, width]`.
        x: BufferId,
        /// Receives `[logit rows, width]`.
        out: BufferId,
    },
}

impl Op {
    /// Returns whether the op reads rows of the batch and writes one for each row with logits.
    pub(crate) fn selects_rows(&self) -> bool {
        matches!(self, Self::Gather { .. } | Self::Mean { .. })
    }

    /// Returns the input and the weights of an op that multiplies matrices.
    pub(crate) fn product(&self) -> Option<(BufferId, &[Projection])> {
        match self {
            Self::MatMul { x, projections }
            | Self::MatMulAdapter { x, projections, .. }
            | Self::MatMulId { x, projections, .. } => Some((*x, projections)),
            _ => None,
        }
    }

    /// Returns the state that an op attends to.
    pub(crate) fn attends_to(&self) -> Option<StateId> {
        match self {
            Self::Attention { state, .. } | Self::PartAttention(PartAttention { state, .. }) => Some(*state),
            _ => None,
        }
    }

    /// Returns the recurrent state of an op.
    pub(crate) fn recurrent(&self) -> Option<RecurrentId> {
        match self {
            Self::Conv { state, .. }
            | Self::DeltaRule(DeltaRule { state, .. })
            | Self::StateSpace(StateSpace { state, .. }) => Some(*state),
            _ => None,
        }
    }

    /// Returns the index of the adapter that an op is a part of.
    pub(crate) fn adapter(&self) -> Option<u32> {
        match self {
            Self::MatMulAdapter { adapter, .. } | Self::AddAdapter { adapter, .. } => Some(*adapter),
            _ => None,
        }
    }
}

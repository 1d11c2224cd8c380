//! A kernel variant: the functions that are compiled for one set of instructions.

use cairn_gguf::DType;
use cairn_hardware::Features;

use crate::attention::{AttendSpan, Softmax};
use crate::delta::DeltaStep;
use crate::format::Format;
use crate::matmul::MatMul;
use crate::scan::Scan;

/// The arithmetic of the engine for one set of instructions.
///
/// Functions of a variant that the processor lacks panic when called; [`usable`](crate::usable) is how a caller gets one that works.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// Name of the instruction set, as settings and screens show it: `avx512-vnni`, `avx2-fma-f16c`, `dotprod`, `scalar`.
    pub name: &'static str,
    /// Rises with every change of a bit of any result.
    pub numerics_rev: u32,
    /// Whether a processor with these features can run it.
    pub usable: fn(&Features) -> bool,
    /// Turns one token's activations (`x`, `k` elements) into a column of [`Format::column_bytes`] bytes.
    pub convert: fn(Format, &[f32], &mut [u8]),
    /// Products of rows with columns.
    pub matmul: fn(MatMul<'_>),
    /// One row of a weight as `f32`, for the look-up of an embedding.
    pub decode_row: fn(DType, &[u8], &mut [f32]),
    /// `out = x / sqrt(mean(x * x) + eps) * weight`: `(x, weight, eps, out)`, all of one length.
    pub rms_norm: fn(&[f32], &[f32], f32, &mut [f32]),
    /// The same in place: `(x, weight, eps)`.
    pub rms_norm_in_place: fn(&mut [f32], &[f32], f32),
    /// Rotates the first `2 * cos.len()` elements of one head: `(x, cos, sin, interleaved)`. Pairs are (2i, 2i + 1) where
    /// interleaved, (i, i + cos.len()) otherwise; elements past them stay.
    pub rope: fn(&mut [f32], &[f32], &[f32], bool),
    /// `x = (x - mean(x)) / sqrt(variance(x) + eps) * weight`: `(x, weight, eps)`, both of one length.
    pub layer_norm: fn(&mut [f32], &[f32], f32),
    /// `x = exp(x) / sum(exp(x))`.
    pub softmax: fn(&mut [f32]),
    /// `gate = gate / (1 + exp(-gate)) * up`.
    pub swiglu: fn(&mut [f32], &[f32]),
    /// `gate = gelu(gate) * up`, with the tanh form of [`Variant::gelu`].
    pub geglu: fn(&mut [f32], &[f32]),
    /// `gate = g / (1 + exp(-alpha * g)) * (u + 1)` with `g` the gate up to `limit` and `u` the value of `up` clamped to `-limit` and
    /// `limit`: `(gate, up, alpha, limit)`.
    pub clamped_glu: fn(&mut [f32], &[f32], f32, f32),
    /// `x = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))`.
    pub gelu: fn(&mut [f32]),
    /// `x = x / 2 * (1 + erf(x / sqrt(2)))`.
    pub gelu_erf: fn(&mut [f32]),
    /// `x = 1 / (1 + exp(-x))`.
    pub sigmoid: fn(&mut [f32]),
    /// `x = x / (1 + exp(-x))`.
    pub silu: fn(&mut [f32]),
    /// `x = max(x, 0)^2`.
    pub relu_squared: fn(&mut [f32]),
    /// `x *= factor`.
    pub scale: fn(&mut [f32], f32),
    /// `x = cap * tanh(x / cap)`.
    pub softcap: fn(&mut [f32], f32),
    /// `x *= y`.
    pub mul: fn(&mut [f32], &[f32]),
    /// `x += y`.
    pub add: fn(&mut [f32], &[f32]),
    /// `x += factor * y`.
    pub add_scaled: fn(&mut [f32], &[f32], f32),
    /// `x += y * z`: one tap of a convolution along rows.
    pub add_product: fn(&mut [f32], &[f32], &[f32]),
    /// One token of linear attention by the gated delta rule, on some columns of a state.
    pub delta: fn(DeltaStep<'_>),
    /// Some tokens of a state space model, on some columns of a state.
    pub scan: fn(Scan<'_>),
    /// Encodes one row of keys or values in a type of [`KV_TYPES`](crate::KV_TYPES): `(dtype, x, row)`. The bytes equal
    /// those of [`DType::encode`], except that NaN stays NaN.
    pub encode_row: fn(DType, &[f32], &mut [u8]),
    /// Attention over one span of positions.
    pub attend: fn(AttendSpan<'_>),
    /// Adds a span's result to that of the spans before it: `(before, span)`, spans ascending.
    pub merge: fn(Softmax<'_>, &Softmax<'_>),
    /// Divides each query's accumulator by its sum: `(sum, acc)`. A query that attends to no position gives zeros.
    pub finish: fn(&[f32], &mut [f32]),
}

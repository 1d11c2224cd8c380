//! Arithmetic over slices, once per kernel variant.
//!
//! A [`Variant`] is a row of function pointers compiled for one set of instructions; [`usable`] gives those that a
//! processor can run, best first, the scalar one always last. Kernels know blocks of weights, activation columns and
//! pages of keys and values. They know no model, no thread and no file, and allocate nothing once their scratch memory
//! has grown.
//!
//! **Canonical numerics.** Inside one variant a result depends only on the operands that define it: one row and one
//! column for a product, one query and its visible positions for attention. How many rows and columns are computed
//! together, where a caller cuts them and how many threads it uses never change a bit.
//!
//! - *Quantised weights*: the integer sum of a whole block is complete (in blocks of 256, after the sub-blocks' scales
//!   were applied in integers; in NVFP4, whose sub-blocks have floats as scales, of a sub-block) before one
//!   `acc = fma(f32(sum), weight scale * activation scale, acc)`; blocks ascend; minima take one further fma per block.
//!   All variants give the same bits.
//! - *Float weights*: sixteen lanes over `k`, ascending, and one tree at the end. Variants agree within rounding.
//! - *Attention*: spans of 256 absolute positions, each from scratch, merged ascending by one function.
//! - *Gated delta rule*: a column of the state depends on no other column, and sums over its keys have a fixed order.
//! - *State space models*: the same. Several tokens of a call give the bits of one token after the other.
//! - *Element-wise*: an element's result depends on no other element, so tails use the same expression.
//!
//! A change of any bit of a variant must raise its [`Variant::numerics_rev`]: stored keys and values of different revisions are not mixed.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod attention;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod block;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod compiled;
mod delta;
mod format;
mod matmul;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod panel;
mod portable;
mod scalar;
mod scan;
mod table;
mod variant;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests;

pub use attention::{AttendScratch, AttendSpan, KV_TYPES, PAGE_POSITIONS, SPAN_POSITIONS, Softmax};
pub use delta::{DELTA_COLUMNS, DeltaStep};
pub use format::{Columns, Format};
pub use matmul::{MatMul, Scratch};
pub use scan::{SCAN_COLUMNS, SCAN_TOKENS, Scan, ScanToken};
pub use table::{all, by_name, usable};
pub use variant::Variant;

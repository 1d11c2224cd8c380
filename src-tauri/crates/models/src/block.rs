//! What families are made of: parts of a forward pass that differ between them only in parameters.

pub(crate) mod attention;
pub(crate) mod ends;
pub(crate) mod experts;
pub(crate) mod gemma;
pub(crate) mod mlp;
pub(crate) mod norm;
pub(crate) mod rope;
pub(crate) mod stream;
pub(crate) mod window;

pub(crate) use attention::{Attention, QueryKeyNorm};
pub(crate) use ends::{embed, logits};
pub(crate) use experts::Experts;
pub(crate) use mlp::{Gated, Plain};
pub(crate) use norm::Norm;
pub use norm::NormKind;
pub(crate) use stream::{Norms, Stream};

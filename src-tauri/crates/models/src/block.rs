//! Parts of a forward pass that families share, with different parameters.

pub(crate) mod attention;
pub(crate) mod deepstack;
pub(crate) mod delta_net;
pub(crate) mod experts;
pub(crate) mod gemma;
pub(crate) mod input_output;
pub(crate) mod latent_attention;
pub(crate) mod layer_kinds;
pub(crate) mod mamba2;
pub(crate) mod mlp;
pub(crate) mod norm;
pub(crate) mod rope;
pub(crate) mod shared_expert;
pub(crate) mod short_conv;
pub(crate) mod sliding_window;
pub(crate) mod sparse_mlp;
pub(crate) mod ssm_sizes;
pub(crate) mod stream;

pub(crate) use attention::{Attention, QueryKeyNorm};
pub(crate) use deepstack::Deepstack;
pub(crate) use delta_net::DeltaNet;
pub(crate) use experts::Experts;
pub(crate) use input_output::{add_positions, embed, logits, logits_after, output_rows};
pub(crate) use latent_attention::{LatentAttention, LatentWidths};
pub(crate) use layer_kinds::LayerKinds;
pub(crate) use mamba2::Mamba2;
pub(crate) use mlp::{GatedMlp, PlainMlp};
pub(crate) use norm::Norm;
pub(crate) use shared_expert::SharedExpert;
pub(crate) use short_conv::ShortConv;
pub(crate) use sliding_window::SlidingWindows;
pub(crate) use sparse_mlp::SparseMlp;
pub(crate) use stream::{Norms, Stream};

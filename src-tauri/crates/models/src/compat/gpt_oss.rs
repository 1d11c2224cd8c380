//! gpt-oss: the architecture `gptoss`, other names of three tensors in each block, and no keys of the experts' width and
//! the kind of context extension.

use super::layout::{Layout, Marker};
use super::step::{Constant, PRE_TOKENIZER, Place, Step};

pub(super) const GPT_OSS: Layout = Layout {
    model: "gpt-oss",
    architectures: &["gptoss"],
    markers: &[Marker::Architecture],
    steps: &[
        Step::Family("gpt-oss"),
        Step::SetDimension { key: "expert_feed_forward_length", tensor: "blk.0.ffn_gate_exps.weight", axis: 1 },
        Step::Inject("rope.scaling.type", Constant::Str("yarn")),
        Step::Set(PRE_TOKENIZER, Constant::Str("gpt-4o")),
        Step::Rename(Place::Inside, ".attn_out.", ".attn_output."),
        Step::Rename(Place::End, ".attn_sinks", ".attn_sinks.weight"),
        Step::Rename(Place::Inside, ".ffn_norm.", ".post_attention_norm."),
    ],
    tower: &[],
};

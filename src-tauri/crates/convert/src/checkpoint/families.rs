//! The families that can be converted: one file and one row each.

mod bert;
mod gemma;
mod gpt_oss;
mod granite;
mod llama;
mod olmo2;
mod phi3;
mod qwen;
mod starcoder2;

use super::family::Family;

/// All families.
#[rustfmt::skip]
pub(super) const ALL: &[&dyn Family] = &[
    &bert::Bert,
    &gemma::GEMMA_2,
    &gemma::GEMMA_3,
    &gpt_oss::GPT_OSS,
    &granite::GRANITE,
    &llama::LLAMA,
    &olmo2::OLMO_2,
    &phi3::PHI_3,
    &qwen::QWEN_2,
    &qwen::QWEN_3,
    &qwen::QWEN_3_MOE,
    &starcoder2::STARCODER_2,
];

//! The families that can be converted: one file and one row each.

mod bert;
mod gemma;
mod gpt_oss;
mod granite;
mod llama;
mod olmo2;
mod olmoe;
mod phi3;
mod qwen;
mod seed_oss;
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
    &granite::GRANITE_MOE,
    &llama::LLAMA,
    &llama::SMOL_LM_3,
    &olmo2::OLMO_2,
    &olmoe::OLMOE,
    &phi3::PHI_3,
    &qwen::QWEN_2,
    &qwen::QWEN_2_MOE,
    &qwen::QWEN_3,
    &qwen::QWEN_3_MOE,
    &seed_oss::SEED_OSS,
    &starcoder2::STARCODER_2,
];

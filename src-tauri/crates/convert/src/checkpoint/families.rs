//! The families that can be converted: one file and one row each, and tables that several share.

mod bert;
mod cohere;
mod deepseek;
mod dots1;
mod ernie;
mod exaone;
mod falcon;
mod gemma;
mod gemma3n;
mod gemma4;
mod glm;
mod gpt2;
mod gpt_oss;
mod gptneox;
mod granite;
mod granite_hybrid;
mod hunyuan;
mod lfm2;
mod llama;
mod llama4;
mod mamba;
mod nemotron;
mod nomic_bert;
mod olmo2;
mod olmoe;
mod phi2;
mod phi3;
mod qwen;
mod qwen_next;
mod qwen_vl;
mod sections;
mod seed_oss;
mod sparse;
mod stablelm;
mod starcoder2;
mod t5;
mod windows;

use super::family::Family;

/// All families.
#[rustfmt::skip]
pub(super) const ALL: &[&dyn Family] = &[
    &bert::Bert,
    &cohere::COHERE_2,
    &cohere::COMMAND_R,
    &deepseek::DEEPSEEK_2,
    &dots1::DOTS_1,
    &ernie::ERNIE_4_5,
    &ernie::ERNIE_4_5_MOE,
    &exaone::EXAONE,
    &exaone::EXAONE_4,
    &falcon::FALCON,
    &gemma::GEMMA_1,
    &gemma::GEMMA_2,
    &gemma::GEMMA_3,
    &gemma::GEMMA_EMBEDDING,
    &gemma3n::GEMMA_3N,
    &gemma4::GEMMA_4,
    &glm::GLM_4,
    &glm::GLM_4_MOE,
    &gpt2::GPT_2,
    &gpt_oss::GPT_OSS,
    &gptneox::GPT_NEO_X,
    &granite::GRANITE,
    &granite::GRANITE_MOE,
    &granite_hybrid::GRANITE_HYBRID,
    &granite_hybrid::GRANITE_HYBRID_MOE,
    &hunyuan::HUNYUAN_DENSE,
    &lfm2::LFM_2,
    &lfm2::LFM_2_MOE,
    &llama::LLAMA,
    &llama::LLAVA,
    &llama::MISTRAL_3,
    &llama::SMOL_LM_3,
    &llama4::LLAMA_4,
    &nemotron::NEMOTRON_H,
    &nemotron::NEMOTRON_H_MOE,
    &nomic_bert::NOMIC_BERT,
    &olmo2::OLMO_2,
    &olmoe::OLMOE,
    &phi2::PHI_2,
    &phi3::PHI_3,
    &qwen::QWEN_2,
    &qwen::QWEN_2_MOE,
    &qwen::QWEN_3,
    &qwen::QWEN_3_MOE,
    &qwen_vl::QWEN_2_VL,
    &qwen_vl::QWEN_3_VL,
    &qwen_vl::QWEN_3_VL_MOE,
    &qwen_next::QWEN_3_NEXT,
    &qwen_next::QWEN_3_5,
    &qwen_next::QWEN_3_5_MOE,
    &seed_oss::SEED_OSS,
    &stablelm::STABLE_LM,
    &starcoder2::STARCODER_2,
    &t5::T5,
];

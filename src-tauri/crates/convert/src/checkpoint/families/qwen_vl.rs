//! The text parts of Qwen 2 VL, 2.5 VL and 3 VL: Qwen 2 and 3 with positions of three components. The first layers of Qwen
//! 3 VL get rows of inner layers of its tower.

use cairn_gguf::Metadata;

use super::super::config::{CONFIG, Config};
use super::super::decoder::{ATTENTION, Decoder, Dim, NORMS, PLAIN, Row, row};
use super::super::error::{ConvertError, invalid};
use super::super::family::Select;
use super::super::tower::DEEPSTACK;
use super::qwen::{EXPERTS, HEAD_NORMS, QWEN_3, QWEN_3_MOE};
use super::sections::add_sections;

/// Sections of published models of Qwen 3 VL.
const SECTIONS: [i32; 3] = [24, 20, 20];
/// Upper limit of layers that get rows of the tower.
const MAX_DEEPSTACK: usize = 1 << 10;

/// Matrices of all experts in one tensor, with columns as rows.
const STACKED: &[Row] = &[
    row("mlp.experts.gate_up_proj", "ffn_gate_exps", &[Dim::Width, Dim::ExpertInner, Dim::Experts])
        .select(Select::FirstHalf)
        .transposed(),
    row("mlp.experts.gate_up_proj", "ffn_up_exps", &[Dim::Width, Dim::ExpertInner, Dim::Experts])
        .select(Select::SecondHalf)
        .transposed(),
    row("mlp.experts.down_proj", "ffn_down_exps", &[Dim::ExpertInner, Dim::Width, Dim::Experts]).transposed(),
];

pub(super) const QWEN_2_VL: Decoder = Decoder {
    architectures: &["Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"],
    name: "qwen2vl",
    more: |config, metadata| add_sections(config, "qwen2vl", None, metadata),
    ..PLAIN
};

pub(super) const QWEN_3_VL: Decoder = Decoder {
    architectures: &["Qwen3VLForConditionalGeneration"],
    name: "qwen3vl",
    more: |config, metadata| add_keys(config, "qwen3vl", metadata),
    ..QWEN_3
};

pub(super) const QWEN_3_VL_MOE: Decoder = Decoder {
    architectures: &["Qwen3VLMoeForConditionalGeneration"],
    name: "qwen3vlmoe",
    layer: &[ATTENTION, NORMS, HEAD_NORMS, STACKED, EXPERTS],
    more: |config, metadata| {
        (QWEN_3_MOE.more)(config, metadata)?;
        add_keys(config, "qwen3vlmoe", metadata)
    },
    ..QWEN_3_MOE
};

fn add_keys(config: &Config, architecture: &str, metadata: &mut Metadata) -> Result<(), ConvertError> {
    add_sections(config, architecture, Some(SECTIONS), metadata)?;
    const KEY: &str = "deepstack_visual_indexes";
    let indexes = config.value("vision_config")[KEY].as_array();
    let layers = match indexes.map(Vec::len) {
        Some(count) if count > MAX_DEEPSTACK => {
            return Err(invalid(CONFIG, format!("{KEY} has {count} layers, and the limit is {MAX_DEEPSTACK}")));
        }
        count => count.unwrap_or(DEEPSTACK.len()) as u32,
    };
    metadata.set(format!("{architecture}.n_deepstack_layers"), layers);
    Ok(())
}

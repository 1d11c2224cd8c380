//! Hunyuan, dense: norms over each head of queries and keys, and a rotation that is extended by a larger base.

use super::super::config::{CONFIG, Config};
use super::super::decoder::{ATTENTION, Decoder, Dim, MLP, NORMS, PLAIN, Row, head_dim, row};
use super::super::error::{ConvertError, invalid};

/// Context of models with the larger base. Configs have another one, as in llama.cpp.
const EXTENDED_CONTEXT: u32 = 256 * 1024;

const HEAD_NORMS: &[Row] = &[
    row("self_attn.query_layernorm", "attn_q_norm", &[Dim::Head]),
    row("self_attn.key_layernorm", "attn_k_norm", &[Dim::Head]),
];

pub(super) const HUNYUAN_DENSE: Decoder = Decoder {
    architectures: &["HunYuanDenseV1ForCausalLM"],
    name: "hunyuan-dense",
    layer: &[ATTENTION, MLP, NORMS, HEAD_NORMS],
    more: |config, metadata| {
        if let Some(base) = extended_base(config)? {
            metadata.set("hunyuan-dense.rope.freq_base", base);
            metadata.set("hunyuan-dense.context_length", EXTENDED_CONTEXT);
        }
        Ok(())
    },
    ..PLAIN
};

/// Returns the base of a rotation that is scaled by `alpha`.
fn extended_base(config: &Config) -> Result<Option<f32>, ConvertError> {
    let Some(alpha) = config.rotation_number("alpha")? else { return Ok(None) };
    let base = config.rotation_number("rope_theta")?.map(|base| base as f32);
    let base = f64::from(base.or(config.optional_number(&["rope_theta"])?).unwrap_or(10_000.0));
    let dims = head_dim(config)? as f64;
    let extended = base * alpha.powf(dims / (dims - 2.0));
    match extended as f32 {
        extended if extended.is_finite() && extended > 0.0 => Ok(Some(extended)),
        _ => Err(invalid(CONFIG, format!("alpha {alpha} gives the base {extended} of a rotation"))),
    }
}

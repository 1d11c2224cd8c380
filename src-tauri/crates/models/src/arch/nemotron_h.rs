//! Nemotron H (arXiv 2504.03624) and Nemotron 3: each layer has one part, which is a state space model, attention without positions, or
//! an MLP of squared ReLU (arXiv 2109.08668). With experts, these have no gate either, are chosen by sigmoids with a bias, and may
//! work on a narrower projection of their input.
//!
//! `attention.head_count_kv` and `feed_forward_length` have one number for each layer: a layer with neither is a state space model.

use super::Architecture;
use crate::block::stream::Part;
use crate::block::{Attention, Experts, LayerKinds, Mamba2, PlainMlp, SharedExpert, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys, MAX_WIDTH, NormKind};

pub(super) struct NemotronH;

const FEED_FORWARD: &str = "feed_forward_length";
const LATENT: &str = "moe_latent_size";

impl Architecture for NemotronH {
    fn names(&self) -> &'static [&'static str] {
        &["nemotron_h", "nemotron_h_moe"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let kinds = LayerKinds::read(&keys)?;
        let hparams = Hparams::read_with_heads(b, NormKind::Rms, kinds.kv_heads)?;
        // The lists include layers that predict further tokens.
        let blocks = keys.u32("block_count")?.map_or(hparams.layers, |count| count as usize);
        kinds.check(&keys, blocks)?;
        let widths =
            keys.list(FEED_FORWARD)?.ok_or_else(|| keys.invalid(FEED_FORWARD, "it is not a list of numbers"))?;
        if widths.len() != blocks {
            return Err(keys.invalid(FEED_FORWARD, format!("{} numbers for {blocks} layers", widths.len())));
        }
        if hparams.embedding.is_some() {
            // A text of an embedding model is computed in both directions, which states of earlier rows are not.
            return Err(LoadError::Unsupported { what: format!("an embedding model of {}", hparams.architecture) });
        }
        let stream = Stream::new(b, &hparams);
        let attention = Attention::new(b, &hparams, None::<usize>);
        let attention = match keys.positive("attention.scale")? {
            Some(scale) => attention.scale(scale),
            None => attention,
        };
        let is_recurrent = |layer: usize| widths[layer] == 0 && !kinds.has_attention(layer);
        let mamba = if (0..hparams.layers).any(is_recurrent) { Some(Mamba2::new(b)?) } else { None };
        let has_experts = keys.u32("expert_count")?.is_some_and(|count| count > 0);
        let experts = if has_experts { Some(experts(b, &hparams, &widths)?) } else { None };
        let mut mlps: Vec<(u32, PlainMlp)> = Vec::new();
        embed(b, &hparams, &stream);
        for (layer, &width) in widths.iter().enumerate().take(hparams.layers) {
            match (&experts, &mamba) {
                (Some(experts), _) if width > 0 => experts.push(b, &hparams, &stream, layer),
                (None, _) if width > 0 => {
                    // Layers of one width share a buffer.
                    let same = mlps.iter().find(|(other, _)| *other == width).map(|(_, mlp)| *mlp);
                    let mlp = same.unwrap_or_else(|| {
                        let mlp = PlainMlp::with_width(b, width as usize).relu_squared().part(Part::ATTENTION);
                        mlps.push((width, mlp));
                        mlp
                    });
                    mlp.push(b, &hparams, &stream, layer);
                }
                (_, Some(mamba)) if is_recurrent(layer) => mamba.push(b, &hparams, &stream, layer),
                _ => attention.push(b, &hparams, &stream, layer),
            }
        }
        logits(b, &hparams, &stream);
        Ok(hparams)
    }
}

fn experts(b: &mut Builder<'_>, hparams: &Hparams, widths: &[u32]) -> Result<Experts, LoadError> {
    let keys = Keys::new(b.metadata())?;
    // Files in Ollama's layout have no key of the width.
    let first = widths.iter().position(|&width| width > 0).unwrap_or(0);
    let latent = match keys.u32(LATENT)? {
        None | Some(0) => {
            let rows = b.rows_of(&format!("blk.{first}.ffn_latent_down.weight"));
            rows.filter(|&rows| rows <= MAX_WIDTH as usize)
        }
        Some(_) => Some(keys.count(LATENT, None, MAX_WIDTH)?),
    };
    let shared = SharedExpert::relu_squared(b, hparams)?;
    let experts = Experts::relu_squared(b, hparams, latent)?.router_of_file(b)?;
    Ok(experts.part(Part::ATTENTION).shared(shared))
}

//! Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): keys and values of all heads are projections of one short
//! vector of each token, the latent. Elements with a rotary position are separate, and all heads share their keys.
//!
//! Files have one of two layouts:
//!
//! - `attn_k_b` and `attn_v_b` with a matrix for each head. A query is multiplied by its head's transposed key matrix, so that scores
//!   are products with latents, and the mean of the latents by its value matrix (section 2.1.2). The cache has one row of each token;
//! - older ones `attn_kv_b`: keys and values of all heads are computed and cached.
//!
//! In this engine, elements with a position are the first ones of queries and keys. Scores do not depend on the order.

use cairn_tensor::{BufferId, Growth, HeadPart, Op, State, StateKind, Values};

use super::Stream;
use super::rope::{LatentRope, growth_rope};
use super::stream::Part;
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys, MAX_WIDTH};

/// Number of elements of the parts of heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LatentWidths {
    /// Elements of queries and keys with a position.
    rotated: usize,
    /// Elements of queries and keys without one.
    plain: usize,
    /// Elements of a head's value.
    value: usize,
    /// Elements of a latent.
    latent: usize,
    /// Elements of the vector from which queries are projected; `None` if they are projected from the input.
    query_latent: Option<usize>,
    /// Whether the cache stores latents.
    is_absorbed: bool,
}

const ROTATED: &str = "rope.dimension_count";
const KEY: &str = "attention.key_length";
const VALUE: &str = "attention.value_length";
const KEY_HEADS: &str = "attention.head_count_kv";

impl LatentWidths {
    /// Reads the widths of a model with these heads.
    pub(crate) fn read(b: &Builder<'_>) -> Result<Self, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let heads = keys.count("attention.head_count", None, MAX_WIDTH)?;
        let rotated = keys.count(ROTATED, None, MAX_WIDTH)?;
        let latent = keys.count("attention.kv_lora_rank", None, MAX_WIDTH)?;
        let is_low_rank = !b.has_tensor("blk.0.attn_q.weight") && keys.u32("attention.q_lora_rank")?.unwrap_or(0) > 0;
        let query_latent = match is_low_rank {
            true => Some(keys.count("attention.q_lora_rank", None, MAX_WIDTH)?),
            false => None,
        };
        let is_absorbed = keys.u32("attention.key_length_mla")?.is_some_and(|length| length > 0);
        let (key, value) = if is_absorbed {
            let cached = [(KEY, latent.saturating_add(rotated)), (VALUE, latent), (KEY_HEADS, 1)];
            for (name, expected) in cached {
                let found = keys.count(name, Some(expected as u32), MAX_WIDTH)?;
                if found != expected {
                    let why = format!(
                        "{found}, but the cache has one row of {latent} elements and {rotated} with a position, so it must be {expected}"
                    );
                    return Err(keys.invalid(name, why));
                }
            }
            let mla = |name: &str| keys.count(&format!("{name}_mla"), None, MAX_WIDTH);
            (mla(KEY)?, mla(VALUE)?)
        } else {
            let found = keys.count(KEY_HEADS, Some(heads as u32), MAX_WIDTH)?;
            if found != heads {
                let why = format!(
                    "{found}, but each of {heads} heads has a key; files with `attn_k_b` need `attention.key_length_mla`"
                );
                return Err(keys.invalid(KEY_HEADS, why));
            }
            (keys.count(KEY, None, MAX_WIDTH)?, keys.count(VALUE, None, MAX_WIDTH)?)
        };
        let Some(plain) = key.checked_sub(rotated).filter(|&plain| plain > 0 && rotated.is_multiple_of(2)) else {
            let why = format!("{rotated} is not an even number below the key's {key} elements");
            return Err(keys.invalid(ROTATED, why));
        };
        let widest = [key, value].map(|width| heads.saturating_mul(width)).into_iter().chain([
            heads.saturating_mul(plain.saturating_add(value)),
            heads.saturating_mul(latent.saturating_add(rotated)),
        ]);
        if let Some(width) = widest.max().filter(|&width| width > MAX_WIDTH as usize) {
            let why = format!("{heads} heads with {width} elements together are more than {MAX_WIDTH}");
            return Err(keys.invalid("attention.head_count", why));
        }
        Ok(Self { rotated, plain, value, latent, query_latent, is_absorbed })
    }

    /// Elements of a head's query and key before its key matrix is applied.
    pub(crate) fn key(&self) -> usize {
        self.plain + self.rotated
    }

    /// Key/value heads in the cache.
    pub(crate) fn kv_heads(&self, heads: usize) -> usize {
        if self.is_absorbed { 1 } else { heads }
    }

    /// Elements of a key in the cache.
    fn cached_key(&self) -> usize {
        self.rotated + if self.is_absorbed { self.latent } else { self.plain }
    }
}

/// Parameters and buffers of a model's attention blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LatentAttention {
    widths: LatentWidths,
    rope: LatentRope,
    /// The growth of queries, as a rotation by no angle.
    growth: Option<usize>,
    /// Buffers of the query's latent.
    query_latent: Option<BufferId>, // [rows, query latent]
    projected: BufferId, // [rows, heads * (plain + rotated)]
    q: BufferId,         // [rows, heads * cached key]
    position: BufferId,  // [rows, rotated]
    latent: BufferId,    // [rows, latent]
    out: BufferId,       // [rows, heads * value]
    cached: Cached,
}

/// Buffers of one layout.
#[derive(Clone, Copy, Debug)]
enum Cached {
    /// The cache has latents.
    Latents {
        mixed: BufferId, // [rows, heads * latent]
    },
    /// The cache has keys and values of all heads.
    Heads {
        both: BufferId, // [rows, heads * (plain + value)]
        k: BufferId,    // [rows, heads * cached key]
        v: BufferId,    // [rows, heads * value]
    },
}

impl LatentAttention {
    pub(crate) fn new(b: &mut Builder<'_>, hparams: &Hparams, widths: LatentWidths, rope: LatentRope) -> Self {
        let heads = hparams.heads;
        let LatentWidths { rotated, plain, value, latent, query_latent, is_absorbed } = widths;
        let cached_key = widths.cached_key();
        let cached = if is_absorbed {
            Cached::Latents { mixed: b.buffer(heads * latent) }
        } else {
            let [both, k, v] = [plain + value, cached_key, value].map(|width| b.buffer(heads * width));
            Cached::Heads { both, k, v }
        };
        Self {
            widths,
            rope,
            growth: None,
            query_latent: query_latent.map(|width| b.buffer(width)),
            projected: b.buffer(heads * widths.key()),
            q: b.buffer(heads * cached_key),
            position: b.buffer(rotated),
            latent: b.buffer(latent),
            out: b.buffer(heads * value),
            cached,
        }
    }

    /// Lets queries, and so scores, grow with the position.
    pub(crate) fn growth(self, b: &mut Builder<'_>, growth: Option<Growth>) -> Result<Self, LoadError> {
        Ok(Self { growth: growth_rope(b, growth, self.widths.cached_key())?, ..self })
    }

    /// Adds `residual += attention(x)`, where the stream provides `x`.
    pub(crate) fn push(&self, b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream, layer: usize) {
        let &Self { widths, q, position, latent, out, projected, .. } = self;
        let &Hparams { heads, epsilon: eps, embedding_length, .. } = hparams;
        let LatentWidths { rotated, plain, .. } = widths;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let all = |buffer, first| HeadPart { buffer, heads, first };
        let x = stream.enter(b, Part::ATTENTION, layer);

        let total = widths.latent + rotated;
        let parts = [(0, latent), (widths.latent, position)];
        let parts =
            parts.map(|(first, out)| b.projection_rows(&name("attn_kv_a_mqa"), total, first, embedding_length, out));
        let mut projections = parts.to_vec();
        match (self.query_latent, widths.query_latent) {
            (Some(query_latent), Some(group)) => {
                projections.push(b.projection(&name("attn_q_a"), embedding_length, query_latent));
                b.push(Op::MatMul { x, projections });
                let weight = b.vector(&name("attn_q_a_norm.weight"), group);
                b.push(Op::RmsNorm { x: query_latent, weight, eps, group, out: query_latent });
                let projections = vec![b.projection(&name("attn_q_b"), group, projected)];
                b.push(Op::MatMul { x: query_latent, projections });
            }
            _ => {
                projections.push(b.projection(&name("attn_q"), embedding_length, projected));
                b.push(Op::MatMul { x, projections });
            }
        }
        let weight = b.vector(&name("attn_kv_a_norm.weight"), widths.latent);
        b.push(Op::RmsNorm { x: latent, weight, eps, group: widths.latent, out: latent });
        b.push(Op::CopyHeads { from: all(projected, plain), to: all(q, 0), width: rotated });

        match self.cached {
            Cached::Latents { mixed } => self.attend_latents(b, hparams, layer, mixed),
            Cached::Heads { both, k, v } => self.attend_heads(b, hparams, layer, [both, k, v]),
        }
        let projections = vec![b.projection(&name("attn_output"), heads * widths.value, stream.branch)];
        b.push(Op::MatMul { x: out, projections });
        stream.leave(b, Part::ATTENTION, layer);
    }

    /// Attention over latents.
    fn attend_latents(&self, b: &mut Builder<'_>, hparams: &Hparams, layer: usize, mixed: BufferId) {
        let &Self { widths, rope: LatentRope { rope, score_factor }, q, position, latent, out, projected, .. } = self;
        let LatentWidths { rotated, plain, value, latent: width, .. } = widths;
        let (heads, head_dim) = (hparams.heads, widths.cached_key());
        let all = |buffer, first| HeadPart { buffer, heads, first };
        b.push(Op::Rope { x: q, head_dim, rope });
        b.push(Op::Rope { x: position, head_dim: rotated, rope });
        let weight = b.experts(&format!("blk.{layer}.attn_k_b.weight"), heads, width, plain);
        b.push(Op::MatMulHeads { from: all(projected, 0), weight, to: all(q, rotated) });
        let values = Values::InKeys(width);
        let state = b.plan.state(State { kind: StateKind::Full, kv_heads: 1, head_dim, values });
        b.push(Op::StoreLatent { state, k: position, v: latent });
        self.push_growth(b);
        b.push(Op::Attention {
            state,
            q,
            heads,
            scale: self.scale(score_factor),
            softcap: None,
            sinks: None,
            out: mixed,
        });
        let weight = b.experts(&format!("blk.{layer}.attn_v_b.weight"), heads, value, width);
        b.push(Op::MatMulHeads { from: all(mixed, 0), weight, to: all(out, 0) });
    }

    /// Attention over the keys and values of all heads.
    fn attend_heads(&self, b: &mut Builder<'_>, hparams: &Hparams, layer: usize, [both, k, v]: [BufferId; 3]) {
        let &Self { widths, rope: LatentRope { rope, score_factor }, q, position, latent, out, projected, .. } = self;
        let LatentWidths { rotated, plain, value, .. } = widths;
        let (heads, head_dim) = (hparams.heads, widths.cached_key());
        let all = |buffer, first| HeadPart { buffer, heads, first };
        b.push(Op::CopyHeads { from: all(projected, 0), to: all(q, rotated), width: plain });
        b.push(Op::Rope { x: q, head_dim, rope });
        let projections = vec![b.projection(&format!("blk.{layer}.attn_kv_b"), widths.latent, both)];
        b.push(Op::MatMul { x: latent, projections });
        let shared = HeadPart { buffer: position, heads: 1, first: 0 };
        b.push(Op::CopyHeads { from: shared, to: all(k, 0), width: rotated });
        b.push(Op::CopyHeads { from: all(both, 0), to: all(k, rotated), width: plain });
        b.push(Op::CopyHeads { from: all(both, plain), to: all(v, 0), width: value });
        b.push(Op::Rope { x: k, head_dim, rope });
        let values = Values::Rows(value);
        let state = b.plan.state(State { kind: StateKind::Full, kv_heads: heads, head_dim, values });
        b.push(Op::StoreKv { state, k, v });
        self.push_growth(b);
        b.push(Op::Attention { state, q, heads, scale: self.scale(score_factor), softcap: None, sinks: None, out });
    }

    fn push_growth(&self, b: &mut Builder<'_>) {
        if let Some(rope) = self.growth {
            b.push(Op::Rope { x: self.q, head_dim: self.widths.cached_key(), rope });
        }
    }

    /// Factor of the scores.
    fn scale(&self, score_factor: f64) -> f32 {
        (score_factor / (self.widths.key() as f64).sqrt()) as f32
    }
}

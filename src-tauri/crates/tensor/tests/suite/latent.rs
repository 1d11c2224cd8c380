//! A tiny model with latent attention: in the first layer the cache has one row for all heads, in the second the keys and values of
//! each head, which have different sizes.

use cairn_gguf::DType;
use cairn_tensor::{Backend, BufferId, HeadPart, Limits, Op, PlanId, Rope, RopeStyle, State, StateKind, Values};

use crate::builder::Builder;
use crate::common::WIDTH;

/// Query heads of the layers: several tasks of attention share the key of the first layer.
const LATENT_HEADS: usize = 24;
const HEADS: usize = 4;
/// Elements of a head's query with and without a position, of its value, and of the latent.
const ROTATED: usize = 32;
const PLAIN: usize = 32;
const VALUE: usize = 32;
const LATENT: usize = 64;
/// Number of the plan's rotation.
const ROPE: usize = 0;

fn multiply_heads(b: &mut Builder<'_>, [from, to]: [HeadPart; 2], [rows, cols]: [usize; 2]) {
    let dtype = b.type_of_rows(cols);
    let weight = b.weight(dtype, from.heads * rows, cols, 0.3);
    b.plan.push(Op::MatMulHeads { from, weight, to });
}

fn rotate(b: &mut Builder<'_>, x: BufferId, head_dim: usize) {
    b.plan.push(Op::Rope { x, head_dim, rope: ROPE });
}

fn copy(b: &mut Builder<'_>, from: HeadPart, to: HeadPart, width: usize) {
    b.plan.push(Op::CopyHeads { from, to, width });
}

/// Attention over latents, or over the keys and values that are made of them.
fn attention(b: &mut Builder<'_>, is_latent: bool) {
    let (kind, key_dim) = (StateKind::Full, ROTATED + PLAIN);
    let head_dim = ROTATED + if is_latent { LATENT } else { PLAIN };
    let heads = if is_latent { LATENT_HEADS } else { HEADS };
    let all = |buffer, first| HeadPart { buffer, heads, first };
    b.rms_norm(b.x, WIDTH, b.branch);
    let [projected, q] = [heads * key_dim, heads * head_dim].map(|width| b.buffer(width));
    let [position, latent] = [ROTATED, LATENT].map(|width| b.buffer(width));
    b.multiply(b.branch, &[projected, position, latent]);
    b.rms_norm(latent, LATENT, latent);
    // The last elements of a projected query have the position.
    copy(b, all(projected, PLAIN), all(q, 0), ROTATED);
    let out = b.buffer(heads * VALUE);
    let scale = 0.1;
    let attention = |state, out| Op::Attention { state, q, heads, scale, softcap: None, sinks: None, out };
    if is_latent {
        rotate(b, q, head_dim);
        rotate(b, position, ROTATED);
        multiply_heads(b, [all(projected, 0), all(q, ROTATED)], [LATENT, PLAIN]);
        let state = b.plan.state(State { kind, kv_heads: 1, head_dim, values: Values::InKeys(LATENT) });
        b.plan.push(Op::StoreLatent { state, k: position, v: latent });
        let mixed = b.buffer(heads * LATENT);
        b.plan.push(attention(state, mixed));
        multiply_heads(b, [all(mixed, 0), all(out, 0)], [VALUE, LATENT]);
    } else {
        copy(b, all(projected, 0), all(q, ROTATED), PLAIN);
        rotate(b, q, head_dim);
        let [both, k, v] = [heads * (PLAIN + VALUE), heads * head_dim, heads * VALUE].map(|w| b.buffer(w));
        b.multiply(latent, &[both]);
        copy(b, HeadPart { buffer: position, heads: 1, first: 0 }, all(k, 0), ROTATED);
        copy(b, all(both, 0), all(k, ROTATED), PLAIN);
        copy(b, all(both, PLAIN), all(v, 0), VALUE);
        rotate(b, k, head_dim);
        let state = b.plan.state(State { kind, kv_heads: heads, head_dim, values: Values::Rows(VALUE) });
        b.plan.push(Op::StoreKv { state, k, v });
        b.plan.push(attention(state, out));
    }
    b.multiply(out, &[b.branch]);
    b.add_branch();
}

/// Writes the model into a backend. Equal seeds give equal models.
pub(crate) fn latent(backend: &mut dyn Backend, dtype: DType, limits: Limits) -> (PlanId, BufferId) {
    let mut b = Builder::new(backend, 23, dtype);
    let inverse_frequencies = (0..ROTATED / 2).map(|pair| 100f32.powf(-(pair as f32) / 16.0)).collect();
    let style = RopeStyle::Interleaved;
    let rope = b.plan.rope(Rope::new(style, inverse_frequencies));
    assert_eq!(rope, ROPE, "the plan has one rotation");
    attention(&mut b, true);
    attention(&mut b, false);
    b.finish(limits)
}

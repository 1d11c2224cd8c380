//! The towers of Qwen 2.5 VL and of Qwen 3 VL in checkpoints: one projection of the patches of both frames, and one matrix of
//! queries, keys and values.

use super::{Stored, Tensor, renamed};
use crate::tower::TowerSpec;

const PATCHES: [&str; 2] = ["v.patch_embd.weight", "v.patch_embd.weight.1"];

pub(super) fn qwen25(spec: &TowerSpec, tensors: Vec<Tensor>) -> Vec<Stored> {
    let parts = [
        ("v.patch_embd.", "visual.patch_embed.proj."),
        ("v.post_ln.", "visual.merger.ln_q."),
        ("v.blk.", "visual.blocks."),
        (".ln1.", ".norm1."),
        (".ln2.", ".norm2."),
        (".attn_q.", ".attn.qkv."),
        (".attn_out.", ".attn.proj."),
        (".ffn_gate.", ".mlp.gate_proj."),
        (".ffn_up.", ".mlp.up_proj."),
        (".ffn_down.", ".mlp.down_proj."),
        ("mm.0.", "visual.merger.mlp.0."),
        ("mm.2.", "visual.merger.mlp.2."),
    ];
    let of = |(name, mut dims, mut values): Tensor| {
        // Queries have keys and values behind them.
        if name.contains(".attn_q.") {
            for part in [".attn_k.", ".attn_v."] {
                values.extend(values_of(&tensors, &name.replace(".attn_q.", part)));
            }
            *dims.last_mut().expect("a tensor has dimensions") *= 3;
        }
        Stored::new(renamed(&name, &parts), dims, values)
    };
    let is_joined = |name: &str| name.contains(".attn_k.") || name.contains(".attn_v.") || PATCHES.contains(&name);
    let others = tensors.iter().filter(|(name, ..)| !is_joined(name)).cloned().map(of);
    let mut stored = vec![patches(spec, &tensors, "visual.patch_embed.proj.weight")];
    stored.extend(others);
    stored
}

pub(super) fn qwen3(spec: &TowerSpec, deepstack: &[u64], tensors: Vec<Tensor>) -> Vec<Stored> {
    let parts = [
        ("v.patch_embd.", "model.visual.patch_embed.proj."),
        ("v.position_embd.", "model.visual.pos_embed."),
        ("v.post_ln.", "model.visual.merger.norm."),
        ("v.blk.", "model.visual.blocks."),
        (".ln1.", ".norm1."),
        (".ln2.", ".norm2."),
        (".attn_qkv.", ".attn.qkv."),
        (".attn_out.", ".attn.proj."),
        (".ffn_up.", ".mlp.linear_fc1."),
        (".ffn_down.", ".mlp.linear_fc2."),
        ("mm.0.", "model.visual.merger.linear_fc1."),
        ("mm.2.", "model.visual.merger.linear_fc2."),
    ];
    let of = |(name, dims, values): Tensor| {
        let merger = |name: String, (nth, layer): (usize, &u64)| {
            let to = format!("model.visual.deepstack_merger_list.{nth}.");
            let inner = name.strip_prefix(&format!("v.deepstack.{layer}.")).map(|part| part.replace("fc", "linear_fc"));
            inner.map_or(name.clone(), |part| format!("{to}{part}"))
        };
        let name = deepstack.iter().enumerate().fold(name, merger);
        Stored::new(renamed(&name, &parts), dims, values)
    };
    let others = tensors.iter().filter(|(name, ..)| !PATCHES.contains(&name.as_str())).cloned().map(of);
    let mut stored = vec![patches(spec, &tensors, "model.visual.patch_embed.proj.weight")];
    stored.extend(others);
    stored
}

fn values_of(tensors: &[Tensor], name: &str) -> Vec<f32> {
    tensors.iter().find(|(other, ..)| other == name).expect("a tensor of the tower").2.clone()
}

/// Returns the projection of patches: the pixels of a color in both frames are adjacent.
fn patches(spec: &TowerSpec, tensors: &[Tensor], name: &str) -> Stored {
    let [first, second] = PATCHES.map(|name| values_of(tensors, name));
    let pixels = (spec.patch_size * spec.patch_size) as usize;
    let frames = first.chunks(pixels).zip(second.chunks(pixels));
    let values = frames.flat_map(|(first, second)| [first, second].concat()).collect();
    Stored::new(name.to_owned(), vec![spec.patch_size, spec.patch_size, 2, 3, spec.width], values)
}

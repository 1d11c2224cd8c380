//! Attention of Gemma 3n and 4. Layers that see the whole context and layers with a sliding window can have heads of other sizes, and
//! other numbers of key/value heads. The last layers attend to the keys and values of an earlier one (Brandon et al., arXiv 2405.12981).
//! Scores have no factor; queries, keys and values are normalised by head, values without a weight.

use cairn_tensor::{BufferId, HeadPart, Op, State, StateId, StateKind};

use super::Stream;
use super::sliding_window::SlidingWindows;
use super::stream::Part;
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys, MAX_WIDTH};

/// Key of the number of last layers without keys and values.
const SHARED_LAYERS: &str = "attention.shared_kv_layers";

/// Heads of one kind of layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadSizes {
    pub(crate) kv_heads: usize,
    /// Elements of a head.
    pub(crate) head_dim: usize,
}

/// Parameters and buffers of one kind of layers.
#[derive(Clone, Copy, Debug)]
struct LayerKind {
    state: State,
    /// Index into [`cairn_tensor::Plan::ropes`].
    rope: usize,
    /// Whether values are the keys before their norm and rotation.
    values_are_keys: bool,
    /// State of the last layer that stores keys and values.
    last: Option<StateId>,
    q: BufferId,   // [rows, heads * head_dim]
    k: BufferId,   // [rows, kv_heads * head_dim]
    v: BufferId,   // [rows, kv_heads * head_dim]
    out: BufferId, // [rows, heads * head_dim]
}

/// The attention blocks of a model.
#[derive(Clone, Debug)]
pub(crate) struct SharedKvAttention {
    windows: Option<SlidingWindows>,
    /// Number of first layers with keys and values.
    storing_layers: usize,
    full: LayerKind,
    window: LayerKind,
}

impl SharedKvAttention {
    /// Creates attention with these heads and rotations of layers that see the whole context, and of layers with a window. `shared`
    /// is the default of the number of layers without keys and values.
    pub(crate) fn new(
        b: &mut Builder<'_>,
        hparams: &Hparams,
        windows: Option<SlidingWindows>,
        [full, window]: [(HeadSizes, usize); 2],
        shared: usize,
    ) -> Result<Self, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let shared = keys.u32(SHARED_LAYERS)?.map_or(shared, |layers| layers as usize);
        let storing_layers = hparams.layers.saturating_sub(shared);
        let has_window = |layer: usize| windows.as_ref().is_some_and(|windows| windows.applies(layer));
        if let Some(layer) = (storing_layers..hparams.layers)
            .find(|&layer| !(0..storing_layers).any(|earlier| has_window(earlier) == has_window(layer)))
        {
            let why = format!("no layer of the same kind before layer {layer} stores keys and values");
            return Err(keys.invalid(SHARED_LAYERS, why));
        }
        let kind = windows.as_ref().map_or(StateKind::Full, SlidingWindows::state);
        let of_full = LayerKind::new(b, hparams, full);
        let of_window = if window.0 == full.0 { of_full } else { LayerKind::new(b, hparams, window) };
        let window = LayerKind { state: State { kind, ..of_window.state }, rope: window.1, ..of_window };
        Ok(Self { windows, storing_layers, full: of_full, window })
    }

    /// Uses keys as values in layers that see the whole context, if none of them has a matrix of values.
    pub(crate) fn values_of_file(mut self, b: &Builder<'_>) -> Self {
        let has_values = |layer: usize| b.has_tensor(&format!("blk.{layer}.attn_v.weight"));
        self.full.values_are_keys = !(0..self.storing_layers).filter(|&layer| !self.has_window(layer)).any(has_values);
        self
    }

    /// Lets the rows of a picture attend to each other in layers with a window only. Layers that see the whole context stay causal.
    pub(crate) fn causal_without_window(mut self) -> Self {
        self.full.state.kind = StateKind::Causal;
        self
    }

    fn has_window(&self, layer: usize) -> bool {
        self.windows.as_ref().is_some_and(|windows| windows.applies(layer))
    }

    /// Adds `residual += attention(x)`, where the stream provides `x`.
    pub(crate) fn push(&mut self, b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream, layer: usize) {
        let x = stream.enter(b, Part::ATTENTION, layer);
        self.compute(b, hparams, [x, stream.branch], layer);
        stream.leave(b, Part::ATTENTION, layer);
    }

    /// Adds `out = attention(x)`. The layer's state stores its keys and values, if it has some.
    pub(crate) fn compute(&mut self, b: &mut Builder<'_>, hparams: &Hparams, [x, to]: [BufferId; 2], layer: usize) {
        let kind = if self.has_window(layer) { &mut self.window } else { &mut self.full };
        let LayerKind { rope, q, out, .. } = *kind;
        let (heads, head_dim) = (hparams.heads, kind.state.head_dim);
        let name = |part: &str| format!("blk.{layer}.{part}");
        let stores = layer < self.storing_layers;
        let mut projections = vec![b.projection(&name("attn_q"), hparams.embedding_length, q)];
        if stores {
            projections.push(b.projection(&name("attn_k"), hparams.embedding_length, kind.k));
            if !kind.values_are_keys {
                projections.push(b.projection(&name("attn_v"), hparams.embedding_length, kind.v));
            }
        }
        b.push(Op::MatMul { x, projections });
        let rotate = |b: &mut Builder<'_>, norm: &str, x: BufferId| {
            let weight = b.vector(&name(norm), head_dim);
            b.push(Op::RmsNorm { x, weight, eps: hparams.epsilon, group: head_dim, out: x });
            b.push(Op::Rope { x, head_dim, rope });
        };
        rotate(b, "attn_q_norm.weight", q);
        if stores {
            let state = b.plan.state(kind.state);
            kind.last = Some(state);
            let LayerKind { k, v, .. } = *kind;
            if kind.values_are_keys {
                let whole = |buffer| HeadPart { buffer, heads: 1, first: 0 };
                b.push(Op::CopyHeads { from: whole(k), to: whole(v), width: kind.state.kv_heads * head_dim });
            }
            let weight = b.ones(head_dim);
            b.push(Op::RmsNorm { x: v, weight, eps: hparams.epsilon, group: head_dim, out: v });
            rotate(b, "attn_k_norm.weight", k);
            b.push(Op::StoreKv { state, k, v });
        }
        let state = kind.last.expect("a layer of each kind that attends to earlier rows has stored some");
        b.push(Op::Attention { state, q, heads, scale: 1.0, softcap: None, sinks: None, out });
        let projections = vec![b.projection(&name("attn_output"), heads * head_dim, to)];
        b.push(Op::MatMul { x: out, projections });
    }
}

impl LayerKind {
    fn new(b: &mut Builder<'_>, hparams: &Hparams, (sizes, rope): (HeadSizes, usize)) -> Self {
        let HeadSizes { kv_heads, head_dim } = sizes;
        let (wide, narrow) = (hparams.heads * head_dim, kv_heads * head_dim);
        let [q, k, v, out] = [wide, narrow, narrow, wide].map(|width| b.buffer(width));
        let state = State::new(StateKind::Full, kv_heads, head_dim);
        Self { state, rope, values_are_keys: false, last: None, q, k, v, out }
    }
}

impl HeadSizes {
    /// Reads the elements of a head: `attention.key_length` and `attention.value_length`, which must be equal, with this suffix.
    pub(crate) fn head_dim(keys: &Keys<'_>, suffix: &str, default: Option<usize>) -> Result<usize, LoadError> {
        let default = default.map(|default| default as u32);
        let head_dim = keys.count(&format!("attention.key_length{suffix}"), default, MAX_WIDTH)?;
        let value_dim = keys.count(&format!("attention.value_length{suffix}"), Some(head_dim as u32), MAX_WIDTH)?;
        if head_dim == value_dim {
            return Ok(head_dim);
        }
        Err(LoadError::Unsupported {
            what: format!("a model with keys of {head_dim} and values of {value_dim} elements"),
        })
    }

    /// Reads the key/value heads of layers that see the whole context, and of layers with a window.
    pub(crate) fn kv_heads(
        keys: &Keys<'_>,
        hparams: &Hparams,
        windows: Option<&SlidingWindows>,
    ) -> Result<[usize; 2], LoadError> {
        const KEY: &str = "attention.head_count_kv";
        let heads = hparams.heads;
        let counts = keys.counts(KEY, Some(heads as u32), MAX_WIDTH, hparams.layers)?;
        let mut of_kinds = [None; 2];
        for (layer, &count) in counts.iter().enumerate() {
            let has_window = windows.is_some_and(|windows| windows.applies(layer));
            let of_kind = *of_kinds[usize::from(has_window)].get_or_insert(count);
            if of_kind != count {
                let what = format!("a model with layers of one kind of {of_kind} and {count} key/value heads");
                return Err(LoadError::Unsupported { what });
            }
            if !heads.is_multiple_of(count) {
                return Err(keys.invalid(KEY, format!("{count} key/value heads do not divide {heads} heads")));
            }
        }
        // A kind without layers has no use.
        Ok(of_kinds.map(|count| count.unwrap_or(1)))
    }
}

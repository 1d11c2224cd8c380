//! An expert that every row uses, beside those that the router chooses (DeepSeekMoE, arXiv 2401.06066, section 3.2).

use cairn_tensor::{BufferId, Glu, Op, Projection};

use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys, MAX_WIDTH};

/// Parameters and buffers of the shared experts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedExpert {
    /// `[rows, inner]`; `None` for squared ReLU without a gate.
    gate: Option<BufferId>,
    up: BufferId, // [rows, inner]
    /// Its output, `[rows, embedding]`.
    pub(super) out: BufferId,
    /// The weight of its output before the sigmoid, `[rows, 1]`; `None` for a weight of 1.
    weight: Option<BufferId>,
}

impl SharedExpert {
    /// Reads the width inside the expert, `expert_shared_feed_forward_length`; `None` if it is zero or missing and there is no
    /// default.
    pub(crate) fn new(
        b: &mut Builder<'_>,
        hparams: &Hparams,
        default: Option<usize>,
    ) -> Result<Option<Self>, LoadError> {
        let inner = Self::width(b, default)?;
        Ok(inner.map(|inner| Self::with_width(b, hparams, inner, true)))
    }

    /// The same for an expert of squared ReLU without a gate, and without a default.
    pub(crate) fn relu_squared(b: &mut Builder<'_>, hparams: &Hparams) -> Result<Option<Self>, LoadError> {
        let inner = Self::width(b, None)?;
        Ok(inner.map(|inner| Self::with_width(b, hparams, inner, false)))
    }

    fn width(b: &Builder<'_>, default: Option<usize>) -> Result<Option<usize>, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let key = "expert_shared_feed_forward_length";
        match keys.u32(key)? {
            None | Some(0) => Ok(default),
            Some(_) => keys.count(key, None, MAX_WIDTH).map(Some),
        }
    }

    /// Reads the number of shared experts, `expert_shared_count`, which are one of their total width; `None` for no expert.
    pub(crate) fn of_count(b: &mut Builder<'_>, hparams: &Hparams, width: usize) -> Result<Option<Self>, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let key = "expert_shared_count";
        let count = keys.u32(key)?.unwrap_or(0) as usize;
        match count.checked_mul(width) {
            Some(0) => Ok(None),
            Some(inner) if inner <= MAX_WIDTH as usize => Ok(Some(Self::with_width(b, hparams, inner, true))),
            _ => Err(keys.invalid(key, format!("{count} experts of width {width} are too many"))),
        }
    }

    fn with_width(b: &mut Builder<'_>, hparams: &Hparams, inner: usize, is_gated: bool) -> Self {
        let gate = is_gated.then(|| b.buffer(inner));
        let [up, out] = [inner, hparams.embedding_length].map(|width| b.buffer(width));
        Self { gate, up, out, weight: None }
    }

    /// Weighs the output by the sigmoid of one more projection.
    pub(crate) fn weighted(self, b: &mut Builder<'_>) -> Self {
        Self { weight: Some(b.buffer(1)), ..self }
    }

    /// Adds `out = weight(x) * down(silu(gate(x)) * up(x))`, or the same without a gate.
    pub(super) fn compute(&self, b: &mut Builder<'_>, hparams: &Hparams, x: BufferId, layer: usize) {
        let &Self { gate, up, out, weight } = self;
        let (width, inner) = (hparams.embedding_length, b.plan.buffers[up.0 as usize].width);
        let name = |part: &str| format!("blk.{layer}.{part}");
        let parts = gate.map(|gate| ("ffn_gate_shexp", gate)).into_iter().chain([("ffn_up_shexp", up)]);
        let mut projections: Vec<Projection> = parts.map(|(part, out)| b.projection(&name(part), width, out)).collect();
        if let Some(weight) = weight {
            // The tensor is a vector.
            let vector = b.vector(&name("ffn_gate_inp_shexp.weight"), width);
            projections.push(Projection { weight: vector, bias: None, out: weight });
        }
        b.push(Op::MatMul { x, projections });
        b.push(match gate {
            Some(gate) => Op::Glu { activation: Glu::Silu, gate, up, out: gate },
            None => Op::ReluSquared { x: up },
        });
        let projections = vec![b.projection(&name("ffn_down_shexp"), inner, out)];
        b.push(Op::MatMul { x: gate.unwrap_or(up), projections });
        if let Some(weight) = weight {
            b.push(Op::Sigmoid { x: weight });
            b.push(Op::Mul { x: out, y: weight });
        }
    }
}

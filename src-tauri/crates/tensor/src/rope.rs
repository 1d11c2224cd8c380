//! Rotations of queries and keys by their positions.

use std::fmt;

/// How RoPE pairs the elements of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// Pairs are (2i, 2i + 1), as in the original LLaMA weights.
    Interleaved,
    /// Pairs are (i, i + dims / 2), as in GPT-NeoX.
    Half,
}

/// Rotary position embedding (Su et al., arXiv 2104.09864). Every scaling scheme (linear, NTK, YaRN, Llama 3) comes
/// down to the inverse frequencies and one magnitude, which the model's family computes when it loads.
#[derive(Clone, PartialEq)]
pub struct Rope {
    /// How elements are paired.
    pub style: RopeStyle,
    /// One angle per position step for each pair; `2 * inverse_frequencies.len()` elements of a head are rotated.
    pub inverse_frequencies: Vec<f32>,
    /// Factor on both sine and cosine (YaRN); 1 otherwise.
    pub magnitude: f32,
    /// Growth of the magnitude with the position.
    pub growth: Option<Growth>,
    /// Component of [`Row::pos`](crate::Row::pos) that each pair turns by (Wang et al., arXiv 2409.12191). Empty: all turn by the first.
    pub components: Vec<u8>,
}

/// The text of a plan identifies cached rows, so a rotation without growth or components has the text of versions that had none.
impl fmt::Debug for Rope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { style, inverse_frequencies, magnitude, growth, components } = self;
        let mut text = f.debug_struct("Rope");
        text.field("style", style).field("inverse_frequencies", inverse_frequencies).field("magnitude", magnitude);
        if let Some(growth) = growth {
            text.field("growth", growth);
        }
        if !components.is_empty() {
            text.field("components", components);
        }
        text.finish()
    }
}

impl Rope {
    /// A rotation by the first component of positions, which keeps the magnitude.
    pub fn new(style: RopeStyle, inverse_frequencies: Vec<f32>) -> Self {
        Self { style, inverse_frequencies, magnitude: 1.0, growth: None, components: Vec::new() }
    }

    /// A rotation by no angle over `dims` elements of heads, which therefore only grow.
    pub fn of_growth(growth: Growth, dims: usize) -> Self {
        Self { growth: Some(growth), ..Self::new(RopeStyle::Half, vec![0.0; dims / 2]) }
    }

    /// Returns the component of a position that a pair turns by.
    pub(crate) fn position(&self, pair: usize, pos: [u32; 4]) -> u32 {
        pos[self.components.get(pair).map_or(0, |&component| usize::from(component))]
    }

    /// Returns the factor on sine and cosine at a position.
    pub(crate) fn magnitude_at(&self, position: u32) -> f64 {
        let growth = self
            .growth
            .map_or(1.0, |growth| 1.0 + f64::from(growth.factor) * (1.0 + f64::from(growth.steps(position))).ln());
        f64::from(self.magnitude) * growth
    }
}

/// Growth by `1 + factor * ln(1 + floor((position + offset) / step))`, which keeps attention sharp in long contexts
/// (Nakanishi, arXiv 2501.19399).
#[derive(Clone, Copy, PartialEq)]
pub struct Growth {
    /// Growth for each e-fold of the context.
    pub factor: f32,
    /// Positions with the same growth; at least one.
    pub step: u32,
    /// Added to positions.
    pub offset: u32,
}

impl Growth {
    /// Returns the number of steps before a position.
    fn steps(&self, position: u32) -> u32 {
        position.saturating_add(self.offset) / self.step
    }
}

/// The text of a plan identifies cached rows, so a growth without an offset has the text of versions that had none.
impl fmt::Debug for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { factor, step, offset } = self;
        let mut text = f.debug_struct("Growth");
        text.field("factor", factor).field("step", step);
        if *offset != 0 {
            text.field("offset", offset);
        }
        text.finish()
    }
}

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

    /// Returns the component of a position that a pair turns by.
    pub(crate) fn position(&self, pair: usize, pos: [u32; 4]) -> u32 {
        pos[self.components.get(pair).map_or(0, |&component| usize::from(component))]
    }

    /// Returns the factor on sine and cosine at a position.
    pub(crate) fn magnitude_at(&self, position: u32) -> f64 {
        let growth = self
            .growth
            .map_or(1.0, |Growth { factor, step }| 1.0 + f64::from(factor) * (1.0 + f64::from(position / step)).ln());
        f64::from(self.magnitude) * growth
    }
}

/// Growth by `1 + factor * ln(1 + floor(position / step))`, which keeps attention sharp in long contexts (Nakanishi, arXiv
/// 2501.19399).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// Growth for each e-fold of the context.
    pub factor: f32,
    /// Positions with the same growth; at least one.
    pub step: u32,
}

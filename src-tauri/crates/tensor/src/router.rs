//! Routers of mixtures of experts: which experts a row uses, and with which weights.

use std::fmt;

use crate::weight::WeightId;

/// How a router's logits become scores, and the scores of the chosen experts their weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gating {
    /// The scores are the softmax over all experts (Shazeer et al., arXiv 1701.06538).
    Softmax {
        /// Whether the chosen scores are divided by their sum.
        renormalise: bool,
    },
    /// The scores are `1 / (1 + exp(-logit))` (DeepSeek-V3, arXiv 2412.19437, section 2.1.2).
    Sigmoid {
        /// Whether the chosen scores are divided by their sum.
        renormalise: bool,
    },
    /// The scores are the logits, and the weights the softmax over the chosen ones.
    SoftmaxOfChosen,
}

/// Groups of equally many consecutive experts, of which only the best ones can be chosen: those with the largest sums of their two
/// largest scores (DeepSeek-V3, arXiv 2412.19437, section 2.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertGroups {
    /// Number of groups.
    pub count: usize,
    /// Number of groups of which the experts can be chosen.
    pub used: usize,
}

impl ExpertGroups {
    /// Scores of each group that count.
    pub(crate) const BEST: usize = 2;
}

/// A router: the experts of a row are those with the largest scores, in descending order, ties to the lower index.
#[derive(Clone, Copy, PartialEq)]
pub struct Router {
    /// Number of chosen experts.
    pub used: usize,
    /// Scores and weights.
    pub gating: Gating,
    /// `[experts]`, added to the scores for the choice, not for the weights.
    pub choice_bias: Option<WeightId>,
    /// Limits the choice.
    pub groups: Option<ExpertGroups>,
    /// Factor on the weights.
    pub scale: f32,
    /// `[experts]`, the factor on each expert's weight.
    pub expert_scales: Option<WeightId>,
}

/// The text of a plan identifies cached rows, so a router without factors of experts has the text of versions that had none.
impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { used, gating, choice_bias, groups, scale, expert_scales } = self;
        let mut text = f.debug_struct("Router");
        text.field("used", used).field("gating", gating).field("choice_bias", choice_bias);
        text.field("groups", groups).field("scale", scale);
        if expert_scales.is_some() {
            text.field("expert_scales", expert_scales);
        }
        text.finish()
    }
}

impl Router {
    /// Smallest divisor of renormalised weights, as in llama.cpp: all scores may be zero.
    pub(crate) const MIN_SUM: f32 = 1.0 / 16_384.0;

    /// A router without a bias, groups and factors.
    pub fn new(used: usize, gating: Gating) -> Self {
        Self { used, gating, choice_bias: None, groups: None, scale: 1.0, expert_scales: None }
    }

    /// Whether the order of the logits is not that of the choice.
    pub(crate) fn changes_order(&self) -> bool {
        self.choice_bias.is_some() || self.groups.is_some()
    }
}

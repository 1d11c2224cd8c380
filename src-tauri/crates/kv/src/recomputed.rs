//! Why tokens of a prompt are computed although they were looked for, and how many for which reason.

use std::ops::AddAssign;

/// Why tokens are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Because {
    /// They are not kept, or are no more.
    Miss,
    /// Computing them is quicker than bringing them back.
    Cheaper,
    /// They did not come in time.
    Deadline,
    /// What is kept of them is damaged.
    Corrupt,
    /// What is kept of them was made by another arithmetic, or in another way.
    Incompatible,
    /// Sequences in use held all pages that they could have been written to.
    NoPages,
}

impl Because {
    /// All reasons.
    pub const ALL: [Self; 6] =
        [Self::Miss, Self::Cheaper, Self::Deadline, Self::Corrupt, Self::Incompatible, Self::NoPages];

    /// What messages and metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Miss => "miss",
            Self::Cheaper => "cheaper",
            Self::Deadline => "deadline",
            Self::Corrupt => "corrupt",
            Self::Incompatible => "incompatible",
            Self::NoPages => "no_pages",
        }
    }
}

/// Tokens that were computed, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recomputed([u64; Because::ALL.len()]);

impl Recomputed {
    /// So many tokens, for one reason.
    pub fn of(why: Because, tokens: usize) -> Self {
        let mut of = Self::default();
        of.0[why as usize] = tokens as u64;
        of
    }

    /// Tokens for this reason.
    pub fn tokens(&self, why: Because) -> u64 {
        self.0[why as usize]
    }

    /// The reasons that there were, and the tokens for each.
    pub fn reasons(&self) -> impl Iterator<Item = (Because, u64)> + '_ {
        Because::ALL.into_iter().map(|why| (why, self.tokens(why))).filter(|(_, tokens)| *tokens > 0)
    }
}

impl AddAssign for Recomputed {
    fn add_assign(&mut self, more: Self) {
        self.0.iter_mut().zip(more.0).for_each(|(sum, more)| *sum += more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_summed_by_reason() {
        let mut sum = Recomputed::of(Because::Miss, 3);
        sum += Recomputed::of(Because::Deadline, 5);
        sum += Recomputed::of(Because::Miss, 4);
        let reasons: Vec<_> = sum.reasons().map(|(why, tokens)| (why.name(), tokens)).collect();
        assert_eq!(reasons, [("miss", 7), ("deadline", 5)], "each reason has its own sum, and others are left out");
    }
}

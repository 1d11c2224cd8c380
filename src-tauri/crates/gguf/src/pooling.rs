//! The key `pooling_type` of embedding models, with the numbers of llama.cpp (`llama_pooling_type` in
//! <https://github.com/ggml-org/llama.cpp/blob/master/include/llama.h>).

use crate::value::Value;

/// Rows of a text that make its vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Pooling {
    /// The mean of all rows.
    Mean = 1,
    /// The first row.
    First = 2,
    /// The last row.
    Last = 3,
    /// The first row, from which a classifier computes the score of a text pair.
    Rank = 4,
}

impl Pooling {
    /// The key, without the prefix of the architecture.
    pub const KEY: &str = "pooling_type";
    /// Value of models without pooling.
    pub const NONE: u32 = 0;
    const ALL: [Self; 4] = [Self::Mean, Self::First, Self::Last, Self::Rank];

    /// Returns the kind with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|pooling| pooling.number() == number)
    }

    /// Returns the number in files.
    pub fn number(self) -> u32 {
        self as u32
    }
}

impl From<Pooling> for Value {
    fn from(pooling: Pooling) -> Self {
        Self::U32(pooling.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_round_trips() {
        let all = (0..6).map(Pooling::from_number);
        let expected =
            [None, Some(Pooling::Mean), Some(Pooling::First), Some(Pooling::Last), Some(Pooling::Rank), None];
        assert!(all.eq(expected), "the numbers of llama.cpp");
        assert!(Pooling::ALL.into_iter().all(|pooling| Pooling::from_number(pooling.number()) == Some(pooling)));
    }
}

//! Attention to one part of a sequence, with a bias by distance: the attention of encoder-decoder models (T5: Raffel et al., arXiv
//! 1910.10683, section 2.1).
//!
//! A sequence of a decoder with an encoder begins with rows of the input, which hold keys and values of the encoder's output. The
//! decoder's own rows follow:
//!
//! ```text
//! slot:  0 .. n: the input | n ..: the decoder's rows        n = fourth component of a row's position
//! ```
//!
//! A bias depends on the distance of two rows. Near distances have a bucket each. Farther ones share buckets that widen with the
//! distance, and all from [`FARTHEST`] on share the last one.

use crate::buffer::BufferId;
use crate::state::StateId;
use crate::weight::WeightId;

/// Distance from which on all rows have one bucket.
pub const FARTHEST: u32 = 128;

/// Distances with biases of their own, from `-FARTHEST` to `FARTHEST`.
pub(crate) const BY_DISTANCE: usize = 2 * FARTHEST as usize + 1;

/// Component of [`Row::pos`](crate::Row::pos): the slot of the decoder's first row. It is 0 in a sequence without an input.
pub(crate) const FIRST_SLOT: usize = 3;

/// Parameters of [`Op::PartAttention`](crate::Op::PartAttention).
#[derive(Clone, Debug, PartialEq)]
pub struct PartAttention {
    /// State of the layer. All slots are stored.
    pub state: StateId,
    /// `[rows, heads * head_dim]`.
    pub q: BufferId,
    /// Query heads; a multiple of the state's `kv_heads`.
    pub heads: usize,
    /// Factor on the scores.
    pub scale: f32,
    /// The slots that a row attends to.
    pub part: Part,
    /// Added to the scaled scores.
    pub bias: Option<DistanceBias>,
    /// Receives `[rows, heads * value_dim]`. Not `q`.
    pub out: BufferId,
}

/// A part of a sequence. See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The input.
    Input,
    /// The rows behind the input, up to [`Row::until`](crate::Row::until).
    Own,
}

/// A learned number for each head and each bucket of distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistanceBias {
    /// `[buckets, heads]`.
    pub table: WeightId,
    /// Whether the second half of the buckets is for slots behind the row. Otherwise these are like the row itself.
    pub both_ways: bool,
}

impl DistanceBias {
    /// Returns whether a table can have this number of rows: each direction needs an exact bucket and a wide one, and the widths
    /// grow only up to [`FARTHEST`].
    pub fn is_valid(self, buckets: usize) -> bool {
        let most = if self.both_ways { 4 } else { 2 } * FARTHEST as usize;
        let fewest = if self.both_ways { 4 } else { 2 };
        buckets >= fewest && buckets < most && buckets.is_multiple_of(fewest)
    }

    /// Returns the bucket of a slot at this distance behind the row; a negative one is before it.
    pub fn bucket(self, distance: i64, buckets: usize) -> usize {
        let (own, first) = match self.both_ways {
            true => (buckets / 2, if distance > 0 { buckets / 2 } else { 0 }),
            false => (buckets, 0),
        };
        let apart = if self.both_ways { distance.unsigned_abs() } else { distance.min(0).unsigned_abs() };
        let exact = own / 2;
        if apart < exact as u64 {
            return first + apart as usize;
        }
        // The precision of each step is that of the models' training code: it decides at which distance a bucket begins.
        let ratio = (apart as f64 / exact as f64) as f32;
        let scaled = f64::from(ratio.ln() * (own - exact) as f32);
        let wide = exact as f64 + scaled / (f64::from(FARTHEST) / exact as f64).ln();
        first + ((wide as f32).floor() as usize).min(own - 1)
    }
}

/// The biases of each head by distance: `[heads, BY_DISTANCE]`.
pub(crate) fn by_distance(bias: DistanceBias, table: &[f32], heads: usize) -> Vec<f32> {
    let (far, buckets) = (i64::from(FARTHEST), table.len() / heads);
    let of_head = |head: usize| (-far..=far).map(move |distance| table[bias.bucket(distance, buckets) * heads + head]);
    (0..heads).flat_map(of_head).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(both_ways: bool, buckets: usize, expected: &[(i64, usize)]) {
        let bias = DistanceBias { table: WeightId(0), both_ways };
        for &(distance, bucket) in expected {
            assert_eq!(
                bias.bucket(distance, buckets),
                bucket,
                "both ways: {both_ways}, {distance} of {buckets} buckets"
            );
        }
    }

    #[test]
    fn buckets_are_those_of_the_published_models() {
        // Computed with the function of T5 in Hugging Face's transformers.
        let behind = [(0, 0), (1, 17), (7, 23), (8, 24), (11, 24), (12, 25), (15, 25), (16, 26), (22, 26), (23, 27)];
        check(true, 32, &behind);
        check(
            true,
            32,
            &[(31, 27), (32, 28), (63, 29), (64, 30), (90, 30), (91, 31), (127, 31), (128, 31), (9999, 31)],
        );
        check(true, 32, &[(-1, 1), (-7, 7), (-8, 8), (-16, 10), (-32, 12), (-64, 14), (-91, 15), (-500, 15)]);
        check(false, 32, &[(5, 0), (0, 0), (-1, 1), (-15, 15), (-16, 16), (-18, 16), (-19, 17), (-20, 17), (-21, 18)]);
        check(false, 32, &[(-32, 21), (-64, 26), (-112, 30), (-113, 31), (-128, 31), (-100_000, 31)]);
    }

    #[test]
    fn buckets_of_all_valid_tables_are_in_them_and_ascend() {
        for both_ways in [false, true] {
            let bias = DistanceBias { table: WeightId(0), both_ways };
            let valid: Vec<usize> = (0..600).filter(|&buckets| bias.is_valid(buckets)).collect();
            assert_eq!(valid.last(), Some(&if both_ways { 508 } else { 254 }), "the largest table");
            for buckets in valid {
                let of = |distance| bias.bucket(distance, buckets);
                let far: Vec<usize> = (0..=300).map(|apart| of(-apart)).collect();
                assert!(far.is_sorted() && far.iter().all(|&bucket| bucket < buckets), "{buckets} before: {far:?}");
                assert!((128..300).all(|apart| of(-apart) == of(-i64::from(FARTHEST))), "{buckets}: the last bucket");
                assert!((1..300).all(|apart| of(apart) < buckets), "{buckets} behind");
            }
        }
    }
}

//! The search for a scale and for vectors of the ternary grid: how IQ1_S and IQ1_M are encoded, as ggml does it.
//!
//! Elements are -1, 0 or 1, moved by an eighth up or down, times a scale. With three levels the best split is found by trying
//! all: the elements are sorted, and two borders divide them. Prefix sums give the score of each pair of borders. Then
//! every eight elements go to a vector of the grid.

use super::corners;

/// How far levels are moved.
pub(super) const DELTA: f32 = 0.125;
/// The levels moved up, and moved down.
pub(super) const MOVED: [[f32; 3]; 2] = [[-1.0 + DELTA, DELTA, 1.0 + DELTA], [-1.0 - DELTA, -DELTA, 1.0 - DELTA]];

/// The best split of some elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split<const LEN: usize> {
    pub(super) scale: f32,
    /// Each element's level: 0, 1 or 2.
    pub(super) levels: [u8; LEN],
    /// The number of the candidate direction that won.
    pub(super) direction: usize,
}

/// Returns the positions of elements in ascending order of their values.
pub(super) fn ascending<const LEN: usize>(x: &[f32; LEN]) -> [usize; LEN] {
    let mut order = std::array::from_fn(|at| at);
    // Zeros of both signs are equal.
    let value = |at: usize| x.get(at).copied().unwrap_or_default() + 0.0;
    order.sort_by(|&a, &b| value(a).total_cmp(&value(b)));
    order
}

/// Tries all pairs of borders. `score` gives `(sum(w x q), sum(w q q))` for the borders and a direction; `directions` is their
/// number, and directions mirror each other from both ends. `None` if no split has a weight.
pub(super) fn best_split<const LEN: usize>(
    order: &[usize; LEN],
    largest: f32,
    directions: usize,
    score: impl Fn(usize, usize, usize) -> (f32, f32),
) -> Option<Split<LEN>> {
    let (mut best, mut scale, mut found) = (-f32::MAX, largest, None);
    for first in 0..=LEN {
        for second in first..=LEN {
            for direction in 0..directions {
                let (xq, qq) = score(first, second, direction);
                if qq > 0.0 && xq * xq > best * qq {
                    scale = xq / qq;
                    best = scale * xq;
                    found = Some((first, second, direction));
                }
            }
        }
    }
    let (first, second, direction) = found?;
    let mut levels = [0; LEN];
    for (place, &at) in order.iter().enumerate() {
        if let Some(level) = levels.get_mut(at) {
            *level = u8::from(place >= first) + u8::from(place >= second);
        }
    }
    if scale < 0.0 {
        return Some(Split {
            scale: -scale,
            levels: levels.map(|level| 2 - level),
            direction: directions - 1 - direction,
        });
    }
    Some(Split { scale, levels, direction })
}

/// Elements that go to a vector, with their weights.
pub(super) struct Eight<'a> {
    pub(super) x: &'a [f32; 8],
    pub(super) weights: &'a [f32; 8],
    /// The values of the three levels.
    pub(super) values: &'a [f32; 3],
}

impl Eight<'_> {
    /// Returns the vector for some levels and whether it has exactly these: if not, the one that leaves the least error.
    pub(super) fn vector(&self, levels: &[u8; 8], scale: f32) -> (u16, bool) {
        let near = corners::IQ1.near(levels);
        if let [only] = near
            && corners::IQ1.vector(*only).iter().zip(levels).all(|(&q, &level)| q == 2 * level as i8 + 1)
        {
            return (*only, true);
        }
        let (mut least, mut index) = (f32::MAX, 0);
        for &near in near {
            let error = self.terms(near).fold(0.0, |error, (q, x, w)| {
                let difference = scale * q - x;
                error + w * difference * difference
            });
            if error < least {
                (least, index) = (error, near);
            }
        }
        (index, false)
    }

    /// Adds `w x q` and `w q q` of a vector times `factor` to sums.
    pub(super) fn add(&self, (xq, qq): (f32, f32), index: u16, factor: f32) -> (f32, f32) {
        self.terms(index).fold((xq, qq), |(xq, qq), (q, x, w)| {
            let q = q * factor;
            (xq + w * q * x, qq + w * q * q)
        })
    }

    /// The value of each element of a vector, the element and its weight.
    fn terms(&self, index: u16) -> impl Iterator<Item = (f32, f32, f32)> {
        let [low, middle, high] = *self.values;
        let value = move |q: i8| match q {
            1 => low,
            3 => middle,
            _ => high,
        };
        let elements = self.x.iter().zip(self.weights);
        corners::IQ1.vector(index).iter().zip(elements).map(move |(&q, (&x, &w))| (value(q), x, w))
    }
}

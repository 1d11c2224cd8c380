//! The grid vectors near each point, for encoders of types with grids.
//!
//! An encoder first rounds each element to a level. The levels of a few elements are a point: a corner of the lattice that
//! the grid's vectors are a selection of. Most points are no vectors, so an encoder tries the vectors near the point. The
//! tables are computed on first use.

use std::sync::LazyLock;

use super::grids;

/// Grid vectors near each point.
pub(super) struct Corners<const LEN: usize> {
    grid: &'static [[i8; LEN]],
    levels: usize,
    /// For each point, the begin and end of its vectors in `near`.
    ranges: Vec<(u32, u32)>,
    /// The vector at the point; without one, the vectors at the smallest distances, nearest first.
    near: Vec<u16>,
}

/// Two distances, on the 256 vectors of IQ3_XXS.
pub(super) static IQ3_XXS: LazyLock<Corners<4>> = LazyLock::new(|| Corners::new(&grids::IQ3_XXS_ODD, 8, 2));
/// Three distances, on the 512 vectors of IQ3_S.
pub(super) static IQ3_S: LazyLock<Corners<4>> = LazyLock::new(|| Corners::new(&grids::IQ3_S, 8, 3));
/// Two distances, on the 256 vectors of IQ2_XXS.
pub(super) static IQ2_XXS: LazyLock<Corners<8>> = LazyLock::new(|| Corners::new(&grids::IQ2_XXS_ODD, 3, 2));
/// Two distances, on the 512 vectors of IQ2_XS.
pub(super) static IQ2_XS: LazyLock<Corners<8>> = LazyLock::new(|| Corners::new(&grids::IQ2_XS_ODD, 3, 2));
/// One distance, on the 1024 vectors of IQ2_S.
pub(super) static IQ2_S: LazyLock<Corners<8>> = LazyLock::new(|| Corners::new(&grids::IQ2_S_ODD, 3, 1));
/// Three distances, on the 2048 vectors of IQ1_S and IQ1_M, with the levels -1, 0 and 1.
pub(super) static IQ1: LazyLock<Corners<8>> = LazyLock::new(|| Corners::new(&grids::IQ1_ODD, 3, 3));

impl<const LEN: usize> Corners<LEN> {
    /// Computes the table of a grid with the elements 1, 3, 5, ... for the levels 0, 1, 2, ...
    fn new(grid: &'static [[i8; LEN]], levels: usize, distances: usize) -> Corners<LEN> {
        let points = levels.pow(LEN as u32);
        let mut corners = Corners { grid, levels, ranges: Vec::with_capacity(points), near: Vec::new() };
        let mut away: Vec<u16> = Vec::with_capacity(grid.len());
        for point in 0..points {
            let mut left = point;
            let point: [i8; LEN] = std::array::from_fn(|_| {
                let level = left % levels;
                left /= levels;
                (2 * level + 1) as i8
            });
            away.clear();
            away.extend(
                grid.iter()
                    .map(|vector| vector.iter().zip(point).map(|(&q, x)| u16::from(q.abs_diff(x)).pow(2)).sum::<u16>()),
            );
            let begin = corners.near.len() as u32;
            let mut beyond = None;
            for _ in 0..distances {
                let next = away.iter().copied().filter(|&distance| beyond.is_none_or(|beyond| distance > beyond)).min();
                let Some(distance) = next else { break };
                let at_distance = (0..).zip(&away).filter(|(_, away)| **away == distance);
                corners.near.extend(at_distance.map(|(index, _)| index));
                if distance == 0 {
                    break;
                }
                beyond = next;
            }
            corners.ranges.push((begin, corners.near.len() as u32));
        }
        corners
    }

    /// Returns the grid vectors near the point of some levels, by ascending distance. If the point is itself a grid vector,
    /// returns only that one.
    pub(super) fn near(&self, levels: &[u8; LEN]) -> &[u16] {
        let point = levels.iter().rev().fold(0, |point, &level| point * self.levels + usize::from(level));
        let (begin, end) = self.ranges.get(point).copied().unwrap_or_default();
        self.near.get(begin as usize..end as usize).unwrap_or_default()
    }

    /// Returns the elements of a grid vector: 1, 3, 5, ... for the levels 0, 1, 2, ...
    #[expect(clippy::indexing_slicing, reason = "the remainder is within the grid")]
    pub(super) fn vector(&self, index: u16) -> &'static [i8; LEN] {
        &self.grid[usize::from(index) % self.grid.len()]
    }
}

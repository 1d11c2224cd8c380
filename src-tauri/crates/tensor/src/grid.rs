//! Places of the rows of a picture in a grid of learned positions.

/// The four entries around a place, by their index in a table of `side * side` rows, and their weights. The corners of the picture are the
/// corners of the grid.
pub(crate) fn corners([y, x, rows, columns]: [u32; 4], side: usize) -> [(usize, f64); 4] {
    let [(top, bottom, low), (left, right, far)] = [neighbors(y, rows, side), neighbors(x, columns, side)];
    let entry = |row: usize, column: usize, weight: f64| (row * side + column, weight);
    [
        entry(top, left, (1.0 - low) * (1.0 - far)),
        entry(top, right, (1.0 - low) * far),
        entry(bottom, left, low * (1.0 - far)),
        entry(bottom, right, low * far),
    ]
}

/// The entries of a side before and after the place `at` of `count`, and the weight of the second one.
fn neighbors(at: u32, count: u32, side: usize) -> (usize, usize, f64) {
    let place = match count {
        0 | 1 => 0.0,
        count => f64::from(at) * (side - 1) as f64 / f64::from(count - 1),
    };
    let before = (place as usize).min(side - 1);
    (before, (before + 1).min(side - 1), place - before as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_of_a_picture_are_corners_of_the_grid() {
        let used = |pos: [u32; 4]| corners(pos, 3).into_iter().filter(|(_, weight)| *weight > 0.0).collect::<Vec<_>>();
        assert_eq!(used([0, 0, 5, 4]), [(0, 1.0)], "the first");
        assert_eq!(used([4, 3, 5, 4]), [(8, 1.0)], "the last");
        assert_eq!(used([0, 0, 1, 1]), [(0, 1.0)], "a picture of one row");
        assert_eq!(used([1, 0, 5, 4]), [(0, 0.5), (3, 0.5)], "half of the way to the second row");
        assert_eq!(used([1, 1, 3, 2]), [(5, 1.0)], "an entry");
        assert_eq!(used([0, 1, 4, 5]), [(0, 0.5), (1, 0.5)], "half of the way to the second column");
        assert_eq!(corners([6, 2, 7, 9], 1).map(|(index, _)| index), [0; 4], "a grid of one entry");
    }
}

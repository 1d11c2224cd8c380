//! The size of a slice: prompt rows that go through the layers in several steps.

/// Rows of a slice, about: enough to share the reads of weights, keys and values.
const ROWS: usize = 64;
/// Most steps of a slice of this many rows, about. Other prompts wait until it is complete. Only a picture has more rows than the
/// time allows, because it is not divided: then a slice has more steps.
const MAX_STEPS: usize = 8;

/// Returns the number of rows of a slice, if a step has time for `full_rows` rows in all layers.
pub(super) fn slice_rows(full_rows: f64, layers: usize) -> usize {
    let in_a_step = slice_layers(full_rows, ROWS, layers, layers);
    (full_rows * layers as f64 / in_a_step as f64) as usize
}

/// Returns the number of layers that `rows` rows go through in a step that has time for `full_rows` rows in all `layers`. The rows
/// have `left` layers to go; steps of nearly equal size waste least.
pub(super) fn slice_layers(full_rows: f64, rows: usize, layers: usize, left: usize) -> usize {
    let possible = (full_rows * layers as f64 / rows.max(1) as f64) as usize;
    let max_steps = MAX_STEPS * rows.div_ceil(ROWS).max(1);
    let steps = left.div_ceil(possible.clamp(layers.div_ceil(max_steps), layers));
    left.div_ceil(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of a slice, and their layers in each step.
    fn steps(full_rows: f64, layers: usize) -> (usize, Vec<usize>) {
        let rows = slice_rows(full_rows, layers);
        let (mut steps, mut left) = (Vec::new(), layers);
        while left > 0 {
            steps.push(slice_layers(full_rows, rows, layers, left));
            left -= steps.last().expect("a step was just added");
        }
        (rows, steps)
    }

    #[test]
    fn slice_has_many_rows_in_few_even_steps() {
        assert_eq!(steps(200.0, 28), (200, vec![28]), "all layers");
        assert_eq!(steps(63.0, 28), (126, vec![14, 14]), "twice the rows in two steps");
        assert_eq!(steps(12.3, 28), (68, vec![5, 5, 5, 5, 4, 4]), "six steps");
        assert_eq!(steps(1.0, 28), (7, vec![4; 7]), "few rows rather than many steps");
        assert_eq!(steps(1.0, 1), (1, vec![1]), "one layer");
    }

    #[test]
    fn steps_of_slice_use_most_of_their_time() {
        for layers in [1, 2, 5, 16, 28, 32, 61, 80] {
            for budget in 1..100 {
                let (rows, steps) = steps(f64::from(budget), layers);
                let used = rows as f64 / steps.len() as f64;
                let case = format!("{layers} layers, {budget} rows: {rows} rows in {steps:?}");
                assert!(used <= f64::from(budget) * 1.001, "{case}");
                assert!(used >= f64::from(budget) * 0.7 - 0.3, "{case}");
                assert!(steps.len() <= MAX_STEPS, "{case}");
            }
        }
    }
}

//! Groups the rows of a batch by their experts.

use cairn_kernels::Format;

use super::router::RouterScratch;
use crate::plan::{Op, Plan};
use crate::weight::Weight;

/// Scratch memory of a thread for experts.
#[derive(Debug, Default)]
pub(super) struct ExpertScratch {
    /// Memory for routing.
    pub(super) router: RouterScratch,
    /// Rows of each expert.
    pub(super) groups: Groups,
    /// Columns of one expert.
    pub(super) gathered: Vec<u8>,
    /// One expert's bias.
    pub(super) bias: Vec<f32>,
}

/// Choices by expert.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// By expert: the end of its choices, which is the start of the next expert's.
    ends: Vec<usize>,
    /// Row and slot of each choice, ordered by expert and row.
    choices: Vec<(usize, usize)>,
}

impl ExpertScratch {
    /// Allocates memory for a plan and batches of `rows` rows.
    pub(super) fn fit(&mut self, plan: &Plan, weights: &[Weight], rows: usize) {
        fn grow<T: Copy + Default>(memory: &mut Vec<T>, len: usize) {
            memory.resize(len.max(memory.len()), T::default());
        }
        self.router.fit(plan);
        for op in &plan.ops {
            let Op::MatMulId { routes, experts, projections, .. } = op else { continue };
            let used = plan.buffers[routes.0 as usize].width / 2;
            grow(&mut self.groups.ends, *experts);
            grow(&mut self.groups.choices, rows * used);
            for projection in projections {
                let weight = &weights[projection.weight.0 as usize];
                grow(&mut self.gathered, rows * Format::of(weight.dtype).column_bytes(weight.cols));
                grow(&mut self.bias, weight.rows / experts);
            }
        }
    }
}

impl Groups {
    /// Groups the routes `[rows, 2 * used]` of rows of a batch, from the row `first` on.
    pub(super) fn read(&mut self, routes: &[f32], first: usize, used: usize, experts: usize) {
        let ends = &mut self.ends[..experts];
        let ids = |row: usize| routes[row * 2 * used..][..used].iter().map(|id| *id as usize);
        let rows = routes.len() / (2 * used);
        ends.fill(0);
        (0..rows).flat_map(ids).for_each(|id| ends[id] += 1);
        let mut start = 0;
        for end in ends.iter_mut() {
            start += std::mem::replace(end, start);
        }
        for row in 0..rows {
            for (slot, id) in ids(row).enumerate() {
                self.choices[ends[id]] = (first + row, slot);
                ends[id] += 1;
            }
        }
    }

    /// Returns the choices of an expert.
    pub(super) fn of(&self, expert: usize) -> &[(usize, usize)] {
        let start = if expert == 0 { 0 } else { self.ends[expert - 1] };
        &self.choices[start..self.ends[expert]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_the_rows_of_each_expert() {
        let mut groups = Groups { ends: vec![9; 4], choices: vec![(9, 9); 8] };
        let routes = [[2.0, 0.0, 0.5, 0.5], [0.0, 3.0, 0.5, 0.5], [2.0, 3.0, 0.5, 0.5]];
        groups.read(routes.as_flattened(), 0, 2, 4);
        let found: Vec<&[(usize, usize)]> = (0..4).map(|expert| groups.of(expert)).collect();
        assert_eq!(found, [&[(0, 1), (1, 0)][..], &[], &[(0, 0), (2, 0)], &[(1, 1), (2, 1)]], "by expert, then by row");
        groups.read(&routes.as_flattened()[4..], 1, 2, 4);
        let found: Vec<&[(usize, usize)]> = (0..4).map(|expert| groups.of(expert)).collect();
        assert_eq!(found, [&[(1, 0)][..], &[], &[(2, 0)], &[(1, 1), (2, 1)]], "without the first row");
    }
}

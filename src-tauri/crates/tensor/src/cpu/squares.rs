//! Sums of the squared inputs of matrix products, of which importance matrices are made.
//!
//! Each thread adds up its own rows while it converts them. The sums of the threads are joined at the end.

use std::collections::BTreeMap;

/// Squared inputs of a weight.
#[derive(Clone, Debug, PartialEq)]
pub struct InputSquares {
    /// Name of the weight.
    pub name: String,
    /// For each stacked matrix, in order.
    pub matrices: Vec<MatrixSquares>,
}

/// Squared inputs of a matrix.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MatrixSquares {
    /// Number of inputs.
    pub inputs: u64,
    /// The sum of the squares of each column; empty without inputs.
    pub sums: Vec<f64>,
}

/// Sums of one thread by the index of the op: one for each stacked matrix.
pub(super) type OpSquares = BTreeMap<usize, Vec<MatrixSquares>>;

impl MatrixSquares {
    pub(super) fn add(&mut self, input: &[f32]) {
        self.inputs += 1;
        self.sums.resize(input.len(), 0.0);
        self.sums.iter_mut().zip(input).for_each(|(sum, x)| *sum += f64::from(*x) * f64::from(*x));
    }

    fn join(&mut self, other: Self) {
        self.inputs += other.inputs;
        self.sums.resize(self.sums.len().max(other.sums.len()), 0.0);
        self.sums.iter_mut().zip(other.sums).for_each(|(sum, other)| *sum += other);
    }
}

/// Joins the sums of the threads, in order.
pub(super) fn join(threads: impl Iterator<Item = OpSquares>) -> OpSquares {
    let mut all = OpSquares::new();
    for (op, matrices) in threads.flatten() {
        let joined = all.entry(op).or_insert_with(|| vec![MatrixSquares::default(); matrices.len()]);
        joined.iter_mut().zip(matrices).for_each(|(sums, other)| sums.join(other));
    }
    all
}

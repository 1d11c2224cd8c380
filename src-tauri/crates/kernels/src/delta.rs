//! Linear attention by the gated delta rule: one token's step on some columns of a head's state.

/// Columns of a whole block of a state. The last block of a head may have fewer.
pub const DELTA_COLUMNS: usize = 32;

/// One step of the gated delta rule (Yang et al., arXiv 2412.06464) on a block of columns of a state `S`:
///
/// ```text
/// S     = decay * S
/// error = beta * (v - Sᵀ k)
/// S     = S + k errorᵀ
/// out   = Sᵀ q
/// ```
///
/// A column depends on no other column. Its sums over the keys are those over even keys and those over odd keys, both ascending, and
/// then their sum.
#[derive(Debug)]
pub struct DeltaStep<'a> {
    /// `[keys, columns]`.
    pub state: &'a mut [f32],
    /// `[keys]`.
    pub k: &'a [f32],
    /// `[keys]`.
    pub q: &'a [f32],
    /// `[columns]`: one to [`DELTA_COLUMNS`].
    pub v: &'a [f32],
    /// Factor on the state.
    pub decay: f32,
    /// Factor on the error.
    pub beta: f32,
    /// Receives `[columns]`.
    pub out: &'a mut [f32],
}

impl DeltaStep<'_> {
    /// Checks the lengths.
    pub(crate) fn check(&self) {
        let (keys, columns) = (self.k.len(), self.v.len());
        assert!((1..=DELTA_COLUMNS).contains(&columns), "a block has up to {DELTA_COLUMNS} columns, not {columns}");
        assert_eq!(self.q.len(), keys, "a query is as long as a key");
        assert_eq!(self.state.len(), keys * columns, "a row of the state for each element of a key");
        assert_eq!(self.out.len(), columns, "one output for each column");
    }
}

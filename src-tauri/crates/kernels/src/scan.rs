//! State space models: the steps of some tokens on some columns of a head's state.

/// Columns of a whole block of a state. The last block of a head may have fewer.
pub const SCAN_COLUMNS: usize = 32;
/// Most tokens of a call.
pub const SCAN_TOKENS: usize = 4;

/// Inputs of one token.
#[derive(Clone, Copy, Debug)]
pub struct ScanToken<'a> {
    /// Input matrix of the token, `[state size]`.
    pub b: &'a [f32],
    /// Output matrix of the token, `[state size]`.
    pub c: &'a [f32],
    /// `[columns]`: one to [`SCAN_COLUMNS`].
    pub x: &'a [f32],
    /// Step size.
    pub step: f32,
    /// Factor on the state.
    pub decay: f32,
}

/// Steps of a state space model (Mamba 2: Dao and Gu, arXiv 2405.21060) on a block of columns of a state `S`, token by token:
///
/// ```text
/// S   = decay * S + b (step * x)ᵀ
/// out = Sᵀ c + skip * x
/// ```
///
/// A column depends on no other column. Its sum over the rows is ascending, and the same for any number of tokens in a call.
#[derive(Debug)]
pub struct Scan<'a> {
    /// `[state size, columns]`.
    pub state: &'a mut [f32],
    /// One to [`SCAN_TOKENS`] tokens.
    pub tokens: &'a [ScanToken<'a>],
    /// Factor on the input in the output.
    pub skip: f32,
    /// Receives `[tokens, columns]`.
    pub out: &'a mut [f32],
}

impl Scan<'_> {
    /// Checks the lengths. Returns the number of columns.
    pub(crate) fn check(&self) -> usize {
        let count = self.tokens.len();
        assert!((1..=SCAN_TOKENS).contains(&count), "a call has up to {SCAN_TOKENS} tokens, not {count}");
        let (size, columns) = (self.tokens[0].b.len(), self.tokens[0].x.len());
        assert!((1..=SCAN_COLUMNS).contains(&columns), "a block has up to {SCAN_COLUMNS} columns, not {columns}");
        for token in self.tokens {
            let lengths = [token.b.len(), token.c.len(), token.x.len()];
            assert_eq!(lengths, [size, size, columns], "all tokens have the same shape");
        }
        assert_eq!(self.state.len(), size * columns, "a row of the state for each element of an input matrix");
        assert_eq!(self.out.len(), count * columns, "one output for each token and column");
        columns
    }
}

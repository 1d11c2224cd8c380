//! The input of a sequence of a model with an encoder: which part of it must be computed, and the rows behind it.

use std::ops::Range;

use super::Sequence;
use crate::input::{self, InputRows, SequenceInput};

impl Sequence {
    /// Makes the prompt an input, behind which the answer begins with a token of its own.
    pub(crate) fn with_input(mut self, start: u32) -> Self {
        let tokens = self.history.len();
        self.history.push(start);
        self.input = Some(SequenceInput { tokens, rows: None });
        self.read_history();
        self
    }

    /// Number of rows of the input; 0 if the model has no encoder.
    pub(crate) fn input_tokens(&self) -> usize {
        self.input.as_ref().map_or(0, |input| input.tokens)
    }

    /// Whether keys and values of some rows of the input are not stored.
    pub(super) fn lacks_input(&self) -> bool {
        self.computed < self.input_tokens()
    }

    /// The input, if the encoder must compute it.
    pub(crate) fn unencoded_input(&self) -> Option<&[u32]> {
        let input = self.input.as_ref().filter(|input| input.rows.is_none() && self.lacks_input())?;
        Some(&self.history[..input.tokens])
    }

    /// Sets the encoder's rows.
    pub(crate) fn set_input_rows(&mut self, rows: &InputRows) {
        if let Some(input) = &mut self.input {
            input.rows = Some(InputRows::clone(rows));
        }
    }

    /// The rows of the input that have no stored keys and values, and all rows of the encoder.
    pub(crate) fn unstored_input(&self) -> Option<(Range<usize>, InputRows)> {
        let input = self.input.as_ref().filter(|_| self.lacks_input())?;
        Some((self.computed..input.tokens, InputRows::clone(input.rows.as_ref()?)))
    }

    /// Drops the encoder's rows once they are stored.
    pub(super) fn drop_input_rows(&mut self) {
        if !self.lacks_input()
            && let Some(input) = &mut self.input
        {
            input.rows = None;
        }
    }

    /// Sets the keys of the input's rows.
    pub(super) fn read_input_keys(&mut self) {
        let tokens = self.input_tokens();
        if tokens > 0 {
            self.keys.splice(..tokens, input::keys(&self.history[..tokens]));
        }
    }
}

//! The input of a sequence of a model with an encoder: which part of it must be computed, and the rows behind it.

use std::ops::Range;

use super::Sequence;
use crate::input::{self, InputId, InputRows, SequenceInput};

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

    /// Identity of that input.
    pub(crate) fn unencoded_input_id(&self) -> Option<InputId> {
        self.unencoded_input().map(|_| InputId::new(self.keys[0], self.scope()))
    }

    /// Sets the encoder's rows of an input, if it is that of this sequence and of its scope.
    pub(crate) fn set_input_rows(&mut self, id: &InputId, rows: &InputRows) {
        if self.unencoded_input_id().as_ref() == Some(id)
            && let Some(input) = &mut self.input
        {
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

#[cfg(test)]
mod tests {
    use cairn_kv::CacheScope;

    use super::*;
    use crate::request::Request;
    use crate::sequence::tests;

    #[test]
    fn rows_of_an_input_reach_sequences_of_their_scope_only() {
        let tokenizer = tests::tokenizer();
        let sequence = |name: Option<&str>, incognito| {
            let scope = CacheScope { name: name.map(Into::into), incognito, owner: None };
            let (sequence, _) = tests::sequence(Request { scope, ..Request::default() }, None, &tokenizer, 9);
            sequence.with_input(2)
        };
        let id = sequence(Some("key"), false).unencoded_input_id().expect("nothing is computed");
        let rows = InputRows::from([0.5; 4]);
        let scopes = [(Some("key"), false, true), (Some("key"), true, false), (None, false, false)];
        for (name, incognito, gets_rows) in scopes {
            let mut sequence = sequence(name, incognito);
            sequence.set_input_rows(&id, &rows);
            let found = sequence.unstored_input();
            assert_eq!(found, gets_rows.then(|| (0..1, rows.clone())), "{name:?}, incognito: {incognito}");
        }
        let other =
            InputId::new(input::keys(&[1, 1])[0], &CacheScope { name: Some("key".into()), ..CacheScope::default() });
        let mut sequence = sequence(Some("key"), false);
        sequence.set_input_rows(&other, &rows);
        assert_eq!(sequence.unstored_input(), None, "another input");
    }
}

//! Requests to an embedding model: texts in, one vector each out.

use cairn_models::Pooling;
use tokio::sync::oneshot;

use crate::client::Client;
use crate::model_use::ModelUse;
use crate::queue::QueuePlace;
use crate::request::GenerateError;

/// Token ids of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmbedText {
    /// The tokens, with those that begin and end a text.
    pub tokens: Vec<u32>,
    /// Index of the first token of the second text, for a pair.
    pub second_text: Option<usize>,
}

impl From<Vec<u32>> for EmbedText {
    fn from(tokens: Vec<u32>) -> Self {
        Self { tokens, second_text: None }
    }
}

/// A request that was sent to an embedder.
pub(crate) struct EmbedJob {
    pub(crate) texts: Vec<EmbedText>,
    /// Maximum number of tokens of a text.
    pub(crate) context_tokens: usize,
    pub(crate) client: Client,
    pub(crate) reply: oneshot::Sender<Result<Vec<Vec<f32>>, GenerateError>>,
    /// These end with the request.
    pub(crate) _model_use: ModelUse,
    pub(crate) _place: QueuePlace,
}

impl EmbedJob {
    /// Returns the error of a text that cannot be computed. A backend would reject the whole batch, and with it the
    /// texts of all other requests.
    pub(crate) fn check(&self, vocabulary: usize) -> Result<(), GenerateError> {
        for EmbedText { tokens, .. } in &self.texts {
            if tokens.is_empty() {
                return Err(GenerateError::EmptyPrompt);
            }
            if tokens.len() > self.context_tokens {
                let (prompt_tokens, context_tokens) = (tokens.len(), self.context_tokens);
                return Err(GenerateError::PromptTooLong { prompt_tokens, context_tokens });
            }
            if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocabulary) {
                return Err(GenerateError::UnknownToken { token, vocabulary });
            }
        }
        Ok(())
    }
}

/// Computes a text's vector from its output rows `[tokens, width]`. The rows are those that [`wants_row`] selects.
pub(crate) fn pool(pooling: Pooling, rows: &[f32], width: usize) -> Vec<f32> {
    match pooling {
        Pooling::First | Pooling::Last | Pooling::Rank => rows.to_vec(),
        Pooling::Mean => {
            let count = (rows.len() / width) as f64;
            let sum = |element: usize| rows.iter().skip(element).step_by(width).copied().map(f64::from).sum::<f64>();
            (0..width).map(|element| (sum(element) / count) as f32).collect()
        }
    }
}

/// Returns whether the output of a row is pooled.
pub(crate) fn wants_row(pooling: Pooling, row: usize, rows: usize) -> bool {
    match pooling {
        Pooling::Mean => true,
        Pooling::First | Pooling::Rank => row == 0,
        Pooling::Last => row + 1 == rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pooled_rows_depend_on_the_kind() {
        let rows = [[1.0, 10.0], [2.0, 20.0], [6.0, 60.0]];
        for (pooling, expected) in [
            (Pooling::Mean, [3.0, 30.0]),
            (Pooling::First, [1.0, 10.0]),
            (Pooling::Rank, [1.0, 10.0]),
            (Pooling::Last, [6.0, 60.0]),
        ] {
            let wanted: Vec<f32> = (0..3).filter(|&row| wants_row(pooling, row, 3)).flat_map(|row| rows[row]).collect();
            assert_eq!(pool(pooling, &wanted, 2), expected, "{pooling:?}");
        }
    }
}

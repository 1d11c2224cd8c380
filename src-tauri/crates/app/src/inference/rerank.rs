//! Rerank: orders documents by their relevance for a query.
//!
//! A cross-encoder scores each pair of query and document. With another embedding model, the score is the cosine of the
//! vectors of query and document.

use cairn_runtime::Pooling;

use super::embed::{EmbedInput, MAX_TEXTS, TextEncoder, encode_each, pooling, vectors};
use super::error::Error;
use super::handle::Inference;
use super::prompt_work::run_blocking;

/// Request for the order of documents.
#[derive(Debug, Clone, Default)]
pub struct Rerank {
    /// The model's name, as the client wrote it.
    pub model: String,
    /// The query.
    pub query: String,
    /// The documents.
    pub documents: Vec<String>,
    /// Most results; `None` for all.
    pub top: Option<usize>,
}

/// Documents by relevance.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ranking {
    /// The most relevant document first; documents of equal score in the order of the request.
    pub documents: Vec<RankedDocument>,
    /// Tokens of all texts, after they were cut.
    pub tokens: u64,
}

/// A document and its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankedDocument {
    /// Index of the document in the request.
    pub index: usize,
    /// Relevance: from 0 to 1 for a cross-encoder, and a cosine from -1 to 1 otherwise.
    pub score: f32,
}

impl Inference {
    /// Orders documents by their relevance for a query. Dropping the future cancels the request.
    ///
    /// # Errors
    /// If the model does not exist, cannot be loaded or has no vectors, or a text cannot be used.
    pub async fn rerank(&self, rerank: Rerank) -> Result<Ranking, Error> {
        let Rerank { model: name, query, documents, top } = rerank;
        // The query is a text, too.
        if documents.len() >= MAX_TEXTS {
            return Err(Error::TooManyTexts { count: documents.len(), max: MAX_TEXTS - 1 });
        }
        let model = self.library.find(&name)?;
        let chosen = self.chosen(&model, None)?;
        let lease = self.lease(&model, &chosen, false, None).await?;
        let (scores, tokens) = match pooling(&lease, &name)? {
            Pooling::Rank => {
                let encoder = TextEncoder::new(&lease, false);
                let pairs = run_blocking::<_, Error>(move || Ok(encoder.pairs(&query))).await?;
                let pairs = encode_each(documents, move |document| pairs.encode(&document)).await?;
                let tokens = pairs.iter().map(|pair| pair.tokens.len() as u64).sum();
                let scores = lease.embed(pairs).await?;
                (scores.into_iter().map(|score| sigmoid(&score)).collect::<Result<Vec<f32>, _>>()?, tokens)
            }
            Pooling::Mean | Pooling::First | Pooling::Last => {
                let texts = EmbedInput::Texts([vec![query], documents].concat());
                // A second lease could wait for the end of this one while the model is drained.
                let (vectors, tokens) = vectors(&lease, texts, false, None).await?;
                let (query, documents) = vectors.split_first().expect("a vector for each text");
                (documents.iter().map(|document| cosine(query, document)).collect(), tokens)
            }
        };
        let mut documents: Vec<RankedDocument> =
            scores.into_iter().enumerate().map(|(index, score)| RankedDocument { index, score }).collect();
        documents.sort_by(|a, b| b.score.total_cmp(&a.score));
        documents.truncate(top.unwrap_or(usize::MAX));
        Ok(Ranking { documents, tokens })
    }
}

/// Maps the score of a cross-encoder, which is a logit, to a probability.
fn sigmoid(score: &[f32]) -> Result<f32, Error> {
    match score {
        [score] if score.is_finite() => Ok((1.0 / (1.0 + (-f64::from(*score)).exp())) as f32),
        _ => Err(Error::EmbeddingNotFinite),
    }
}

/// The cosine of two vectors of length 1.
fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>() as f32
}

#[cfg(test)]
mod tests {
    use super::super::embed::normalise;
    use super::*;

    #[test]
    fn scores_are_probabilities_or_cosines() {
        assert_eq!(sigmoid(&[0.0]).expect("a number"), 0.5);
        assert!(sigmoid(&[9.0]).expect("a number") > 0.99 && sigmoid(&[-200.0]).expect("a number") >= 0.0);
        assert!(sigmoid(&[f32::NAN]).is_err(), "not a number");
        let unit = |vector: &[f32]| normalise(vector.to_vec(), None).expect("finite numbers");
        assert!((cosine(&unit(&[1.0, 1.0]), &unit(&[2.0, 0.0])) - 0.5f32.sqrt()).abs() < 1e-6, "45 degrees");
    }
}

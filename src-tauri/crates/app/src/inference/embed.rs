//! Embeddings: the vector of each text, normalised to length 1.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_runtime::{EmbedText, Lease, Pooling};
use cairn_tokenizer::{EncodeOptions, Tokenizer};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::error::Error;
use super::handle::Inference;
use super::prompt_work::run_blocking;
use crate::values::KeepAlive;

/// Most texts of one request, as in OpenAI's API. Their vectors are in memory together.
pub const MAX_TEXTS: usize = 2048;

/// Request for the vectors of texts.
#[derive(Debug, Clone, Default)]
pub struct Embed {
    /// The model's name, as the client wrote it.
    pub model: String,
    /// The texts; empty to load or unload the model.
    pub input: EmbedInput,
    /// Refuse a text that does not fit, instead of cutting it.
    pub whole: bool,
    /// Elements of each vector; `None` for all. The others are cut, and the rest is normalised again.
    pub dimensions: Option<usize>,
    /// Options of this request.
    pub options: Option<Map<String, Value>>,
    /// How long the model stays loaded afterwards; `None` for the time of an earlier request, or else that of the settings.
    pub keep_alive: Option<KeepAlive>,
}

/// Texts of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EmbedInput {
    /// Texts.
    Texts(Vec<String>),
    /// Token ids of texts, with those that begin and end a text.
    Tokens(Vec<Vec<u32>>),
}

impl Default for EmbedInput {
    fn default() -> Self {
        Self::Texts(Vec::new())
    }
}

impl EmbedInput {
    fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Tokens(texts) => texts.len(),
        }
    }
}

/// Vectors of texts, in the order of the request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Embeddings {
    /// A vector for each text.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens of all texts, after they were cut.
    pub tokens: u64,
    /// Time that the model took to load.
    pub load: Duration,
    /// Time of the whole request.
    pub total: Duration,
}

impl Inference {
    /// Computes the vectors of texts. Dropping the future cancels the request.
    ///
    /// # Errors
    /// If the model does not exist, cannot be loaded or has no vectors, or a text cannot be used.
    pub async fn embed(&self, embed: Embed) -> Result<Embeddings, Error> {
        let started_at = Instant::now();
        let count = embed.input.len();
        if count > MAX_TEXTS {
            return Err(Error::TooManyTexts { count, max: MAX_TEXTS });
        }
        let model = self.library.find(&embed.model)?;
        let chosen = self.chosen(&model, embed.options.as_ref())?;
        if count == 0 {
            let load = self.load_time(&model, &chosen, embed.keep_alive).await?;
            return Ok(Embeddings { load, total: started_at.elapsed(), ..Embeddings::default() });
        }
        let lease = self.lease(&model, &chosen, false, embed.keep_alive).await?;
        match pooling(&lease, &embed.model)? {
            Pooling::Rank => return Err(Error::ScoresPairs(embed.model)),
            Pooling::Mean | Pooling::First | Pooling::Last => {}
        }
        let (vectors, tokens) = vectors(&lease, embed.input, embed.whole, embed.dimensions).await?;
        Ok(Embeddings { vectors, tokens, load: Duration::from_nanos(lease.load_ns()), total: started_at.elapsed() })
    }
}

/// A sentence in Chinese.
const DENSE_SAMPLE: &str = "今天我们讨论数据库的备份策略，以及恢复所需的时间和存储费用。";
/// Least percentage of its characters that a tokenizer preserves if the model was trained for such scripts.
const MIN_PRESERVED_PERCENT: usize = 80;
/// Most tokens of three characters. A tokenizer that was not trained for the script divides each character into bytes.
const MAX_TOKENS_OF_THREE: usize = 4;

impl Inference {
    /// Returns whether a model was trained for scripts without spaces, for example Chinese, by its tokenizer. Loads the model.
    ///
    /// # Errors
    /// If the model does not exist or cannot be loaded.
    pub(crate) async fn reads_dense(&self, model: &str) -> Result<bool, Error> {
        let model = self.library.find(model)?;
        let lease = self.lease(&model, &self.chosen(&model, None)?, false, None).await?;
        Ok(reads_dense(lease.tokenizer()))
    }
}

fn reads_dense(tokenizer: &Tokenizer) -> bool {
    let tokens = tokenizer.encode(DENSE_SAMPLE, EncodeOptions { add_special: false, parse_special: false });
    let decoded = tokenizer.decode(&tokens);
    let chars = DENSE_SAMPLE.chars().count();
    let preserved = DENSE_SAMPLE.chars().filter(|&c| decoded.contains(c)).count();
    preserved * 100 >= chars * MIN_PRESERVED_PERCENT && tokens.len() * 3 <= chars * MAX_TOKENS_OF_THREE
}

/// Computes the normalised vectors of texts with one lease. Returns them and the number of tokens.
pub(super) async fn vectors(
    lease: &Lease,
    input: EmbedInput,
    whole: bool,
    dimensions: Option<usize>,
) -> Result<(Vec<Vec<f32>>, u64), Error> {
    let encoder = TextEncoder::new(lease, whole);
    let texts = match input {
        EmbedInput::Texts(texts) => encode_each(texts, move |text| encoder.encode(&text)).await?,
        EmbedInput::Tokens(texts) => encode_each(texts, move |tokens| encoder.check(tokens)).await?,
    };
    let tokens = texts.iter().map(|text| text.len() as u64).sum();
    let vectors = lease.embed(texts.into_iter().map(EmbedText::from).collect()).await?;
    let dimensions = dimensions.filter(|dimensions| *dimensions > 0);
    let vectors = vectors.into_iter().map(|vector| normalise(vector, dimensions)).collect::<Result<_, _>>()?;
    Ok((vectors, tokens))
}

/// Encodes texts outside of the async tasks. The work ends early if the future is dropped.
pub(super) async fn encode_each<T: Send + 'static, U: Send + 'static>(
    texts: Vec<T>,
    encode: impl Fn(T) -> Result<U, Error> + Send + 'static,
) -> Result<Vec<U>, Error> {
    // The receiver is dropped with this future.
    let (request, _receiver) = oneshot::channel::<()>();
    let encode = move |text| if request.is_closed() { Err(Error::EngineGone) } else { encode(text) };
    run_blocking(move || texts.into_iter().map(encode).collect()).await
}

/// Returns how a model pools rows.
///
/// # Errors
/// If it is not an embedding model.
pub(super) fn pooling(lease: &Lease, model: &str) -> Result<Pooling, Error> {
    let output = lease.hparams().embedding.ok_or_else(|| Error::NoEmbeddings(model.to_owned()))?;
    Ok(output.pooling)
}

/// Encoder of texts for one loaded model.
pub(super) struct TextEncoder {
    tokenizer: Arc<Tokenizer>,
    max_tokens: usize,
    whole: bool,
    /// Tokens that begin and end a text.
    begin: Vec<u32>,
    end: Vec<u32>,
}

impl TextEncoder {
    pub(super) fn new(lease: &Lease, whole: bool) -> Self {
        let tokenizer = Arc::clone(lease.tokenizer());
        let around = tokenizer.encode("", EncodeOptions { add_special: true, parse_special: false });
        let begins = usize::from(tokenizer.adds_bos()).min(around.len());
        let (begin, end) = around.split_at(begins);
        let (begin, end) = (begin.to_vec(), end.to_vec());
        Self { tokenizer, max_tokens: lease.context_tokens() as usize, whole, begin, end }
    }

    /// Encodes a text that fits, or the beginning of one that does not.
    fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        let content = self.content(text);
        let around = self.begin.len() + self.end.len();
        let Some(room) = self.max_tokens.checked_sub(around) else {
            return Err(Error::InputTooLong { tokens: around + content.len(), max_tokens: self.max_tokens });
        };
        let tokens = [&self.begin[..], &content[..self.cut(content.len(), room)?], &self.end].concat();
        if tokens.is_empty() { Err(Error::EmptyTokens) } else { Ok(tokens) }
    }

    /// Returns the encoder of pairs with this first text, which is encoded once. A second text is cut if both do not fit.
    pub(super) fn pairs(self, first: &str) -> PairEncoder {
        let mut tokens = [&self.begin[..], &self.content(first), &self.end].concat();
        // Models with EOS at the end of a text, such as those of RoBERTa's structure, have it twice between two texts.
        if self.end.last().is_some_and(|&token| self.tokenizer.eos() == Some(token)) {
            tokens.extend_from_slice(&self.end);
        }
        PairEncoder { texts: self, first: tokens }
    }

    /// Checks the token ids of a client.
    fn check(&self, mut tokens: Vec<u32>) -> Result<Vec<u32>, Error> {
        let vocabulary = self.tokenizer.vocab_size();
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocabulary) {
            return Err(Error::ForeignInput(token));
        }
        if tokens.is_empty() {
            return Err(Error::EmptyTokens);
        }
        tokens.truncate(self.cut(tokens.len(), self.max_tokens)?);
        Ok(tokens)
    }

    /// Encodes a text without the tokens that begin and end it.
    fn content(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode(text, EncodeOptions { add_special: false, parse_special: false })
    }

    /// Returns the number of tokens to use.
    fn cut(&self, tokens: usize, room: usize) -> Result<usize, Error> {
        match tokens > room {
            true if self.whole => Err(Error::InputTooLong { tokens, max_tokens: room }),
            true => Ok(room),
            false => Ok(tokens),
        }
    }
}

/// Encoder of pairs of texts with the same first text.
pub(super) struct PairEncoder {
    texts: TextEncoder,
    /// Tokens of the first text, with those that begin and end it.
    first: Vec<u32>,
}

impl PairEncoder {
    pub(super) fn encode(&self, second: &str) -> Result<EmbedText, Error> {
        let Self { texts, first } = self;
        let Some(room) = texts.max_tokens.checked_sub(first.len() + texts.end.len()) else {
            return Err(Error::InputTooLong { tokens: first.len(), max_tokens: texts.max_tokens });
        };
        let second = texts.content(second);
        let tokens = [&first[..], &second[..texts.cut(second.len(), room)?], &texts.end].concat();
        if tokens.is_empty() {
            return Err(Error::EmptyTokens);
        }
        Ok(EmbedText { tokens, second_text: Some(first.len()) })
    }
}

/// Scales a vector to length 1. Cuts it before, if it has more elements than requested: models that were trained for it
/// have the most important elements first (Kusupati et al., arXiv 2205.13147).
pub(super) fn normalise(mut vector: Vec<f32>, dimensions: Option<usize>) -> Result<Vec<f32>, Error> {
    vector.truncate(dimensions.unwrap_or(vector.len()));
    let square: f64 = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    if !square.is_finite() {
        return Err(Error::EmbeddingNotFinite);
    }
    let length = square.sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
    }
    Ok(vector)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_cut_and_have_length_one() {
        let check = |vector: &[f32], dimensions, expected: &[f32]| {
            let found = normalise(vector.to_vec(), dimensions).expect("finite numbers");
            let is_near = |(found, expected): (&f32, &f32)| (found - expected).abs() <= f32::EPSILON;
            assert!(found.len() == expected.len() && found.iter().zip(expected).all(is_near), "{vector:?}: {found:?}");
        };
        check(&[3.0, 4.0], None, &[0.6, 0.8]);
        check(&[3.0, 4.0, 12.0], Some(2), &[0.6, 0.8]);
        check(&[3.0, 4.0], Some(5), &[0.6, 0.8]);
        check(&[0.0, 0.0], None, &[0.0, 0.0]);
        check(&[3e30, 4e30], None, &[0.6, 0.8]);
        for bad in [f32::NAN, f32::INFINITY] {
            let error = normalise(vec![1.0, bad], None).expect_err("not a number").to_string();
            assert_eq!(error, "embedding contains NaN or Inf values", "{bad}");
        }
    }
    #[tokio::test]
    async fn encoding_ends_when_the_request_is_cancelled() {
        let (encoded, texts) = std::sync::mpsc::channel();
        let encode = move |text: u32| {
            std::thread::sleep(Duration::from_millis(1));
            encoded.send(text).map_err(|_| Error::EngineGone)
        };
        let request = encode_each((0..10_000).collect(), encode);
        assert!(tokio::time::timeout(Duration::from_millis(20), request).await.is_err(), "it takes ten seconds");
        // The sender is dropped when the work ends.
        assert!(texts.iter().count() < 10_000, "the other texts are not encoded");
    }
}

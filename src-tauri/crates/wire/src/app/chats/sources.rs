//! Passages of documents that the daemon gives the model with a question.

use serde::{Deserialize, Serialize};

use super::stored_error;
use crate::ErrorBody;
use crate::app::collections::{CollectionHit, WordsOnly};

/// Result of the search for a question in the collection of its chat. The passages precede the question in the prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sources {
    /// Id of the collection.
    pub collection: String,
    /// Name of the collection at the time of the search; empty if it could not be read.
    #[serde(default)]
    pub name: String,
    /// Number of the first passage in the prompt. The numbers continue those of earlier questions of the branch.
    #[serde(default = "one")]
    pub first: u32,
    /// Passages, best first.
    #[serde(default)]
    pub hits: Vec<CollectionHit>,
    /// Why the search used words only; absent if it used meaning too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words_only: Option<WordsOnly>,
    /// Why the search failed. The question was then sent without passages.
    #[serde(default, deserialize_with = "stored_error::read", skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorBody>,
}

fn one() -> u32 {
    1
}

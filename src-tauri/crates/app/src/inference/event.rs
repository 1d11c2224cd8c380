//! Events of an answer.

use cairn_prompt::Delta;
use cairn_runtime::Logprob;

use super::error::Error;
use crate::values::Usage;

/// Event of an answer.
#[derive(Debug)]
pub enum Event {
    /// Text of the answer or of the thinking before it, or a tool call, and log probabilities of the tokens since the delta before, if
    /// requested.
    Delta(Delta, Vec<Logprob>),
    /// The answer is complete; the last event.
    Finish(Finish),
    /// The answer is incomplete; the last event.
    Failed(Error),
}

/// End of an answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Finish {
    /// The usage.
    pub usage: Usage,
    /// Token ids of the prompt and the answer, if requested.
    pub context: Option<Vec<u32>>,
    /// Log probabilities of the tokens after the last delta.
    pub logprobs: Vec<Logprob>,
    /// The stop string that ended the answer.
    pub stop: Option<String>,
    /// Tokens of the answer up to the end of its thinking.
    pub thinking_tokens: u64,
    /// Options of the request that had no effect.
    pub ignored_options: Vec<String>,
}

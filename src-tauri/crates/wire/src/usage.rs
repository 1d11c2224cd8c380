//! Usage of one answer: token counts, times, and the tokens that were dropped because the context was full.
//!
//! It is stored with each answer, so the names in JSON never change, and absent fields have defaults.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

/// Token counts and times of one answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens of the prompt, including cached ones.
    pub prompt_tokens: u64,
    /// Prompt tokens that were found in the cache: restored from tiers, or in pages of the loaded model.
    pub cached_tokens: u64,
    /// Cached tokens that were restored from the RAM tier.
    pub ram_tokens: u64,
    /// Cached tokens that were restored from the SSD tier.
    pub ssd_tokens: u64,
    /// Cached tokens that were restored from the remote tier.
    pub remote_tokens: u64,
    /// Time of the restores (JSON: milliseconds).
    #[serde(rename = "restore_ms", with = "millis")]
    pub restore: Duration,
    /// Estimated time to compute the restored tokens (JSON: milliseconds).
    #[serde(rename = "instead_of_ms", with = "millis")]
    pub recompute_estimate: Duration,
    /// Why most of the prompt was computed again: a reason of `POST /app/cache/trace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recomputed: Option<String>,
    /// Time to load the model (JSON: milliseconds).
    #[serde(rename = "load_ms", with = "millis")]
    pub load: Duration,
    /// Time to compute the prompt tokens that were not cached (JSON: milliseconds).
    #[serde(rename = "prompt_ms", with = "millis")]
    pub prompt: Duration,
    /// Time from the request to the first delta (JSON: milliseconds).
    #[serde(rename = "first_token_ms", with = "millis")]
    pub first_token: Duration,
    /// Tokens of the answer, including thinking.
    pub answer_tokens: u64,
    /// Time to compute the answer (JSON: nanoseconds).
    #[serde(rename = "answer_ns", with = "nanos")]
    pub answer: Duration,
    /// Time from the request to the last token (JSON: milliseconds).
    #[serde(rename = "total_ms", with = "millis")]
    pub total: Duration,
    /// Whether the answer reached its token limit.
    pub length_reached: bool,
    /// Dropped tokens and messages, if the context was full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncated>,
}

impl Usage {
    /// Returns the usage of an answer in two steps, as if it were computed at once: the prompt of the second step has the prompt and
    /// the text of the first one. So `prompt_tokens` and `answer_tokens` together are the context in use, and the difference of
    /// `prompt_tokens` and `cached_tokens` are all computed prompt tokens.
    #[must_use]
    pub fn followed_by(self, next: Self) -> Self {
        let prompt_tokens = next.prompt_tokens.saturating_sub(self.answer_tokens);
        let computed = |usage: &Self| usage.prompt_tokens.saturating_sub(usage.cached_tokens);
        let cached_tokens = prompt_tokens.saturating_sub(computed(&self) + computed(&next));
        Self {
            prompt_tokens,
            cached_tokens,
            ram_tokens: self.ram_tokens + next.ram_tokens,
            ssd_tokens: self.ssd_tokens + next.ssd_tokens,
            remote_tokens: self.remote_tokens + next.remote_tokens,
            restore: self.restore + next.restore,
            recompute_estimate: self.recompute_estimate + next.recompute_estimate,
            recomputed: self.recomputed.or(next.recomputed),
            load: self.load + next.load,
            prompt: self.prompt + next.prompt,
            first_token: self.first_token,
            answer_tokens: self.answer_tokens + next.answer_tokens,
            answer: self.answer + next.answer,
            total: self.total + next.total,
            length_reached: next.length_reached,
            // The prompt of the second step was shortened from the whole conversation.
            truncated: next.truncated.or(self.truncated),
        }
    }
}

/// Tokens and messages that were dropped from a prompt or from an answer's context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncated {
    /// When tokens were last dropped.
    #[serde(alias = "while_answering", deserialize_with = "overflow")]
    pub reason: Overflow,
    /// Number of dropped turns: a question and all messages before the next question.
    #[serde(default)]
    pub turns: u64,
    /// Number of messages in these turns.
    #[serde(default)]
    pub messages: u64,
    /// All dropped tokens.
    pub tokens: u64,
    /// Tokens dropped from the middle of remaining messages. They are included in `tokens`.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub cut_tokens: u64,
    /// Number of dropped images, in dropped turns or in cut messages. The model does not see them.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub images: u32,
    /// Size of the context.
    pub context_tokens: u64,
}

/// When the context was full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// Before the answer.
    PromptTooLong,
    /// While the answer was being computed.
    ContextFull,
}

impl Truncated {
    /// Creates an empty value: nothing was dropped.
    #[must_use]
    pub fn empty(reason: Overflow, context_tokens: u64) -> Self {
        Self { reason, turns: 0, messages: 0, tokens: 0, cut_tokens: 0, images: 0, context_tokens }
    }

    /// Adds the counts of both. The reason and the context size are those of `second`, which happened later.
    #[must_use]
    pub fn merge(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        let (Some(first), Some(second)) = (first, second) else { return first.or(second) };
        Some(Self {
            turns: first.turns + second.turns,
            messages: first.messages + second.messages,
            tokens: first.tokens + second.tokens,
            cut_tokens: first.cut_tokens + second.cut_tokens,
            images: first.images.saturating_add(second.images),
            ..second
        })
    }
}

/// Reads a reason, or the flag `while_answering` that older versions stored instead.
fn overflow<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Overflow, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Reason(Overflow),
        WhileAnswering(bool),
    }
    Ok(match Stored::deserialize(deserializer)? {
        Stored::Reason(reason) => reason,
        Stored::WhileAnswering(true) => Overflow::ContextFull,
        Stored::WhileAnswering(false) => Overflow::PromptTooLong,
    })
}

/// Durations as milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

/// Durations as nanoseconds.
mod nanos {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_of_older_versions_can_be_read() {
        let stored = r#"{"prompt_tokens":3411,"cached_tokens":300,"ram_tokens":44,"ssd_tokens":256,"remote_tokens":0,
            "restore_ms":180,"instead_of_ms":11000,"recomputed":null,"load_ms":7,"first_token_ms":260,
            "answer_tokens":214,"answer_ns":4500000001,"length_reached":true,
            "truncated":{"while_answering":true,"turns":2,"messages":4,"tokens":812,"cut_tokens":0,
            "context_tokens":4096}}"#;
        let usage: Usage = serde_json::from_str(stored).expect("the usage parses");
        let expected = Usage {
            prompt_tokens: 3411,
            cached_tokens: 300,
            ram_tokens: 44,
            ssd_tokens: 256,
            restore: Duration::from_millis(180),
            recompute_estimate: Duration::from_secs(11),
            load: Duration::from_millis(7),
            first_token: Duration::from_millis(260),
            answer_tokens: 214,
            answer: Duration::from_nanos(4_500_000_001),
            length_reached: true,
            truncated: Some(Truncated {
                turns: 2,
                messages: 4,
                tokens: 812,
                ..Truncated::empty(Overflow::ContextFull, 4096)
            }),
            ..Usage::default()
        };
        assert_eq!(usage, expected, "a row of the database");
        let json = serde_json::to_string(&usage).expect("the usage serialises");
        assert!(json.contains(r#""reason":"context_full""#), "{json}");
        assert_eq!(serde_json::from_str::<Usage>(&json).expect("the usage parses"), usage, "{json}");
        let before = json.replace(r#""reason":"context_full""#, r#""while_answering":false"#);
        let before: Usage = serde_json::from_str(&before).expect("the usage parses");
        assert_eq!(before.truncated.map(|truncated| truncated.reason), Some(Overflow::PromptTooLong), "{before:?}");
        assert_eq!(serde_json::from_str::<Usage>("{}").expect("the usage parses"), Usage::default(), "no fields");
    }

    #[test]
    fn usage_of_two_steps_is_that_of_one_answer() {
        let step = |prompt_tokens: u64, cached_tokens: u64, answer_tokens: u64| Usage {
            prompt_tokens,
            cached_tokens,
            answer_tokens,
            first_token: Duration::from_millis(prompt_tokens),
            answer: Duration::from_millis(answer_tokens),
            ..Usage::default()
        };
        // A prompt of 100 tokens, a call of 20, and its result of 50.
        let whole = step(100, 60, 20).followed_by(step(170, 119, 30));
        assert_eq!(whole.prompt_tokens + whole.answer_tokens, 170 + 30, "the context in use");
        assert_eq!(whole.prompt_tokens - whole.cached_tokens, 40 + 51, "computed prompt tokens of both");
        assert_eq!((whole.answer_tokens, whole.answer), (50, Duration::from_millis(50)), "the speed of both");
        assert_eq!(whole.first_token, Duration::from_millis(100), "of the first step");
        let dropped = step(100, 0, 20).followed_by(step(10, 0, 1));
        assert_eq!((dropped.prompt_tokens, dropped.cached_tokens), (0, 0), "the context was full");
    }

    #[test]
    fn truncations_add_up_over_an_answer() {
        let some = |reason, turns: u64, cut_tokens: u64| {
            Some(Truncated {
                turns,
                messages: 2 * turns,
                tokens: 100,
                cut_tokens,
                images: turns as u32,
                ..Truncated::empty(reason, 512)
            })
        };
        let (first, second) = (some(Overflow::PromptTooLong, 3, 7), some(Overflow::ContextFull, 1, 0));
        let expected = Truncated {
            reason: Overflow::ContextFull,
            turns: 4,
            messages: 8,
            tokens: 200,
            cut_tokens: 7,
            images: 4,
            context_tokens: 512,
        };
        assert_eq!(Truncated::merge(first, second), Some(expected), "the sum has the last reason");
        assert_eq!(Truncated::merge(first, None), first, "only the first");
        assert_eq!(Truncated::merge(None, second), second, "only the second");
    }
}

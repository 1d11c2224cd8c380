//! Inference: from a request to a stream of answer events.
//!
//! [`Inference`] is the handle. It resolves and loads the model, renders a prompt that fits the context, and separates
//! thinking from the answer. With an embedding model, it computes the vectors of texts. Prompts and answers are never
//! logged.

mod answer;
mod chat;
mod conversation;
mod embed;
mod error;
mod event;
mod fit;
mod generate;
mod handle;
mod load;
mod local_answer;
mod location;
mod options;
mod overflow;
mod pictures;
mod prompt_work;
mod relay;
mod remote;
mod remote_answer;
mod rerank;
mod tool_use;
mod trace;

pub use answer::Answer;
pub use chat::Chat;
pub use conversation::AnswerPrefix;
pub use embed::{Embed, EmbedInput, Embeddings, MAX_TEXTS};
pub use error::Error;
pub use event::{Event, Finish};
pub use generate::Generate;
pub use handle::Inference;
pub use load::Reply;
pub use relay::{Relay, RelayFrame};
pub use rerank::{RankedDocument, Ranking, Rerank};
pub use tool_use::ToolUse;
pub use trace::{TracePrompt, Traced};

pub use cairn_grammar::{Constraint, Error as FormatError, Part};
pub use cairn_prompt::{Delta, Error as TemplateError, Image, Message, ToolCall};
pub use cairn_runtime::{CacheScope, Client, Displaced, GenerateError, Logprob, PictureError, Priority, TokenLogprob};
pub use cairn_upstream::{CallError, Endpoint, Failure, TranslationError};
pub(crate) use load::{engine_keep_alive, kv_type};
pub(crate) use prompt_work::{run_blocking, run_to_end};

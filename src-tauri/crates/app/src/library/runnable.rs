//! Whether this version can run a model, by the beginning of its file. A model that cannot run is thus refused before its
//! tensors are downloaded.

use cairn_gguf::{Error as GgufError, Gguf};

use super::handle::ModelLibrary;
use super::template;

/// Result of a check of the beginning of a model file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeadCheck {
    /// The model can run.
    Runs {
        /// Memory for weights, activations and a KV cache of the default context size.
        need_bytes: u64,
        /// Memory of this machine that models can use.
        memory_bytes: u64,
        /// Whether chats can use the file's own template, or need none.
        has_template: bool,
    },
    /// The head is longer: it has at least this many bytes.
    Longer(u64),
    /// The file is damaged, or of a format that this version cannot read.
    Unreadable(String),
    /// This version cannot run the model, for this reason.
    Unsupported(String),
}

impl ModelLibrary {
    /// Checks a model by `bytes`, the beginning of its file of `file_bytes` bytes.
    pub(crate) fn check_head(&self, bytes: &[u8], file_bytes: u64) -> HeadCheck {
        let gguf = match Gguf::parse_header(bytes, file_bytes) {
            Ok(gguf) => gguf,
            Err(error @ GgufError::Truncated { offset, need, .. }) => {
                let head_bytes = offset.saturating_add(need);
                return match head_bytes > file_bytes {
                    true => HeadCheck::Unreadable(error.to_string()),
                    false => HeadCheck::Longer(head_bytes),
                };
            }
            Err(error) => return HeadCheck::Unreadable(error.to_string()),
        };
        let has_template = template::is_in_file(&gguf);
        match self.engine.check_head(gguf) {
            Ok(need_bytes) => HeadCheck::Runs { need_bytes, memory_bytes: self.engine.memory_bytes(), has_template },
            Err(error) => HeadCheck::Unsupported(match error.unknown_architecture() {
                Some(name) => format!("architecture {name}"),
                None => error.to_string(),
            }),
        }
    }
}

//! Errors of opening, loading and using a model file.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::PathBuf;

use cairn_gguf::DType;
use cairn_tensor::BackendError;

/// Reasons why a model file cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file does not exist.
    #[error("{}: no such file", .path.display())]
    Missing {
        /// The path as given.
        path: PathBuf,
    },
    /// The path is a directory.
    #[error("{}: is a directory; a model is one GGUF file", .path.display())]
    Directory {
        /// The path as given.
        path: PathBuf,
    },
    /// The path is a pipe, a device or a socket, which cannot be mapped.
    #[error("{}: is not a regular file", .path.display())]
    NotAFile {
        /// The path as given.
        path: PathBuf,
    },
    /// The file is empty.
    #[error("{}: the file is empty", .path.display())]
    Empty {
        /// The path as given.
        path: PathBuf,
    },
    /// The system returned an error.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The path as given.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not valid GGUF.
    #[error("{}: {source}", .path.display())]
    Gguf {
        /// The path as given.
        path: PathBuf,
        /// The error and its position.
        source: cairn_gguf::Error,
    },
    /// The list of files is empty.
    #[error("no files are given")]
    NoFiles,
    /// The files are not all parts of one model.
    #[error("{}: {source}", .path.display())]
    Split {
        /// The path as given.
        path: PathBuf,
        /// The inconsistency.
        source: Box<cairn_gguf::split::SplitError>,
    },
    /// The file has Ollama's layout and cannot be translated.
    #[error("{}: {source}", .path.display())]
    Layout {
        /// The path as given.
        path: PathBuf,
        /// The fault.
        source: Box<LoadError>,
    },
    /// The file changed while it was read.
    #[error(transparent)]
    FileChanged(#[from] FileChangedError),
}

/// A model file changed after it was opened. Results since the last successful check may be wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: model file changed or vanished: {reason}", .path.display())]
pub struct FileChangedError {
    /// The path that was opened.
    pub path: PathBuf,
    /// The detected change.
    pub reason: String,
}

/// Reasons why a model cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A metadata key is missing or has a wrong type.
    #[error(transparent)]
    Metadata(#[from] cairn_gguf::Error),
    /// The model family is not supported.
    #[error("{} is not supported; supported are {}", architecture_text(.name, *.model), .supported.join(", "))]
    UnknownArchitecture {
        /// `general.architecture`.
        name: String,
        /// Name of the models with this architecture, if Ollama's library has some.
        model: Option<&'static str>,
        /// All supported names.
        supported: Vec<&'static str>,
    },
    /// A metadata value is invalid for the family.
    #[error("metadata key `{key}`: {why}")]
    Key {
        /// The key.
        key: String,
        /// Why the value is invalid.
        why: String,
    },
    /// A number in a tensor is invalid for the family.
    #[error("tensor `{tensor}`: {why}")]
    Value {
        /// Name of the tensor.
        tensor: String,
        /// Why the number is invalid.
        why: String,
    },
    /// The model needs an unsupported feature.
    #[error("{what} is not supported")]
    Unsupported {
        /// The feature.
        what: String,
    },
    /// A vision tower of another model.
    #[error(
        "the vision tower has rows of {tower} elements, and the model has rows of {model}: it is the tower of another model"
    )]
    TowerWidth {
        /// Elements of an output row of the tower.
        tower: usize,
        /// Elements of an embedding row of the model.
        model: usize,
    },
    /// Tensors are missing or have another shape or type than the metadata says.
    #[error("{}", faults_text(.faults))]
    Tensors {
        /// All faults.
        faults: Vec<TensorFault>,
    },
    /// The head of a file in Ollama's layout cannot be translated.
    #[error("a file in Ollama's layout of {model}: {source}")]
    Layout {
        /// The models with this layout.
        model: &'static str,
        /// The fault.
        source: Box<LoadError>,
    },
    /// An adapter does not fit the model.
    #[error(transparent)]
    Adapter(#[from] crate::adapter_error::AdapterError),
    /// The backend rejected a weight or the plan.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The file changed while it was loaded.
    #[error(transparent)]
    FileChanged(#[from] FileChangedError),
}

/// Fault of one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TensorFault {
    /// The tensor is missing.
    Missing {
        /// The name.
        name: String,
    },
    /// The tensor has a wrong shape.
    Shape {
        /// The name.
        name: String,
        /// Dimensions required by the metadata, row length first.
        need: Vec<u64>,
        /// Dimensions in the file.
        have: Vec<u64>,
    },
    /// The tensor has a type that is not allowed for weights.
    DType {
        /// The name.
        name: String,
        /// Type of the tensor.
        dtype: DType,
    },
}

impl TensorFault {
    fn name(&self) -> &str {
        let (Self::Missing { name } | Self::Shape { name, .. } | Self::DType { name, .. }) = self;
        name
    }

    /// Describes the fault without the name. `is` is `are` for several tensors.
    fn describe(&self, is: &str) -> String {
        match self {
            Self::Missing { .. } => format!("{is} missing"),
            Self::Shape { need, have, .. } => format!("must be {need:?}, {is} {have:?}"),
            Self::DType { dtype, .. } => format!("{is} {dtype}, which no weight can be"),
        }
    }
}

impl fmt::Display for TensorFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.name().escape_debug(), self.describe("is"))
    }
}

/// Maximum number of listed faults: more than all tensors of a block.
const MAX_ENTRIES: usize = 64;

/// Names an architecture, with the models that have it.
fn architecture_text(name: &str, model: Option<&str>) -> String {
    match model {
        Some(model) => format!("{model} (architecture `{name}`)"),
        None => format!("architecture `{name}`"),
    }
}

/// Splits the name of a block's tensor into block number and name within the block.
pub(crate) fn in_block(name: &str) -> Option<(u64, &str)> {
    let (block, name) = name.strip_prefix("blk.")?.split_once('.')?;
    Some((block.parse().ok()?, name))
}

/// Splits the name of a tensor into what precedes the number of its block, the number, and the rest.
fn around_block(name: &str) -> Option<(&str, u64, &str)> {
    const BLOCKS: &str = "blk.";
    let (prefix, rest) = name.split_at(name.find(BLOCKS)? + BLOCKS.len());
    let (block, rest) = rest.split_once('.')?;
    Some((prefix, block.parse().ok()?, rest))
}

/// Lists faults. A file may lack tens of thousands of tensors, so equal faults in consecutive blocks are one entry:
/// `blk.3-4095.attn_k.weight`. Blocks of some families alternate, so the number of entries has a limit, too.
fn faults_text(faults: &[TensorFault]) -> String {
    // Fault, first and last block of its run.
    let mut entries: Vec<(&TensorFault, Option<(u64, u64)>)> = Vec::new();
    // Latest entry by name without the block's number, and description.
    let mut latest: HashMap<(&str, &str, String), usize> = HashMap::new();
    for fault in faults {
        let Some((prefix, block, name)) = around_block(fault.name()) else {
            entries.push((fault, None));
            continue;
        };
        let at = latest.entry((prefix, name, fault.describe("is"))).or_insert(entries.len());
        match entries.get_mut(*at) {
            Some((_, Some((_, last)))) if last.checked_add(1) == Some(block) => *last = block,
            _ => {
                *at = entries.len();
                entries.push((fault, Some((block, block))));
            }
        }
    }
    let text = |&(fault, blocks): &(&TensorFault, Option<(u64, u64)>)| match (blocks, around_block(fault.name())) {
        (Some((first, last)), Some((prefix, _, name))) if first < last => {
            let (prefix, name) = (prefix.escape_debug(), name.escape_debug());
            format!("`{prefix}{first}-{last}.{name}` {}", fault.describe("are"))
        }
        _ => fault.to_string(),
    };
    let mut list: Vec<String> = entries.iter().take(MAX_ENTRIES).map(text).collect();
    let more = entries.len() - list.len();
    if more > 0 {
        list.push(format!("{more} more"));
    }
    let count = faults.len();
    format!("{count} tensor{} not fit the model: {}", if count == 1 { " does" } else { "s do" }, list.join("; "))
}

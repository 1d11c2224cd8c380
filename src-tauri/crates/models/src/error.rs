//! Why a file is not opened, a model not loaded, and a loaded one given up.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::PathBuf;

use cairn_gguf::DType;
use cairn_tensor::BackendError;

/// Why a path is not a model file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Nothing is there.
    #[error("{}: no such file", .path.display())]
    Missing {
        /// The path as given.
        path: PathBuf,
    },
    /// A directory.
    #[error("{}: is a directory; a model is one GGUF file", .path.display())]
    Directory {
        /// The path as given.
        path: PathBuf,
    },
    /// A pipe, a device or a socket, which cannot be mapped.
    #[error("{}: is not a regular file", .path.display())]
    NotAFile {
        /// The path as given.
        path: PathBuf,
    },
    /// A file of no bytes.
    #[error("{}: the file is empty", .path.display())]
    Empty {
        /// The path as given.
        path: PathBuf,
    },
    /// The system refused.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The path as given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Not GGUF, or a broken one.
    #[error("{}: {source}", .path.display())]
    Gguf {
        /// The path as given.
        path: PathBuf,
        /// What is wrong, and where.
        source: cairn_gguf::Error,
    },
    /// No files at all.
    #[error("no files are given")]
    NoFiles,
    /// Files that are not the parts of one model, or not all of them.
    #[error("{}: {source}", .path.display())]
    Split {
        /// The path as given.
        path: PathBuf,
        /// What does not fit.
        source: Box<cairn_gguf::split::SplitError>,
    },
    /// The file shrank while it was read.
    #[error(transparent)]
    Vanished(#[from] Vanished),
}

/// A model file that is no longer what was loaded: results since the last good check may be wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: model file changed or vanished: {why}", .path.display())]
pub struct Vanished {
    /// The path that was opened.
    pub path: PathBuf,
    /// What was noticed.
    pub why: String,
}

/// Why a model file is not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A metadata key is missing or has a wrong type.
    #[error(transparent)]
    Metadata(#[from] cairn_gguf::Error),
    /// A family that this build does not know.
    #[error("architecture `{name}` is not supported; supported are {}", .supported.join(", "))]
    UnknownArchitecture {
        /// `general.architecture`.
        name: String,
        /// All known names.
        supported: Vec<&'static str>,
    },
    /// A metadata value that no model of this family can have.
    #[error("metadata key `{key}`: {why}")]
    Key {
        /// The key.
        key: String,
        /// What is wrong with its value.
        why: String,
    },
    /// Something that the model needs and this build does not do.
    #[error("{what} is not supported")]
    Unsupported {
        /// What the model asks for.
        what: String,
    },
    /// Tensors are missing or have another shape or type than the metadata says.
    #[error("{}", faults_text(.faults))]
    Tensors {
        /// All of them.
        faults: Vec<TensorFault>,
    },
    /// The backend refused a weight or the plan.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The file changed while it was loaded.
    #[error(transparent)]
    Vanished(#[from] Vanished),
}

/// What is wrong with one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TensorFault {
    /// The file has no tensor of this name.
    Missing {
        /// The name.
        name: String,
    },
    /// The file's tensor has another shape.
    Shape {
        /// The name.
        name: String,
        /// Dimensions that the metadata imply, elements of a row first.
        need: Vec<u64>,
        /// Dimensions in the file.
        have: Vec<u64>,
    },
    /// The file's tensor has a type that weights cannot have.
    DType {
        /// The name.
        name: String,
        /// Its type.
        dtype: DType,
    },
}

impl TensorFault {
    fn name(&self) -> &str {
        let (Self::Missing { name } | Self::Shape { name, .. } | Self::DType { name, .. }) = self;
        name
    }

    /// What is wrong, without the name: `is` is `are` for several tensors.
    fn what(&self, is: &str) -> String {
        match self {
            Self::Missing { .. } => format!("{is} missing"),
            Self::Shape { need, have, .. } => format!("must be {need:?}, {is} {have:?}"),
            Self::DType { dtype, .. } => format!("{is} {dtype}, which no weight can be"),
        }
    }
}

impl fmt::Display for TensorFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.name().escape_debug(), self.what("is"))
    }
}

/// Splits the name of a block's tensor: the number of the block, and the name within it.
pub(crate) fn in_block(name: &str) -> Option<(u64, &str)> {
    let (block, name) = name.strip_prefix("blk.")?.split_once('.')?;
    Some((block.parse().ok()?, name))
}

/// Lists all faults. A file of nothing but metadata can lack tens of thousands of tensors, and so what is wrong in the same way
/// in consecutive blocks is one entry: `blk.3-4095.attn_k.weight`.
fn faults_text(faults: &[TensorFault]) -> String {
    // A fault, and the first and the last block of its run.
    let mut entries: Vec<(&TensorFault, Option<(u64, u64)>)> = Vec::new();
    // The latest entry of each name within a block and what is wrong with it.
    let mut latest: HashMap<(&str, String), usize> = HashMap::new();
    for fault in faults {
        let Some((block, name)) = in_block(fault.name()) else {
            entries.push((fault, None));
            continue;
        };
        let at = latest.entry((name, fault.what("is"))).or_insert(entries.len());
        match entries.get_mut(*at) {
            Some((_, Some((_, last)))) if last.checked_add(1) == Some(block) => *last = block,
            _ => {
                *at = entries.len();
                entries.push((fault, Some((block, block))));
            }
        }
    }
    let text = |&(fault, blocks): &(&TensorFault, Option<(u64, u64)>)| match (blocks, in_block(fault.name())) {
        (Some((first, last)), Some((_, name))) if first < last => {
            format!("`blk.{first}-{last}.{}` {}", name.escape_debug(), fault.what("are"))
        }
        _ => fault.to_string(),
    };
    let list: Vec<String> = entries.iter().map(text).collect();
    let count = faults.len();
    format!("{count} tensor{} not fit the model: {}", if count == 1 { " does" } else { "s do" }, list.join("; "))
}

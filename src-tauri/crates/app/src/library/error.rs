//! Errors of the model library. Texts that Ollama's clients parse are Ollama's.

use std::io;
use std::path::PathBuf;

use crate::values::{OptionError, excerpt};
use cairn_convert::file_type::UnknownFileType;
use cairn_convert::{ConvertError, QuantiseError};
use cairn_runtime::LoadError;
use cairn_store::{DigestError, LibraryError, NameError, WriteError};

/// Why a use case of the model library failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An invalid model name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// An invalid name, with its role: `source`, `destination` or `name`.
    #[error("{what} {:?} is invalid", excerpt(.name))]
    InvalidName {
        /// Role of the name.
        what: &'static str,
        /// The name, as the client sent it.
        name: String,
        /// Why it is invalid.
        reason: NameError,
    },
    /// The source of a copy does not exist. Contains the name, as the client sent it.
    #[error("model {0:?} not found")]
    NoSource(String),
    /// The model does not exist. Contains the name, as the client sent it.
    #[error("model '{0}' not found")]
    NotFound(String),
    /// A feature that this version lacks.
    #[error("{0} is not supported yet by this version of Cairn")]
    Unsupported(&'static str),
    /// A feature that this version lacks, with an alternative.
    #[error("{what} is not supported yet by this version of Cairn; {instead}")]
    Instead {
        /// The feature.
        what: &'static str,
        /// The alternative.
        instead: &'static str,
    },
    /// A text of a new model's config is longer than any name or version.
    #[error("{field} is too long: {size_bytes} bytes, {max_bytes} at most; send a name or version")]
    LongField {
        /// The field.
        field: &'static str,
        /// Size of the text.
        size_bytes: usize,
        /// Maximum size.
        max_bytes: usize,
    },
    /// An option's value has the wrong type.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// A library could not be read.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// A manifest without a model file, for example of a model that runs remotely.
    #[error("model '{0}' has no GGUF file")]
    NoFile(String),
    /// A file that cannot be read as a model.
    #[error("could not open {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A library could not be written to.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// An invalid digest.
    #[error(transparent)]
    Digest(#[from] DigestError),
    /// The name of the built-in model.
    #[error("the name {0} belongs to the model that is part of Cairn, which can be neither replaced nor deleted")]
    BuiltIn(&'static str),
    /// A model in a read-only library.
    #[error("model '{name}' is in {}, which Cairn only reads; `ollama rm {name}` removes it", root.display())]
    ReadOnlyLibrary {
        /// The model.
        name: String,
        /// Root of the library.
        root: PathBuf,
    },
    /// A name that a model of another library has.
    #[error(
        "there is a model named {name} in {}; give a different name, or use --force to give this model precedence",
        root.display()
    )]
    NameElsewhere {
        /// The stored name.
        name: String,
        /// Root of the library.
        root: PathBuf,
    },
    /// An opened file that is in no library.
    #[error("{0} is a file outside of Cairn's library; import it first with `cairn import FILE`")]
    OutsideStore(String),
    /// A file that is already in Cairn's library.
    #[error("{} is already in Cairn's library; use `cairn cp` to give its model a second name", .0.display())]
    OwnFile(PathBuf),
    /// A file of a read-only library that cannot be moved.
    #[error("{} belongs to {}, which Cairn only reads; omit --move to copy it", path.display(), root.display())]
    LibraryFile {
        /// The file.
        path: PathBuf,
        /// Root of the library.
        root: PathBuf,
    },
    /// A create request without a base.
    #[error("neither 'from' or 'files' was specified")]
    NoBase,
    /// A create request without files.
    #[error("no files provided to convert")]
    NoFiles,
    /// Files of which none is a model.
    #[error("unknown type")]
    UnknownFiles,
    /// Several models in one create request.
    #[error("a model must be one GGUF file, or the parts of one")]
    ManyModels,
    /// A file's name that is not a relative path.
    #[error("file path must be relative")]
    FilePath,
    /// A blob that was not uploaded.
    #[error("blob {0} not found; send it to /api/blobs first")]
    NoBlob(cairn_store::Digest),
    /// A file without GGUF's magic bytes.
    #[error("supplied file was not in GGUF format")]
    NotGguf,
    /// A file that is not an adapter.
    #[error("the file is not an adapter: its general.type must be \"adapter\"")]
    NoAdapter,
    /// An adapter that the model cannot use.
    #[error("the adapter cannot be used with this model: {0}")]
    AdapterUnusable(LoadError),
    /// A base model and another one's weights in one create request.
    #[error(
        "the request has two base models, {:?} and the file {:?}; a model has one: remove the name or the file. An adapter is sent \
         as such: ADAPTER in a Modelfile, `adapters` in a request",
        excerpt(.from),
        excerpt(.file)
    )]
    TwoBases {
        /// The base model's name, as the client sent it.
        from: String,
        /// The client's name of the file.
        file: String,
    },
    /// Several vision towers in one create request.
    #[error(
        "{:?} and {:?} are both vision towers, and a model has one; send one of them",
        excerpt(.first),
        excerpt(.second)
    )]
    ManyTowers {
        /// The client's name of one.
        first: String,
        /// The client's name of another.
        second: String,
    },
    /// A vision tower that the model cannot use.
    #[error(
        "the vision tower cannot be used with this model: {0}; send another tower (mmproj) that was published with the model, or the model without a tower"
    )]
    TowerUnusable(LoadError),
    /// Several adapters in one create request.
    #[error("only one adapter is currently supported")]
    ManyAdapters,
    /// An unknown quantization.
    #[error(transparent)]
    FileType(#[from] UnknownFileType),
    /// An importance matrix in a request without quantization.
    #[error("an importance matrix is only used to quantize weights; set `quantize` too, for example to Q4_K_M")]
    ImatrixAlone,
    /// A model that cannot be quantised.
    #[error(transparent)]
    Quantise(#[from] QuantiseError),
    /// A checkpoint that cannot be converted.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// An invalid template.
    #[error("template error: {0}")]
    InvalidTemplate(cairn_prompt::Error),
    /// A chat template of an uploaded file that cannot be used.
    #[error("template error in the file: {0}; create the model with a TEMPLATE, which replaces it")]
    FileTemplate(cairn_prompt::Error),
    /// The model could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The system refused to start a thread.
    #[error("cannot start a thread: {0}; try again later")]
    NoThread(io::Error),
}

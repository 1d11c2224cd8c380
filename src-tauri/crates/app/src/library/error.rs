//! Errors of the model library. The texts are those that Ollama's clients know, where Ollama has one.

use std::io;
use std::path::PathBuf;

use cairn_convert::QuantiseError;
use cairn_convert::file_type::UnknownFileType;
use cairn_runtime::LoadError;
use cairn_store::{DigestError, LibraryError, NameError, WriteError};
use cairn_wire::OptionError;

/// Why a use case of the model library failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name that is none.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A name that is none, in words that say whose: `source`, `destination` or `name`.
    #[error("{what} {name:?} is invalid")]
    InvalidName {
        /// Which of the names.
        what: &'static str,
        /// The name, as it was sent.
        name: String,
    },
    /// No model of that name to copy, as it was sent.
    #[error("model {0:?} not found")]
    NoSource(String),
    /// No model of that name, as it was sent.
    #[error("model '{0}' not found")]
    NotFound(String),
    /// What this version cannot do.
    #[error("{0} is not supported yet by this version of Cairn")]
    Unsupported(&'static str),
    /// What this version cannot do, and what does nearly as well.
    #[error("{what} is not supported yet by this version of Cairn; {instead}")]
    Instead {
        /// What was asked for.
        what: &'static str,
        /// What to do.
        instead: &'static str,
    },
    /// An option's value has the wrong type.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// A library could not be read.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// A manifest without a model file, of a model that runs elsewhere for instance.
    #[error("model '{0}' has no GGUF file")]
    NoFile(String),
    /// A file that is no model.
    #[error("could not open {}: {reason}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A library could not be written to.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A text that is no digest.
    #[error(transparent)]
    Digest(#[from] DigestError),
    /// A name that only the built-in model has.
    #[error("the name {0} belongs to the model that is part of Cairn, which can be neither replaced nor deleted")]
    BuiltIn(&'static str),
    /// A model of another program's library.
    #[error("model '{name}' is in {}, which Cairn only reads; `ollama rm {name}` removes it", root.display())]
    ReadOnlyLibrary {
        /// The model.
        name: String,
        /// Where the library is.
        root: PathBuf,
    },
    /// A name that another library's model has.
    #[error(
        "there is a model named {name} in {}; give a different name, or --force to have this one go before it",
        root.display()
    )]
    NameElsewhere {
        /// The name, as it is spelled there.
        name: String,
        /// Where the library is.
        root: PathBuf,
    },
    /// A file that was opened by its path, and is in no library.
    #[error("{0} is a file outside of Cairn's store; `cairn import FILE` takes it in")]
    OutsideStore(String),
    /// A file to import that is in the library that it would be imported into.
    #[error("{} is in Cairn's own library; `cairn cp` gives a model of it a second name", .0.display())]
    OwnFile(PathBuf),
    /// A file to move that another library has.
    #[error("{} belongs to {}, which Cairn only reads; without --move it is copied", path.display(), root.display())]
    LibraryFile {
        /// The file.
        path: PathBuf,
        /// Where the library is.
        root: PathBuf,
    },
    /// A request to create a model of nothing.
    #[error("neither 'from' or 'files' was specified")]
    NoBase,
    /// Files to make a model of that are none.
    #[error("no files provided to convert")]
    NoFiles,
    /// Files to make a model of that no model is in.
    #[error("unknown type")]
    UnknownFiles,
    /// Several files that are each a model.
    #[error("a model is made of one GGUF file, or of the parts of one")]
    ManyModels,
    /// A file's name that does not lead down.
    #[error("file path must be relative")]
    FilePath,
    /// Contents that were named and not sent.
    #[error("blob {0} not found; send it to /api/blobs first")]
    NoBlob(cairn_store::Digest),
    /// A file that is said to be one of GGUF.
    #[error("supplied file was not in GGUF format")]
    NotGguf,
    /// A file that is said to be an adapter.
    #[error("it is no adapter: general.type does not say so")]
    NoAdapter,
    /// Several adapters of one model.
    #[error("only one adapter is currently supported")]
    ManyAdapters,
    /// What no model is quantised to.
    #[error(transparent)]
    FileType(#[from] UnknownFileType),
    /// A model that cannot be quantised.
    #[error(transparent)]
    Quantise(#[from] QuantiseError),
    /// A template that a model is to get, and that is none.
    #[error("template error: {0}")]
    InvalidTemplate(cairn_prompt::Error),
    /// The model could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The system gives no thread for it.
    #[error("so much is being done that the system gives no thread for this: {0}; try again later")]
    NoThread(io::Error),
}

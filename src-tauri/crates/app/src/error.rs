//! Everything that a use case can fail with, and the one table that transports go by.

use std::io;
use std::path::PathBuf;

use cairn_convert::QuantiseError;
use cairn_convert::file_type::UnknownFileType;
use cairn_registry::{JoinError, KeyError, LookoutError, PeerKeyError, RollError};
use cairn_runtime::{GenerateError, LoadError, UnknownKvType};
use cairn_store::{DigestError, LibraryError, NameError, WriteError};
use cairn_tier::tiers::PinError;
use cairn_wire::OptionError;

use crate::chats::{ChatError, ChatsError};
use crate::overflow::UnknownContextShift;
use crate::{CacheError, LimitError, LoginError, PullError, SettingsError};

/// Why a use case failed. The texts are those that Ollama's clients know, where Ollama has one.
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
    /// Thinking was asked of a model that does not think.
    #[error("{0:?} does not support thinking")]
    NoThinking(String),
    /// `raw` means that the prompt goes in as it is.
    #[error("raw mode does not support template, system, or context")]
    RawWithTemplate,
    /// Token ids that the model does not have.
    #[error("context has the token {0}, which the model does not have")]
    ForeignContext(i64),
    /// Settings that cannot be changed.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// An option's value has the wrong type.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// An option's value cannot be.
    #[error("option {name:?} cannot be {value}; it must be {least} or more")]
    OptionRange {
        /// Which option.
        name: &'static str,
        /// What it was set to.
        value: i64,
        /// The least that it can be.
        least: i64,
    },
    /// An option names a type of the attention cache that there is not.
    #[error(transparent)]
    KvType(#[from] UnknownKvType),
    /// An option names a way to go on in a full context that there is not.
    #[error(transparent)]
    ContextShift(#[from] UnknownContextShift),
    /// Something about kept prefixes cannot be done.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The chats cannot be read or written, or have no such thing.
    #[error(transparent)]
    Chats(#[from] ChatsError),
    /// Something about a chat cannot be done.
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// The prompt does not fit, and may not be cut.
    #[error(
        "the prompt is longer than the context length currently available to the model; shorten the prompt, or raise \
         num_ctx ({prompt_tokens} tokens, {context_tokens} fit)"
    )]
    TooLong {
        /// How long the prompt is.
        prompt_tokens: usize,
        /// How much context there is.
        context_tokens: usize,
    },
    /// The prompt does not fit, and the context is too small for what would be left of it.
    #[error(
        "the prompt has {prompt_tokens} tokens, and a context of {context_tokens} is too small to answer even a part of \
         it; raise num_ctx ({least_tokens} at least)"
    )]
    TinyContext {
        /// How long the prompt is.
        prompt_tokens: usize,
        /// How much context there is.
        context_tokens: usize,
        /// The smallest context that prompts are cut to.
        least_tokens: usize,
    },
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
    /// A model did not arrive.
    #[error(transparent)]
    Pull(#[from] PullError),
    /// Another machine was not joined.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// This machine's key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A text that is no key.
    #[error(transparent)]
    PeerKey(#[from] PeerKeyError),
    /// The list of known keys cannot be used.
    #[error(transparent)]
    Roll(#[from] RollError),
    /// The local network cannot be watched.
    #[error(transparent)]
    Lan(#[from] LookoutError),
    /// A model did not get to its registry.
    #[error(transparent)]
    Push(#[from] crate::PushError),
    /// What is not asked for on another machine's behalf.
    #[error(
        "{what} is not asked for another machine: {why}; ask on the machine that Cairn runs on, or name the registry there in \
         CAIRN_MIRROR_ORIGINS"
    )]
    Beyond {
        /// The registry or source.
        what: String,
        /// Why it is not.
        why: &'static str,
    },
    /// More words than anybody searches for.
    #[error("a search has at most {0} characters")]
    LongQuery(usize),
    /// A name and a password for a registry were not kept.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// No download of that id or model, as it was sent.
    #[error("there is no download {0:?}; `cairn downloads` lists them")]
    NoDownload(String),
    /// A download that is over can neither be stopped nor go on.
    #[error("{0} is here already: its download is done; `cairn pull` looks for a newer version")]
    DownloadDone(String),
    /// A template that a model is to get, and that is none.
    #[error("template error: {0}")]
    InvalidTemplate(cairn_prompt::Error),
    /// The model's own chat template failed.
    #[error(transparent)]
    Template(#[from] cairn_prompt::Error),
    /// The model could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The engine failed in the middle.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// The system gives no thread for it.
    #[error("so much is being done that the system gives no thread for this: {0}; try again later")]
    NoThread(io::Error),
    /// The engine could not start.
    #[error("the engine could not start: {0}")]
    Engine(String),
    /// The engine went away in the middle of an answer.
    #[error("the engine stopped before the answer was complete")]
    EngineGone,
}

/// What an error means to whoever asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The request makes no sense.
    BadRequest,
    /// Whoever asks may not have it.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// It cannot be as things are here.
    Conflict,
    /// The request makes sense, and this version cannot do it.
    Unsupported,
    /// Too much to do; it may work later.
    Busy,
    /// Something is wrong here.
    Internal,
}

/// One row of the table: what each kind is to each transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The kind.
    pub kind: Kind,
    /// Status of an HTTP answer.
    pub http_status: u16,
    /// Exit code of a command.
    pub exit_code: u8,
}

const TABLE: [Row; 7] = [
    Row { kind: Kind::BadRequest, http_status: 400, exit_code: 1 },
    Row { kind: Kind::Forbidden, http_status: 403, exit_code: 1 },
    Row { kind: Kind::NotFound, http_status: 404, exit_code: 1 },
    Row { kind: Kind::Conflict, http_status: 409, exit_code: 1 },
    Row { kind: Kind::Unsupported, http_status: 501, exit_code: 1 },
    Row { kind: Kind::Busy, http_status: 503, exit_code: 1 },
    Row { kind: Kind::Internal, http_status: 500, exit_code: 1 },
];

impl Kind {
    /// What this kind is to each transport.
    #[must_use]
    pub fn row(self) -> Row {
        *TABLE.iter().find(|row| row.kind == self).expect("the table has a row for every kind")
    }
}

impl Error {
    /// What this error means to whoever asked.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Chats(error) => crate::chats::kind(error),
            Self::Chat(error) => error.kind(),
            Self::Name(_)
            | Self::InvalidName { .. }
            | Self::NoThinking(_)
            | Self::RawWithTemplate
            | Self::ForeignContext(_)
            | Self::OptionRange { .. }
            | Self::KvType(_)
            | Self::ContextShift(_)
            | Self::TooLong { .. }
            | Self::TinyContext { .. }
            | Self::NoBase
            | Self::LongQuery(_)
            | Self::PeerKey(_)
            | Self::Join(JoinError::Code)
            | Self::Login(
                LoginError::User
                | LoginError::Refused(_)
                | LoginError::NoRegistry(_)
                | LoginError::Way(PullError::Insecure { .. } | PullError::Address(_)),
            )
            | Self::InvalidTemplate(_)
            | Self::Digest(_)
            | Self::NoFiles
            | Self::UnknownFiles
            | Self::ManyModels
            | Self::FilePath
            | Self::NoBlob(_)
            | Self::NotGguf
            | Self::NoAdapter
            | Self::ManyAdapters
            | Self::FileType(_)
            | Self::Quantise(_)
            | Self::Write(
                WriteError::OtherContents { .. }
                | WriteError::LongText { .. }
                | WriteError::MovedLink { .. }
                | WriteError::MovedProtected(_)
                | WriteError::MovedFromClosed { .. },
            )
            | Self::Cache(
                CacheError::Limit(LimitError::Bytes { .. } | LimitError::Folder { .. }) | CacheError::Ambiguous(_),
            )
            | Self::Settings(SettingsError::Wrong(_))
            | Self::File { .. } => Kind::BadRequest,
            Self::Beyond { .. } => Kind::Forbidden,
            Self::NotFound(_)
            | Self::NoSource(_)
            | Self::NoDownload(_)
            | Self::Cache(CacheError::NoContext(_) | CacheError::Pin(PinError::Absent)) => Kind::NotFound,
            Self::BuiltIn(_)
            | Self::ReadOnlyLibrary { .. }
            | Self::NameElsewhere { .. }
            | Self::OutsideStore(_)
            | Self::OwnFile(_)
            | Self::DownloadDone(_)
            | Self::Cache(
                CacheError::Off | CacheError::Pin(PinError::Quota) | CacheError::Limit(LimitError::Environment(_)),
            )
            | Self::Settings(SettingsError::File { .. })
            | Self::LibraryFile { .. }
            | Self::Write(WriteError::NameTaken { .. } | WriteError::UnreadManifest { .. }) => Kind::Conflict,
            Self::Unsupported(_) | Self::Instead { .. } => Kind::Unsupported,
            Self::Load(LoadError::Busy) | Self::NoThread(_) | Self::Pull(crate::PullError::TooMany(_)) => Kind::Busy,
            // Ollama answers 500 to an option of the wrong type, and clients were written against that.
            Self::Option(_)
            | Self::Library(_)
            | Self::Write(_)
            | Self::NoFile(_)
            | Self::Pull(_)
            | Self::Join(_)
            | Self::Key(_)
            | Self::Roll(_)
            | Self::Lan(_)
            | Self::Push(_)
            | Self::Login(_)
            | Self::Template(_)
            | Self::Load(_)
            | Self::Generate(_)
            | Self::Engine(_)
            | Self::Cache(CacheError::Folder(_) | CacheError::Limit(LimitError::Unwritten(_)))
            | Self::Settings(SettingsError::Unwritten(_))
            | Self::EngineGone => Kind::Internal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_row() {
        for kind in [
            Kind::BadRequest,
            Kind::Forbidden,
            Kind::NotFound,
            Kind::Conflict,
            Kind::Unsupported,
            Kind::Busy,
            Kind::Internal,
        ] {
            assert_eq!(kind.row().kind, kind, "its own row");
        }
    }

    #[test]
    fn texts_that_clients_match_on() {
        let check = |error: Error, status: u16, text: &str| {
            assert_eq!((error.kind().row().http_status, error.to_string().as_str()), (status, text), "{error:?}");
        };
        check(Error::NotFound("x".into()), 404, "model 'x' not found");
        check(Error::NoThinking("x".into()), 400, "\"x\" does not support thinking");
        check(Error::Name(NameError::Empty), 400, "model is required");
        check(Error::NoSource("x".into()), 404, "model \"x\" not found");
        let invalid = Error::InvalidName { what: "destination", name: "a b".into() };
        check(invalid, 400, "destination \"a b\" is invalid");
        check(Error::Load(LoadError::Busy), 503, "server busy, please try again.  maximum pending requests exceeded");
    }
}

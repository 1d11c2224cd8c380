//! Errors of the model library and of loading a model.

use cairn_app::library;
use cairn_app::library::{LoadError, NameError, WriteError};
use cairn_wire::{ErrorCode as Code, OptionError, excerpt};

use super::{BAD, BUSY, CONFLICT, Class, INTERNAL, NOT_FOUND, UNSUPPORTED, with_reason};

pub(in crate::error) fn of_name(error: &NameError) -> Class {
    match error {
        NameError::Empty => Class::new(BAD, Code::ModelNameMissing),
        NameError::Invalid { name, .. } => Class::new(BAD, Code::ModelNameInvalid).with("name", excerpt(name)),
    }
}

pub(in crate::error) fn of_library(error: &library::Error) -> Class {
    use library::Error as E;
    match error {
        E::Name(reason) | E::InvalidName { reason, .. } => of_name(reason),
        E::NoSource(model) | E::NotFound(model) => Class::new(NOT_FOUND, Code::ModelNotFound).with("model", model),
        E::Unsupported(feature) | E::Instead { what: feature, .. } => {
            Class::new(UNSUPPORTED, Code::Unsupported).with("feature", feature)
        }
        E::Option(error) => of_option(error),
        E::Library(library::LibraryError::Blob { digest, reason }) => {
            with_reason(INTERNAL, Code::ModelFileMissing, reason).with("digest", digest)
        }
        E::Library(reason) => with_reason(INTERNAL, Code::LibraryUnreadable, reason),
        E::NoFile(model) => Class::new(INTERNAL, Code::ModelHasNoFile).with("model", model),
        E::File { path, reason } => {
            Class::new(BAD, Code::ModelFileUnreadable).with("path", path.display()).with("reason", reason)
        }
        E::Write(error) => of_write(error),
        E::Digest(reason) => with_reason(BAD, Code::DigestInvalid, reason),
        E::BuiltIn(model) => Class::new(CONFLICT, Code::ModelBuiltIn).with("model", model),
        E::ReadOnlyLibrary { name, root } => {
            Class::new(CONFLICT, Code::LibraryReadOnly).with("model", name).with("path", root.display())
        }
        E::NameElsewhere { name, root } => {
            Class::new(CONFLICT, Code::ModelInOtherLibrary).with("model", name).with("path", root.display())
        }
        E::OutsideStore(model) => Class::new(CONFLICT, Code::FileOutsideLibrary).with("model", model),
        E::OwnFile(path) => Class::new(CONFLICT, Code::FileInLibrary).with("path", path.display()),
        E::LibraryFile { path, root } => {
            Class::new(CONFLICT, Code::FileInOtherLibrary).with("path", path.display()).with("library", root.display())
        }
        E::LongField { .. }
        | E::NoBase
        | E::NoFiles
        | E::UnknownFiles
        | E::ManyModels
        | E::FilePath
        | E::NotGguf
        | E::NoAdapter
        | E::ManyAdapters
        | E::AdapterUnusable(_)
        | E::TwoBases { .. }
        | E::ManyTowers { .. }
        | E::TowerUnusable(_)
        | E::Convert(_)
        | E::ImatrixAlone
        | E::FileType(_) => with_reason(BAD, Code::CreateRequestInvalid, error),
        E::NoBlob(digest) => Class::new(BAD, Code::BlobNotFound).with("digest", digest),
        E::Quantise(reason) => with_reason(BAD, Code::QuantizationFailed, reason),
        E::InvalidTemplate(reason) | E::FileTemplate(reason) => with_reason(BAD, Code::TemplateInvalid, reason),
        E::Load(error) => of_load(error),
        E::NoThread(_) => Class::new(BUSY, Code::ServerBusy),
    }
}

/// A value of the wrong type. Ollama responds with 500, which clients retry although no retry can succeed.
pub(in crate::error) fn of_option(error: &OptionError) -> Class {
    with_reason(BAD, Code::OptionInvalid, error).with("option", &error.name)
}

pub(in crate::error) fn of_write(error: &WriteError) -> Class {
    use WriteError as E;
    match error {
        E::NameTaken { name } => Class::new(CONFLICT, Code::ModelNameTaken).with("model", name),
        E::UnreadableManifest { path, .. } => {
            Class::new(CONFLICT, Code::ManifestUnreadable).with("path", path.display())
        }
        E::DigestMismatch { expected, found } => {
            Class::new(BAD, Code::DigestMismatch).with("expected", expected).with("found", found)
        }
        E::LongText { .. } | E::TooManyLayers { .. } => with_reason(BAD, Code::InvalidRequest, error),
        E::MoveSymlink { .. } | E::MoveReadOnly(_) | E::MoveFolderReadOnly { .. } => {
            with_reason(BAD, Code::ImportRefused, error)
        }
        E::CrossDeviceLink { .. } | E::SourceStaysWritable { .. } => with_reason(INTERNAL, Code::ImportRefused, error),
        E::NoSpace { need_bytes, free_bytes, folder, .. } => Class::new(INTERNAL, Code::DiskFull)
            .with("need_bytes", need_bytes)
            .with("free_bytes", free_bytes)
            .with("path", folder.display()),
        E::Source { .. } | E::SourceChanged(_) | E::Cancelled | E::Library(_) | E::Disk(_) | E::Lock(_) => {
            with_reason(INTERNAL, Code::LibraryWriteFailed, error)
        }
    }
}

pub(in crate::error) fn of_load(error: &LoadError) -> Class {
    match error {
        LoadError::Busy | LoadError::Timeout(_) => Class::new(BUSY, Code::ServerBusy),
        LoadError::TooBig { need_bytes, have_bytes } => {
            Class::new(INTERNAL, Code::ModelTooLarge).with("need_bytes", need_bytes).with("free_bytes", have_bytes)
        }
        LoadError::File(_)
        | LoadError::Model(_)
        | LoadError::Tokenizer(_)
        | LoadError::Backend(_)
        | LoadError::Thread(_)
        | LoadError::Closing
        | LoadError::Panicked => with_reason(INTERNAL, Code::ModelUnloadable, error),
    }
}

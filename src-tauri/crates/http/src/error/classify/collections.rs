//! Errors of collections.

use cairn_app::collections::{CollectionsError, Error, FileError, MAX_NAME_CHARS};
use cairn_wire::{ErrorCode as Code, excerpt};

use super::answers::of_inference;
use super::documents::of_documents;
use super::library::of_library;
use super::{BAD, BUSY, CONFLICT, Class, INTERNAL, NOT_FOUND, with_reason};

pub(in crate::error) fn of_collections(error: &Error) -> Class {
    match error {
        Error::Store(error) => of_store(error),
        Error::Documents(error) => of_documents(error),
        Error::Inference(error) => of_inference(error),
        Error::Library(error) => of_library(error),
        Error::NoEmbeddings(model) => Class::new(BAD, Code::CollectionModelInvalid).with("model", excerpt(model)),
        Error::NoQuery => with_reason(BAD, Code::InvalidRequest, error),
        Error::Interrupted => Class::new(CONFLICT, Code::CollectionReadingInterrupted),
        Error::ShuttingDown => with_reason(BUSY, Code::CollectionsUnavailable, error),
        Error::Panicked(reason) => with_reason(INTERNAL, Code::Internal, reason),
    }
}

fn of_store(error: &CollectionsError) -> Class {
    use CollectionsError as E;
    match error {
        E::NotFound(id) => Class::new(NOT_FOUND, Code::CollectionNotFound).with("collection", excerpt(id)),
        E::DocumentNotFound(id) => {
            Class::new(NOT_FOUND, Code::CollectionDocumentNotFound).with("document", excerpt(id))
        }
        E::Name => Class::new(BAD, Code::CollectionNameInvalid).with("limit", MAX_NAME_CHARS),
        E::Full { .. } => with_reason(CONFLICT, Code::CollectionFull, error),
        E::File(FileError::Newer { path, .. }) => {
            Class::new(CONFLICT, Code::CollectionsNewerVersion).with("path", path.display())
        }
        E::File(FileError::DiskFull) => Class::new(INTERNAL, Code::CollectionsDiskFull),
        E::File(_) | E::Json(_) => with_reason(INTERNAL, Code::CollectionsUnavailable, error),
    }
}

//! Errors of documents.

use axum::http::StatusCode;
use cairn_app::documents::{DocumentError, Error};
use cairn_wire::ErrorCode as Code;

use super::{BAD, Class, INTERNAL, with_reason};

pub(super) fn of_documents(error: &Error) -> Class {
    use DocumentError as D;
    let bad = |code| Class::new(BAD, code);
    match error {
        Error::Document(D::UnknownFormat) => bad(Code::DocumentUnknown),
        Error::Document(D::OldOffice) => bad(Code::DocumentOldOffice),
        Error::Document(D::Damaged { reason }) => with_reason(BAD, Code::DocumentDamaged, reason),
        Error::Document(D::Encrypted) => bad(Code::DocumentEncrypted),
        Error::Document(D::NoTextLayer { pages }) => bad(Code::DocumentHasNoTextLayer).with("pages", pages),
        Error::Document(D::NoText) => bad(Code::DocumentEmpty),
        Error::Document(D::FileTooLarge { limit_bytes }) => {
            Class::new(StatusCode::PAYLOAD_TOO_LARGE, Code::DocumentTooLarge).with("limit_bytes", limit_bytes)
        }
        Error::Document(D::InflatesTooMuch { limit_bytes }) => {
            bad(Code::DocumentInflates).with("limit_bytes", limit_bytes)
        }
        Error::Document(error @ D::TooMany { .. }) => with_reason(BAD, Code::DocumentTooLong, error),
        Error::Timeout(time) => bad(Code::DocumentTimeout).with("seconds", time.as_secs()),
        Error::Crashed(_) => with_reason(BAD, Code::DocumentFailed, error),
        Error::Process(_) => with_reason(INTERNAL, Code::DocumentFailed, error),
    }
}

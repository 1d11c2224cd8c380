//! `POST /app/verify`: verifies the blobs of models and reports the damaged ones.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use cairn_app::Error;
use cairn_app::library::{BlobDefect, Check, CheckEvent, Checked, DamagedBlob};
use cairn_wire::app::{FlawKind, FlawedContents, VerifiedModels, VerifyLine, VerifyRequest};

use super::libraries::skipped;
use crate::body::Body;
use crate::error::ApiError;
use crate::{Server, ndjson};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/verify", post(verify))
}

async fn verify(State(server): State<Server>, Body(request): Body<VerifyRequest>) -> Result<Response, ApiError> {
    let events = server.app().library().check(Check { models: request.models, discard: request.discard });
    ndjson::stream_or_error(events, server.activity().begin(), line).await
}

fn line(event: CheckEvent) -> Result<VerifyLine, Error> {
    match event {
        CheckEvent::Progress { done_bytes: completed, total_bytes: total } => {
            Ok(VerifyLine::Hashing { completed, total })
        }
        CheckEvent::Done(checked) => Ok(VerifyLine::Done(report(checked))),
        CheckEvent::Failed(error) => Err(error.into()),
    }
}

fn report(checked: Checked) -> VerifiedModels {
    VerifiedModels {
        models: checked.models as u64,
        contents: checked.contents as u64,
        bytes: checked.bytes,
        flawed: checked.flawed.into_iter().map(flawed).collect(),
        skipped: checked.skipped.into_iter().map(skipped).collect(),
    }
}

fn flawed(flawed: DamagedBlob) -> FlawedContents {
    FlawedContents {
        digest: flawed.digest,
        kind: flawed.kind,
        flaw: match flawed.flaw {
            BlobDefect::Missing => FlawKind::Missing,
            BlobDefect::Length { .. } => FlawKind::Length,
            BlobDefect::Contents { .. } => FlawKind::Damaged,
            BlobDefect::Unreadable(_) => FlawKind::Unreadable,
        },
        reason: flawed.flaw.to_string(),
        models: flawed.models,
        library: flawed.library.display().to_string(),
        own: flawed.own,
        discarded: flawed.discarded,
    }
}

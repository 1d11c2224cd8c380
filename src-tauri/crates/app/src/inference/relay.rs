//! Relay: a client's request goes to a remote as it is, and the bytes of the response are passed on as they are. So fields that this
//! version does not have, such as images and extensions of a server, pass through.

use std::time::Instant;

use bytes::Bytes;
use cairn_upstream::{Call, Endpoint, Piece, Plan, Request, Target};
use serde_json::{Map, Value};

use super::error::Error;
use super::handle::Inference;
use super::location::ModelLocation;
use super::remote::STATUS_WAIT;
use super::remote_answer::AnswerClock;
use crate::remotes::canonical;
use crate::values::Usage;

/// A response of a remote in progress. Dropping it closes the connection to the server.
pub struct Relay {
    call: Call,
    clock: AnswerClock,
}

/// A part of the response.
#[derive(Debug, Clone, PartialEq)]
pub struct RelayFrame {
    /// Its bytes; may be empty.
    pub bytes: Bytes,
    /// Whether it has text, reasoning or a tool call.
    pub has_delta: bool,
    /// The usage, in the last frame of the answer.
    pub usage: Option<Usage>,
}

impl Inference {
    /// Passes a request on if its model is at remotes. A request for an answer must also have a prompt, and all of the remotes must
    /// have the endpoint. Otherwise the result is `None`, and [`Inference::chat`] or [`Inference::generate`] serves the request.
    ///
    /// # Errors
    /// If a server refuses the request, or none is available.
    pub async fn relay(
        &self,
        endpoint: Endpoint,
        model: &str,
        json: &[u8],
        is_incognito: bool,
    ) -> Result<Option<Relay>, Error> {
        let started_at = Instant::now();
        // Most requests are for local models; they need no second look into the library.
        if !self.uses_remotes || self.remotes.is_settled() && self.targets(model).is_none() {
            return Ok(None);
        }
        let ModelLocation::Remote(mut targets) = self.locate(model).await? else { return Ok(None) };
        let is_served = |target: &Target| endpoint.is_served_by(target.upstream.kind());
        let Ok(body) = serde_json::from_slice::<Map<String, Value>>(json) else { return Ok(None) };
        if endpoint.has_answer() {
            if !targets.iter().all(is_served) || !has_prompt(&body) {
                return Ok(None);
            }
        } else if targets.iter().any(is_served) {
            // Nothing else serves the request, so that an error names the endpoint if no server has it.
            targets.retain(is_served);
        }
        let request = Request::Raw { endpoint, body };
        let mut call = Call::start(Plan { targets, prefix: request.prefix(&canonical(model)), is_incognito }, request);
        call.accepted(STATUS_WAIT).await?;
        Ok(Some(Relay { call, clock: AnswerClock::new(started_at) }))
    }
}

fn has_prompt(body: &Map<String, Value>) -> bool {
    ["messages", "prompt"].into_iter().filter_map(|name| body.get(name)).any(|part| match part {
        Value::Array(items) => !items.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => false,
    })
}

impl Relay {
    /// Returns the next part of the response; `None` after the last.
    pub async fn next(&mut self) -> Option<Result<RelayFrame, Error>> {
        let frame = match self.call.next().await? {
            Ok(frame) => frame,
            Err(error) => return Some(Err(error.into())),
        };
        let has_delta = frame.pieces.iter().any(|piece| matches!(piece, Piece::Delta(_) | Piece::CallFragment));
        if has_delta {
            self.clock.record_first_token();
        }
        let usage = frame.pieces.into_iter().find_map(|piece| match piece {
            Piece::End(usage) => Some(self.clock.complete(*usage)),
            Piece::Delta(_) | Piece::CallFragment => None,
        });
        Some(Ok(RelayFrame { bytes: frame.bytes, has_delta, usage }))
    }
}

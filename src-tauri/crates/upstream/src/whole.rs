//! Memory of responses that are not streamed. Each is limited, and so are all of them together, because a client can request
//! many large ones at once.

use bytes::{Bytes, BytesMut};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::failure::Failure;

/// Most bytes of one response: 2,048 vectors of 4,096 elements, with 24 bytes for a number of double precision and its separator.
pub(crate) const MAX_WHOLE_BYTES: usize = 2048 * 4096 * 24;
/// Bytes of all responses together: two of the largest ones.
const BUDGET_BYTES: usize = 2 * MAX_WHOLE_BYTES;
/// Bytes of one permit. A smaller response needs none: their number is limited by the number of connections.
const PERMIT_BYTES: usize = 1 << 20;
static BUDGET: Semaphore = Semaphore::const_new(BUDGET_BYTES / PERMIT_BYTES);

/// Buffer of one response.
#[derive(Debug)]
pub(crate) struct WholeBuffer {
    bytes: BytesMut,
    budget: &'static Semaphore,
    /// Covers the bytes but the first [`PERMIT_BYTES`].
    permit: Option<SemaphorePermit<'static>>,
}

impl Default for WholeBuffer {
    fn default() -> Self {
        Self::with_budget(&BUDGET)
    }
}

impl WholeBuffer {
    fn with_budget(budget: &'static Semaphore) -> Self {
        Self { bytes: BytesMut::new(), budget, permit: None }
    }

    /// Adds bytes.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Result<(), Failure> {
        let size = self.bytes.len() + chunk.len();
        if size > MAX_WHOLE_BYTES {
            return Err(Failure::AnswerTooLarge { limit_bytes: MAX_WHOLE_BYTES });
        }
        let held = self.permit.as_ref().map_or(0, SemaphorePermit::num_permits);
        if let Some(more) = (size / PERMIT_BYTES).checked_sub(held).filter(|more| *more > 0) {
            let more = u32::try_from(more).ok().and_then(|more| self.budget.try_acquire_many(more).ok());
            let more = more.ok_or(Failure::OutOfBudget { budget_bytes: BUDGET_BYTES })?;
            match &mut self.permit {
                Some(permit) => permit.merge(more),
                none => *none = Some(more),
            }
        }
        self.bytes.extend_from_slice(chunk);
        Ok(())
    }

    /// Returns the response; `None` if it is empty. It counts towards the budget until its last reference is dropped.
    pub(crate) fn finish(self) -> Option<Bytes> {
        match self {
            Self { bytes, .. } if bytes.is_empty() => None,
            Self { bytes, permit: None, .. } => Some(bytes.freeze()),
            Self { bytes, permit: Some(permit), .. } => Some(Bytes::from_owner(Charged { bytes, _permit: permit })),
        }
    }
}

struct Charged {
    bytes: BytesMut,
    _permit: SemaphorePermit<'static>,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_share_a_budget_until_they_are_dropped() {
        static BUDGET: Semaphore = Semaphore::const_new(3);
        let chunk = vec![b'x'; PERMIT_BYTES / 2];
        let fill = |half_permits: usize| {
            let mut buffer = WholeBuffer::with_budget(&BUDGET);
            (0..half_permits).try_for_each(|_| buffer.push(&chunk)).map(|()| buffer.finish().expect("bytes"))
        };
        let first = fill(5).expect("2 permits");
        assert_eq!((first.len(), BUDGET.available_permits()), (chunk.len() * 5, 1));
        assert_eq!(fill(4), Err(Failure::OutOfBudget { budget_bytes: BUDGET_BYTES }), "2 permits more");
        assert_eq!(BUDGET.available_permits(), 1, "a refused response is dropped");
        let small = fill(1).expect("no permit");
        let copy = first.clone();
        drop(first);
        assert_eq!((small.len(), BUDGET.available_permits()), (chunk.len(), 1), "the copy is in memory");
        drop(copy);
        assert_eq!(BUDGET.available_permits(), 3);
    }

    #[test]
    fn response_over_the_limit_is_refused_with_the_limit() {
        let mut buffer = WholeBuffer { bytes: BytesMut::zeroed(MAX_WHOLE_BYTES - 1), ..WholeBuffer::default() };
        let failure = buffer.push(b"{}").expect_err("too large");
        let expected = "the response has more than 192 MiB, the limit for one response; send fewer texts in a request";
        assert_eq!(failure.to_string(), expected);
        assert!(!failure.is_outage() && !failure.is_retryable(), "the request is to blame");
    }
}

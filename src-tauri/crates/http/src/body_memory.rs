//! The memory of all request bodies, which has a limit, and the share that one other machine can have of it.
//!
//! A body counts until the handler of its request ends, because the parsed request has about as many bytes and may wait long
//! for its turn. Other machines leave a part of the memory to the programs on this one.

use std::collections::HashMap;
use std::sync::Arc;

use axum::http::StatusCode;
use cairn_wire::ErrorCode;
use parking_lot::Mutex;

use crate::error::ApiError;

/// Bytes of all bodies together: an export and a prompt with images fit.
const MAX_BYTES: usize = 320 << 20;
/// Bytes of the bodies of all other machines together.
const MAX_REMOTE_BYTES: usize = 256 << 20;
/// Bytes of the bodies of one other machine: two of the largest prompts. A single larger body is allowed, too.
const MAX_SHARE_BYTES: usize = 128 << 20;
/// Bytes of a body that do not count: the number of such bodies is limited by the number of connections.
const FREE_BYTES: usize = 64 << 10;

/// The memory of all bodies of a server. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct AllBodies(Arc<Mutex<UsedMemory>>);

/// Bytes in use.
#[derive(Default)]
struct UsedMemory {
    bytes: usize,
    remote_bytes: usize,
    /// Bytes of each other machine that sends a body.
    machines: HashMap<Arc<str>, usize>,
}

/// The memory that the body of a request has. Clones share it, and the last one frees it.
#[derive(Clone, Default)]
pub(crate) struct BodyMemory(Arc<Mutex<BodyBytes>>);

#[derive(Default)]
struct BodyBytes {
    all: AllBodies,
    /// The machine that sends; none for a program on this machine.
    machine: Option<Arc<str>>,
    bytes: usize,
}

impl BodyMemory {
    /// Memory for a body that another machine sends, or a program on this one.
    pub(crate) fn new(all: &AllBodies, machine: Option<Arc<str>>) -> Self {
        Self(Arc::new(Mutex::new(BodyBytes { all: all.clone(), machine, bytes: 0 })))
    }

    /// Takes memory for a body that has this size now, and at most `max_bytes` at its end.
    pub(crate) fn grow(&self, bytes: usize, max_bytes: usize) -> Result<(), ApiError> {
        let mut held = self.0.lock();
        let Some(more) = bytes.checked_sub(held.bytes).filter(|_| bytes > FREE_BYTES) else { return Ok(()) };
        held.all.0.lock().take(held.machine.as_ref(), held.bytes, more, max_bytes)?;
        held.bytes += more;
        Ok(())
    }
}

impl UsedMemory {
    /// Takes `more` bytes for a body that has `own` bytes so far, and at most `max_bytes` at its end.
    fn take(&mut self, machine: Option<&Arc<str>>, own: usize, more: usize, max_bytes: usize) -> Result<(), ApiError> {
        if self.bytes + more > MAX_BYTES {
            return Err(busy("all requests", MAX_BYTES));
        }
        if let Some(machine) = machine {
            let share = self.machines.get(machine).copied().unwrap_or_default() + more;
            // A machine's only body may be as large as its path allows.
            let max_share = if share == own + more { MAX_SHARE_BYTES.max(max_bytes) } else { MAX_SHARE_BYTES };
            if share > max_share {
                return Err(busy("the requests of your computer", max_share));
            }
            if self.remote_bytes + more > MAX_REMOTE_BYTES && share < self.remote_bytes + more {
                return Err(busy("the requests of other machines", MAX_REMOTE_BYTES));
            }
            self.remote_bytes += more;
            self.machines.insert(machine.clone(), share);
        }
        self.bytes += more;
        Ok(())
    }

    fn free(&mut self, machine: Option<&Arc<str>>, bytes: usize) {
        self.bytes -= bytes;
        let Some(machine) = machine else { return };
        self.remote_bytes -= bytes;
        if let Some(share) = self.machines.get_mut(machine) {
            *share -= bytes;
            if *share == 0 {
                self.machines.remove(machine);
            }
        }
    }
}

impl Drop for BodyBytes {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.all.0.lock().free(self.machine.as_ref(), self.bytes);
        }
    }
}

fn busy(of: &str, max_bytes: usize) -> ApiError {
    let most = max_bytes >> 20;
    let text = format!("the server is busy: the bodies of {of} have {most} MiB, the maximum; try again later");
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::ServerBusy, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn machine_has_a_share_and_leaves_a_part_to_this_one() {
        let mut used = UsedMemory::default();
        let [a, b, c]: [Arc<str>; 3] = ["a".into(), "b".into(), "c".into()];
        let mut take = |machine, more| {
            let taken = used.take(machine, 0, more * MIB, 64 * MIB).map_err(|error| error.into_body().error);
            (taken.err().unwrap_or_default(), used.machines.len())
        };
        assert_eq!(take(Some(&a), 128), (String::new(), 1), "a whole share");
        assert!(take(Some(&a), 1).0.contains("requests of your computer have 128 MiB"), "more than a share");
        assert_eq!(take(Some(&b), 120), (String::new(), 2), "another machine");
        assert!(
            take(Some(&c), 9).0.contains("requests of other machines have 256 MiB"),
            "the rest is for this machine"
        );
        assert_eq!(take(None, 72).0, "", "a program on this machine");
        assert!(take(None, 1).0.contains("all requests have 320 MiB"), "no memory is left");
        used.free(Some(&a), 128 * MIB);
        assert_eq!((used.bytes, used.remote_bytes, used.machines.len()), (192 * MIB, 120 * MIB, 1), "freed");
    }

    #[test]
    fn large_body_of_its_path_is_allowed_alone() {
        let mut used = UsedMemory::default();
        let [a, b]: [Arc<str>; 2] = ["a".into(), "b".into()];
        let limit = 300 * MIB;
        used.take(Some(&a), 0, MIB, limit).unwrap_or_else(|_| panic!("the only body"));
        used.take(Some(&a), MIB, limit - MIB, limit).unwrap_or_else(|_| panic!("its rest"));
        assert!(used.take(Some(&a), 0, MIB, limit).is_err(), "a second one of the machine");
        assert!(used.take(Some(&b), 0, MIB, limit).is_err(), "one of another machine");
    }
}

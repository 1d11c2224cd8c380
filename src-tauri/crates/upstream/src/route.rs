//! Chooses the server of a request: where the least work is left.
//!
//! The work of a request at a server is the blocks of its conversation that the server's KV cache does not have, and
//! [`LOAD_BLOCKS`] for each of our open requests there. So a conversation goes where its rows are, until that server has so much
//! more to do than another one that computing the rows again is faster.

/// Work of an open request, in blocks of a prompt. `cargo xtask prove routing` measures weights from 0 to 64 on chats and on
/// agents, two workloads with other lengths, pauses and caches. Of powers of two, 2 is best for chats and 8 for agents; 4 has the
/// smallest loss on both.
pub const LOAD_BLOCKS: usize = 4;

/// A server that can answer a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Whether its last health check succeeded.
    pub is_up: bool,
    /// Our requests that it has not completed.
    pub outstanding: usize,
    /// Leading blocks of the conversation that it has.
    pub matching: usize,
    /// Blocks of all conversations that it has.
    pub blocks: usize,
}

/// Returns the index of the server for a conversation of `blocks` blocks. Of equal servers, the one with the emptiest cache gets
/// the request.
#[must_use]
pub fn choose(blocks: usize, candidates: &[Candidate]) -> Option<usize> {
    choose_weighted(blocks, candidates, LOAD_BLOCKS)
}

/// [`choose`] with another weight of open requests, for simulations.
#[must_use]
pub fn choose_weighted(blocks: usize, candidates: &[Candidate], load_blocks: usize) -> Option<usize> {
    let work = |candidate: &Candidate| blocks.saturating_sub(candidate.matching) + load_blocks * candidate.outstanding;
    let key = |candidate: &Candidate| (!candidate.is_up, work(candidate), candidate.outstanding, candidate.blocks);
    (0..candidates.len()).min_by_key(|at| key(&candidates[*at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(outstanding: usize, matching: usize) -> Candidate {
        Candidate { is_up: true, outstanding, matching, blocks: 0 }
    }

    #[test]
    fn conversation_goes_where_its_rows_are_unless_others_have_less_work() {
        let check = |candidates: &[Candidate], expected: usize| {
            assert_eq!(choose(20, candidates), Some(expected), "{candidates:?}");
        };
        check(&[candidate(0, 0), candidate(1, 20)], 1);
        check(&[candidate(0, 0), candidate(20 / LOAD_BLOCKS + 1, 20)], 0);
        check(&[candidate(2, 0), candidate(1, 0)], 1);
        check(&[candidate(3, 8), candidate(3, 12)], 1);
        assert_eq!(choose(20, &[]), None);
    }

    #[test]
    fn equal_servers_fill_evenly_and_failed_ones_come_last() {
        let full = Candidate { blocks: 100, ..candidate(0, 0) };
        assert_eq!(choose(20, &[full, candidate(0, 0)]), Some(1), "the emptier cache");
        let down = Candidate { is_up: false, ..candidate(0, 20) };
        assert_eq!(choose(20, &[down, candidate(9, 0)]), Some(1), "a server that is up");
        assert_eq!(choose(20, &[down]), Some(0), "no other server");
    }
}

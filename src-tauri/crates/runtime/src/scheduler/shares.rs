//! Compute time of each client, so that clients share a model equally, and the choice of the rows of a decode step.
//!
//! This is fair queueing by virtual time (Demers, Keshav and Shenker, SIGCOMM 1989): the client that has used the least time is
//! next. A client that appears begins with the least time of those that are present, so idle time is no credit.
//!
//! While several clients have running answers, a step has one row of each, and further rows only while the step gets at most
//! [`MAX_STRETCH`] times as long. So a client that sends many requests does not slow down the answers of others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::step_cost::StepCost;
use crate::client::{Client, Priority};

/// Longest step while several clients have running answers, as a multiple of the step with one row of each.
const MAX_STRETCH: f64 = 1.1;
/// Number of steps after which a batch request gets a row in any case.
const BATCH_TURN: u64 = 16;

/// Compute time of the clients that have requests.
#[derive(Debug, Default)]
pub(crate) struct Shares(HashMap<Arc<str>, Duration>);

impl Shares {
    /// Adds new clients and forgets absent ones.
    pub(crate) fn set_present<'a>(&mut self, clients: impl Iterator<Item = &'a Client>) {
        let mut before = std::mem::take(&mut self.0);
        let mut new = Vec::new();
        for client in clients {
            if self.0.contains_key(&client.name) {
                continue;
            }
            if let Some((name, used)) = before.remove_entry(&client.name) {
                self.0.insert(name, used);
            } else if !new.contains(&&client.name) {
                new.push(&client.name);
            }
        }
        let least = self.0.values().min().copied().unwrap_or_default();
        self.0.extend(new.into_iter().map(|name| (Arc::clone(name), least)));
    }

    /// Adds time that was computed for a client.
    pub(crate) fn charge(&mut self, client: &Client, time: Duration) {
        if let Some(used) = self.0.get_mut(&client.name) {
            *used += time;
        }
    }

    /// Time that a client has used.
    pub(crate) fn used(&self, client: &Client) -> Duration {
        self.0.get(&client.name).copied().unwrap_or_default()
    }
}

/// A sequence that is ready for a decode row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    /// Index among the active sequences.
    pub(crate) index: usize,
    pub(crate) client: &'a Client,
    /// The last step that had a row of it.
    pub(crate) served: Served,
}

/// The last step that had rows of a sequence: its number, and the position of the sequence among the step's parts.
pub(crate) type Served = (u64, usize);

/// Chooses the sequences that get a row in this step, the most urgent first.
pub(crate) fn choose_decodes(mut candidates: Vec<Candidate<'_>>, step: u64, cost: &StepCost) -> Vec<usize> {
    // Each client's sequences take turns.
    candidates.sort_by_key(|candidate| (candidate.client.priority, candidate.served, candidate.index));
    let mut turns: HashMap<&str, usize> = HashMap::new();
    let mut ranked: Vec<(usize, Candidate<'_>)> = candidates
        .into_iter()
        .map(|candidate| {
            let turn = turns.entry(&candidate.client.name).or_default();
            *turn += 1;
            (*turn, candidate)
        })
        .collect();
    let several =
        turns.len() > 1 || ranked.windows(2).any(|pair| pair[0].1.client.priority != pair[1].1.client.priority);
    if several {
        let highest = ranked.iter().map(|(_, candidate)| candidate.client.priority).min().unwrap_or_default();
        let is_owed = |turn: usize, candidate: &Candidate<'_>| match candidate.client.priority {
            Priority::Batch if highest == Priority::Interactive => step - candidate.served.0 >= BATCH_TURN,
            _ => turn == 1,
        };
        ranked.sort_by_key(|(turn, candidate)| {
            (!is_owed(*turn, candidate), candidate.client.priority, *turn, candidate.served, candidate.index)
        });
        let owed = ranked.iter().filter(|(turn, candidate)| is_owed(*turn, candidate)).count();
        ranked.truncate(cost.rows_within(MAX_STRETCH, owed));
    }
    ranked.into_iter().map(|(_, candidate)| candidate.index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str, priority: Priority) -> Client {
        Client { name: name.into(), priority }
    }

    /// The cost after steps with 1 to 8 rows, which take `base` and `row` microseconds for each row.
    fn measured(base: u64, row: u64) -> StepCost {
        let mut cost = StepCost::default();
        for step in 0..200 {
            let rows = 1 + step % 8;
            cost.add(rows, 0.0, Duration::from_micros(base + row * rows as u64));
        }
        cost
    }

    /// A step takes 4 ms, and 2 ms for each row.
    fn cost() -> StepCost {
        measured(4000, 1990)
    }

    /// A step takes 9 ms, and 0.1 ms for each row.
    fn cheap_rows() -> StepCost {
        measured(9000, 100)
    }

    /// Number of rows of each sequence in this many steps.
    fn rows(clients: &[Client], cost: &StepCost, steps: u64) -> Vec<usize> {
        let (mut served, mut rows) = (vec![(0, 0); clients.len()], vec![0; clients.len()]);
        for step in 1..=steps {
            let candidates = clients.iter().enumerate();
            let candidates =
                candidates.map(|(index, client)| Candidate { index, client, served: served[index] }).collect();
            for (position, index) in choose_decodes(candidates, step - 1, cost).into_iter().enumerate() {
                served[index] = (step, position);
                rows[index] += 1;
            }
        }
        rows
    }

    #[test]
    fn client_with_many_requests_shares_step_with_others() {
        let (chat, other) = (client("chat", Priority::Interactive), client("other", Priority::Interactive));
        let many = [vec![chat.clone()], vec![other; 7]].concat();
        let shared = rows(&many, &cost(), 700);
        assert_eq!(shared[0], 700, "the chat has a row of each step");
        assert!(
            shared[1..].iter().all(|rows| (95..=105).contains(rows)),
            "8 ms for two rows, 10 ms for three: {shared:?}"
        );
        assert_eq!(rows(&many, &cheap_rows(), 10), [10; 8], "9.2 ms for two rows, 9.8 ms for eight");
        assert_eq!(rows(&vec![chat; 8], &cost(), 10), [10; 8], "one client is not limited");
        assert_eq!(rows(&many, &StepCost::default(), 1), [1; 8], "no limit before the first measurement");
    }

    #[test]
    fn batch_request_gets_spare_time_and_an_occasional_row() {
        let chat = client("chat", Priority::Interactive);
        let batch = client("chat", Priority::Batch);
        let spare = rows(&[chat.clone(), batch.clone()], &cost(), 160);
        assert_eq!(spare[0], 160, "the interactive request has a row of each step");
        assert!((9..=11).contains(&spare[1]), "6 ms for a row, 8 ms for two, so only every 16th: {spare:?}");
        assert_eq!(rows(&[batch], &cost(), 5), [5], "alone, it has all steps");
        let both = [chat, client("other", Priority::Batch)];
        assert_eq!(rows(&both, &cheap_rows(), 10), [10, 10], "rows that cost little");
    }

    #[test]
    fn new_client_begins_with_least_used_time() {
        let clients = ["a", "b", "c"].map(|name| client(name, Priority::Interactive));
        let mut shares = Shares::default();
        shares.set_present(clients[..2].iter());
        shares.charge(&clients[0], Duration::from_secs(5));
        shares.charge(&clients[1], Duration::from_secs(3));
        shares.set_present(clients.iter());
        assert_eq!(
            clients.each_ref().map(|client| shares.used(client).as_secs()),
            [5, 3, 3],
            "no credit for idle time"
        );
        shares.set_present(clients[2..].iter());
        shares.set_present(clients.iter());
        assert_eq!(shares.used(&clients[0]).as_secs(), 3, "absent clients are forgotten");
    }
}

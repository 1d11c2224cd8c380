//! Workload of concurrent users: they continue, repeat, edit, fork, cancel and restart conversations.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cairn_runtime::{Event, Finish, GenerateError, Request, Sampling};
use cairn_testkit::Random;
use cairn_testkit::hash_backend::History;
use tokio::task::JoinSet;

use crate::world::{Instance, MODELS, TENANTS, World};

/// Concurrent users of each tenant.
const USERS: usize = 4;
/// Chats of each tenant with each model.
const CHATS: usize = 23;
/// Length at which a chat is cut to its last tokens.
const LONG: usize = 1600;
/// Maximum length of an answer.
const ANSWER: u64 = 12;
/// Maximum number of reported wrong answers.
const MAX_EXAMPLES: usize = 5;

/// Counts of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Completed answers.
    pub(crate) answers: u64,
    /// Cancelled requests.
    pub(crate) cancelled: u64,
    /// Answers with rows from RAM, and from the disk.
    pub(crate) from_ram: u64,
    pub(crate) from_ssd: u64,
    /// Answers with rows from pages.
    pub(crate) from_pages: u64,
    /// Prompt tokens, and those that were not computed.
    pub(crate) prompt_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) wrong: u64,
    /// Some of the wrong answers.
    pub(crate) wrong_examples: Vec<String>,
    pub(crate) failed: Vec<String>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Tally) {
        self.answers += other.answers;
        self.cancelled += other.cancelled;
        self.from_ram += other.from_ram;
        self.from_ssd += other.from_ssd;
        self.from_pages += other.from_pages;
        self.prompt_tokens += other.prompt_tokens;
        self.cached_tokens += other.cached_tokens;
        self.wrong += other.wrong;
        self.wrong_examples.extend(other.wrong_examples);
        self.wrong_examples.truncate(MAX_EXAMPLES);
        self.failed.extend(other.failed);
    }

    /// All requests.
    pub(crate) fn requests(&self) -> u64 {
        self.answers + self.cancelled
    }

    /// Percentage of the answers.
    pub(crate) fn percent(&self, part: u64) -> f64 {
        part as f64 * 100.0 / self.answers.max(1) as f64
    }
}

/// A conversation.
#[derive(Clone)]
struct Chat {
    history: History,
    /// Start of its last answer.
    answer_start: usize,
}

/// All conversations. They survive restarts of engines and tiers.
pub(crate) struct Workload {
    seed: u64,
    /// Tenants.
    tenants: Vec<Tenant>,
    /// Common system prompts and common messages, the same for all tenants.
    systems: Vec<Vec<u32>>,
    phrases: Vec<Vec<u32>>,
}

struct Tenant {
    /// The model in use.
    model: AtomicUsize,
    /// Chats by model.
    chats: Vec<Vec<Mutex<Chat>>>,
}

fn tokens(dice: &mut Random, count: u64) -> Vec<u32> {
    (0..count).map(|_| dice.below(300) as u32).collect()
}

impl Workload {
    pub(crate) fn new(world: &World, seed: u64) -> Arc<Self> {
        let mut dice = Random::from_name(seed, "texts");
        let systems: Vec<Vec<u32>> = [700, 330, 256, 90].map(|count| tokens(&mut dice, count)).into();
        let phrases = (0..24)
            .map(|_| {
                let count = 1 + dice.below(200);
                tokens(&mut dice, count)
            })
            .collect();
        let tenants = (0..TENANTS).map(|tenant| {
            let chats = (0..MODELS).map(|model| {
                let chat = |number: usize| {
                    let mut history = History::new(world.shape(tenant, model));
                    history.extend(&systems[number % systems.len()]);
                    Mutex::new(Chat { answer_start: history.tokens().len(), history })
                };
                (0..CHATS).map(chat).collect()
            });
            Tenant { model: AtomicUsize::new(0), chats: chats.collect() }
        });
        Arc::new(Self { seed, tenants: tenants.collect(), systems, phrases })
    }

    /// Sends `requests` requests of each user. `part` selects the random sequence, so that the parts of one run differ.
    pub(crate) async fn run(self: &Arc<Self>, life: &Arc<Instance>, part: u64, requests: u64) -> Tally {
        let mut users = JoinSet::new();
        for tenant in 0..TENANTS {
            for person in 0..USERS {
                let (workload, life) = (Arc::clone(self), Arc::clone(life));
                let dice = Random::from_name(self.seed, &format!("part {part}, tenant {tenant}, person {person}"));
                users.spawn(async move { workload.run_user(&life, tenant, dice, requests).await });
            }
        }
        let mut tally = Tally::default();
        while let Some(person) = users.join_next().await {
            tally.add(person.expect("no user panics"));
        }
        tally
    }

    async fn run_user(&self, life: &Instance, tenant: usize, mut dice: Random, requests: u64) -> Tally {
        let mut tally = Tally::default();
        let tenant_state = &self.tenants[tenant];
        for _ in 0..requests {
            if dice.below(60) == 0 {
                tenant_state.model.fetch_xor(1, Ordering::Relaxed);
            }
            let model = tenant_state.model.load(Ordering::Relaxed);
            if dice.below(2) == 0 {
                life.unload(tenant, model);
            }
            let chats = &tenant_state.chats[model];
            let number = dice.below(CHATS as u64) as usize;
            let copy = |number: usize| chats[number].lock().expect("no thread panics with the lock").clone();
            let mut chat = copy(number);
            let other = copy(dice.below(CHATS as u64) as usize);
            self.change(&mut chat, other, &mut dice);
            chat.answer_start = chat.history.tokens().len();
            ask(life, tenant, model, &mut chat.history, &mut dice, &mut tally).await;
            *chats[number].lock().expect("no thread panics with the lock") = chat;
        }
        tally
    }

    /// Changes a chat and adds a message.
    fn change(&self, chat: &mut Chat, other: Chat, dice: &mut Random) {
        let system = &self.systems[dice.below(self.systems.len() as u64) as usize];
        let len = chat.history.tokens().len();
        if len > LONG {
            let tail = chat.history.tokens()[len - 300..].to_vec();
            chat.history.truncate(system.len().min(self.systems[3].len()));
            chat.history.extend(&tail);
            return;
        }
        match dice.below(100) {
            0..55 => {}
            // The same message again.
            55..65 if chat.answer_start > 0 => return chat.history.truncate(chat.answer_start),
            // An edit at any token.
            65..77 => chat.history.truncate(1 + dice.below(len as u64 - 1) as usize),
            // A fork of another conversation.
            77..90 => {
                let shared = 1 + dice.below(other.history.tokens().len() as u64) as usize;
                chat.history = other.history;
                chat.history.truncate(shared);
            }
            _ => {
                chat.history.truncate(0);
                chat.history.extend(system);
            }
        }
        let message = match dice.below(3) {
            0 => {
                let count = 1 + dice.below(12);
                tokens(dice, count)
            }
            _ => self.phrases[dice.below(self.phrases.len() as u64) as usize].clone(),
        };
        chat.history.extend(&message);
    }
}

/// Sends a request, checks the answer and adds it to the history. Some requests are cancelled.
pub(crate) async fn ask(
    life: &Instance,
    tenant: usize,
    model: usize,
    history: &mut History,
    dice: &mut Random,
    tally: &mut Tally,
) {
    let lease = life.lease(tenant, model).await;
    let cancels = dice.below(10) == 0;
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    let max_tokens = if cancels { 100 } else { 1 + dice.below(ANSWER) as u32 };
    let prompt = history.tokens().to_vec();
    let mut events = lease.generate(Request { prompt, sampling, max_tokens: Some(max_tokens), ..Request::default() });
    if cancels {
        match dice.below(3) {
            0 => {}
            1 => tokio::time::sleep(Duration::from_micros(dice.below(3000))).await,
            _ => drop(events.recv().await),
        }
        tally.cancelled += 1;
        return;
    }
    if dice.below(50) == 0 {
        // A client that does not read for a while.
        tokio::time::sleep(Duration::from_millis(dice.below(20))).await;
    }
    let end = loop {
        match events.recv().await {
            Some(Event::Delta(_) | Event::ContextFull(_)) => {}
            Some(Event::Finish(finish)) => break Ok(finish),
            Some(Event::Error(error)) => break Err(error),
            None => break Err(GenerateError::Unloaded),
        }
    };
    match end {
        Ok(finish) => check(tenant, model, history, &finish, tally),
        Err(error) => tally.failed.push(error.to_string()),
    }
}

/// Compares an answer with the expected one.
fn check(tenant: usize, model: usize, history: &mut History, finish: &Finish, tally: &mut Tally) {
    tally.answers += 1;
    tally.from_ram += u64::from(finish.usage.restored.ram_tokens > 0);
    tally.from_ssd += u64::from(finish.usage.restored.ssd_tokens > 0);
    let recalled = finish.usage.restored.ram_tokens + finish.usage.restored.ssd_tokens;
    tally.from_pages += u64::from(finish.usage.cached_tokens > recalled);
    tally.prompt_tokens += finish.usage.prompt_tokens as u64;
    tally.cached_tokens += finish.usage.cached_tokens as u64;
    let mut right = !finish.tokens.is_empty();
    let prompt_tokens = history.tokens().len();
    for &token in &finish.tokens {
        right &= token == history.next();
        // The conversation continues with the expected token, so that one error counts once.
        history.push(history.next());
    }
    if !right {
        tally.wrong += 1;
        if tally.wrong_examples.len() < MAX_EXAMPLES {
            let expected = &history.tokens()[prompt_tokens..];
            tally.wrong_examples.push(format!("tenant {tenant}, model {model}: expected {expected:?} of {finish:?}"));
        }
    }
}

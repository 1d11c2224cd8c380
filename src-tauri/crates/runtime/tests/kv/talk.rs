//! People who talk to the toys: they go on, ask again, edit what they said, fork, leave, and begin anew, several at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cairn_runtime::{Event, Finish, GenerateError, Request, Sampling};
use cairn_testkit::Random;
use cairn_testkit::toy::History;
use tokio::task::JoinSet;

use crate::world::{Life, MODELS, TENANTS, World};

/// People at a time, by tenant.
const PEOPLE: usize = 4;
/// Chats of each tenant with each model.
const CHATS: usize = 23;
/// A chat that is longer loses what was said first.
const LONG: usize = 1600;
/// Longest answer.
const ANSWER: u64 = 12;
/// Wrong answers that are told in full.
const TOLD: usize = 5;

/// What has happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Answers that came to their end.
    pub(crate) answers: u64,
    /// Requests that were left before that.
    pub(crate) left: u64,
    /// Answers with rows from RAM, and from the disk.
    pub(crate) from_ram: u64,
    pub(crate) from_ssd: u64,
    /// Answers with rows that still lay in pages.
    pub(crate) from_pages: u64,
    /// Tokens of prompts, and those that were not computed.
    pub(crate) prompt_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) wrong: u64,
    /// Some of the wrong ones.
    pub(crate) told: Vec<String>,
    pub(crate) failed: Vec<String>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Tally) {
        self.answers += other.answers;
        self.left += other.left;
        self.from_ram += other.from_ram;
        self.from_ssd += other.from_ssd;
        self.from_pages += other.from_pages;
        self.prompt_tokens += other.prompt_tokens;
        self.cached_tokens += other.cached_tokens;
        self.wrong += other.wrong;
        self.told.extend(other.told);
        self.told.truncate(TOLD);
        self.failed.extend(other.failed);
    }

    /// All requests.
    pub(crate) fn requests(&self) -> u64 {
        self.answers + self.left
    }

    /// Percent of the answers.
    pub(crate) fn percent(&self, part: u64) -> f64 {
        part as f64 * 100.0 / self.answers.max(1) as f64
    }
}

/// A conversation.
#[derive(Clone)]
struct Chat {
    history: History,
    /// Where its last answer begins.
    asked: usize,
}

/// All conversations, which outlive engines and tiers.
pub(crate) struct Talks {
    seed: u64,
    /// By tenant.
    tenants: Vec<Tenant>,
    /// Texts that many conversations begin with, and things that are often said, the same for all tenants.
    systems: Vec<Vec<u32>>,
    phrases: Vec<Vec<u32>>,
}

struct Tenant {
    /// The model that is talked to at the moment.
    model: AtomicUsize,
    /// By model.
    chats: Vec<Vec<Mutex<Chat>>>,
}

fn tokens(dice: &mut Random, count: u64) -> Vec<u32> {
    (0..count).map(|_| dice.below(300) as u32).collect()
}

impl Talks {
    pub(crate) fn new(world: &World, seed: u64) -> Arc<Self> {
        let mut dice = Random::named(seed, "texts");
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
                    Mutex::new(Chat { asked: history.tokens().len(), history })
                };
                (0..CHATS).map(chat).collect()
            });
            Tenant { model: AtomicUsize::new(0), chats: chats.collect() }
        });
        Arc::new(Self { seed, tenants: tenants.collect(), systems, phrases })
    }

    /// Lets everybody talk until each has made so many requests. `part` tells the parts of one run apart.
    pub(crate) async fn go_on(self: &Arc<Self>, life: &Arc<Life>, part: u64, requests: u64) -> Tally {
        let mut people = JoinSet::new();
        for tenant in 0..TENANTS {
            for person in 0..PEOPLE {
                let (talks, life) = (Arc::clone(self), Arc::clone(life));
                let dice = Random::named(self.seed, &format!("part {part}, tenant {tenant}, person {person}"));
                people.spawn(async move { talks.person(&life, tenant, dice, requests).await });
            }
        }
        let mut tally = Tally::default();
        while let Some(person) = people.join_next().await {
            tally.add(person.expect("nobody panics"));
        }
        tally
    }

    async fn person(&self, life: &Life, tenant: usize, mut dice: Random, requests: u64) -> Tally {
        let mut tally = Tally::default();
        let here = &self.tenants[tenant];
        for _ in 0..requests {
            if dice.below(60) == 0 {
                here.model.fetch_xor(1, Ordering::Relaxed);
            }
            let model = here.model.load(Ordering::Relaxed);
            if dice.below(2) == 0 {
                life.unload(tenant, model);
            }
            let chats = &here.chats[model];
            let number = dice.below(CHATS as u64) as usize;
            let copy = |number: usize| chats[number].lock().expect("nobody panics with it").clone();
            let mut chat = copy(number);
            let other = copy(dice.below(CHATS as u64) as usize);
            self.change(&mut chat, other, &mut dice);
            chat.asked = chat.history.tokens().len();
            ask(life, tenant, model, &mut chat.history, &mut dice, &mut tally).await;
            *chats[number].lock().expect("nobody panics with it") = chat;
        }
        tally
    }

    /// Says something.
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
            // The same question again.
            55..65 if chat.asked > 0 => return chat.history.truncate(chat.asked),
            // What was said is edited at any token.
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
        let said = match dice.below(3) {
            0 => {
                let count = 1 + dice.below(12);
                tokens(dice, count)
            }
            _ => self.phrases[dice.below(self.phrases.len() as u64) as usize].clone(),
        };
        chat.history.extend(&said);
    }
}

/// Sends a request, and holds the answer against what it must be; adds it to the history. Some people leave before the end.
pub(crate) async fn ask(
    life: &Life,
    tenant: usize,
    model: usize,
    history: &mut History,
    dice: &mut Random,
    tally: &mut Tally,
) {
    let lease = life.lease(tenant, model).await;
    let leaves = dice.below(10) == 0;
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    let max_tokens = if leaves { 100 } else { 1 + dice.below(ANSWER) as u32 };
    let prompt = history.tokens().to_vec();
    let mut events = lease.generate(Request { prompt, sampling, max_tokens: Some(max_tokens), ..Request::default() });
    if leaves {
        match dice.below(3) {
            0 => {}
            1 => tokio::time::sleep(Duration::from_micros(dice.below(3000))).await,
            _ => drop(events.recv().await),
        }
        tally.left += 1;
        return;
    }
    if dice.below(50) == 0 {
        // Somebody who does not read for a while.
        tokio::time::sleep(Duration::from_millis(dice.below(20))).await;
    }
    let end = loop {
        match events.recv().await {
            Some(Event::Text(_) | Event::Full(_)) => {}
            Some(Event::Done(finish)) => break Ok(finish),
            Some(Event::Failed(error)) => break Err(error),
            None => break Err(GenerateError::Unloaded),
        }
    };
    match end {
        Ok(finish) => judge(tenant, model, history, &finish, tally),
        Err(error) => tally.failed.push(error.to_string()),
    }
}

/// Holds an answer against what it must be.
fn judge(tenant: usize, model: usize, history: &mut History, finish: &Finish, tally: &mut Tally) {
    tally.answers += 1;
    tally.from_ram += u64::from(finish.spent.recalled.ram_tokens > 0);
    tally.from_ssd += u64::from(finish.spent.recalled.ssd_tokens > 0);
    let recalled = finish.spent.recalled.ram_tokens + finish.spent.recalled.ssd_tokens;
    tally.from_pages += u64::from(finish.spent.cached_tokens > recalled);
    tally.prompt_tokens += finish.spent.prompt_tokens as u64;
    tally.cached_tokens += finish.spent.cached_tokens as u64;
    let mut right = !finish.tokens.is_empty();
    let prompt_tokens = history.tokens().len();
    for &token in &finish.tokens {
        right &= token == history.next();
        // The conversation goes on from what it should have been, so that one mistake is one mistake.
        history.push(history.next());
    }
    if !right {
        tally.wrong += 1;
        if tally.told.len() < TOLD {
            let expected = &history.tokens()[prompt_tokens..];
            tally.told.push(format!("tenant {tenant}, model {model}: expected {expected:?} of {finish:?}"));
        }
    }
}

//! The tiers that keep computed prefixes, for people: what is in them, what of it stays or goes, and how much they may take.
//!
//! Pages of loaded models are part of it where something is deleted: what a user asked to be forgotten must not be written down
//! again by a model that still has it.

use std::time::{Duration, UNIX_EPOCH};

use cairn_runtime::{ModelId, ModelMetrics};
use cairn_tier::tiers::{Deletion, Health, Status, StoredPrefix};
use cairn_tier::{ChunkId, Owner, TierKind};

use super::error::Error;
use super::handle::KvCache;

/// The longest time that a deletion is waited for; after it, the rest is only reported.
const DELETION: Duration = Duration::from_secs(30);
const DAY_S: u64 = 24 * 3600;
/// Letters of a context's id, and the fewest that name one.
const ID_LETTERS: usize = 16;
const LEAST_ID_LETTERS: usize = 4;

/// A kept sequence.
#[derive(Debug, Clone)]
pub struct KeptContext {
    /// Names it, for as long as it is kept.
    pub id: String,
    /// The model, where this installation has used it by a name.
    pub model: Option<String>,
    /// The rest.
    pub context: StoredPrefix,
}

/// The tiers, and what they have done.
#[derive(Debug, Clone)]
pub struct CacheStatus {
    /// Levels and flows.
    pub tiers: Status,
    /// Where the folder is.
    pub folder: Option<std::path::PathBuf>,
    /// Tokens of all prompts since the daemon started.
    pub prompt_tokens: u64,
    /// Of these, tokens that need not be computed.
    pub cached_tokens: u64,
    /// What restoring has saved since the day (UTC) or the daemon began.
    pub saved_today: Duration,
}

impl KvCache {
    /// How the tiers are; none where nothing is kept.
    #[must_use]
    pub fn status(&self) -> Option<CacheStatus> {
        let usage = self.engine.metrics();
        let saved = usage.iter().map(|(_, usage)| usage.saved).sum();
        let since = self.clock.now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let cached = usage.iter().map(|(_, usage)| usage.page_tokens + usage.restored_tokens.iter().sum::<u64>());
        Some(CacheStatus {
            tiers: self.tier_status(&usage)?,
            folder: self.settings.tiers.folder.clone(),
            prompt_tokens: usage.iter().map(|(_, usage)| usage.lookup_tokens).sum(),
            cached_tokens: cached.sum(),
            saved_today: self.book.saved_today(since.as_secs() / DAY_S, saved),
        })
    }

    /// How the tiers are, with the tokens that answers were spared by each: a chunk that comes back has more, where its reader has some of
    /// it, and rows of windows stand for the same tokens as those beside them.
    pub(crate) fn tier_status(&self, usage: &[(ModelId, ModelMetrics)]) -> Option<Status> {
        let mut status = self.kept.as_ref()?.tiers.status();
        for tier in &mut status.tiers {
            tier.counters.hit_tokens = usage.iter().map(|(_, usage)| usage.restored_tokens[tier.kind as usize]).sum();
        }
        Some(status)
    }

    /// The kept contexts, the last used first, at most `limit`.
    #[must_use]
    pub fn contexts(&self, limit: usize) -> Vec<KeptContext> {
        let Some(kept) = &self.kept else { return Vec::new() };
        let named = |context: StoredPrefix| KeptContext {
            id: id(&context.last),
            model: self.book.model(&context.last.fingerprint),
            context,
        };
        kept.tiers.stored_prefixes(limit).into_iter().map(named).collect()
    }

    /// Keeps a context from being evicted or forgotten, or lets it go again.
    ///
    /// # Errors
    /// Where it is not kept, or would take too much.
    pub fn pin_context(&self, id: &str, pinned: bool) -> Result<(), Error> {
        let last = self.context(id)?;
        Ok(self.tiers()?.set_pinned(&last, pinned)?)
    }

    /// Deletes a context, but for what others continue. Pages of loaded models go too. Blocks.
    ///
    /// # Errors
    /// Where it is not kept.
    pub fn drop_context(&self, id: &str) -> Result<Deletion, Error> {
        let last = self.context(id)?;
        // Its tokens may be unknown here, so its own pages cannot be determined.
        self.engine.clear_caches(None);
        Ok(self.tiers()?.forget(&last, DELETION))
    }

    /// Brings an owner's contexts up to RAM, since they will be wanted soon. Returns how many there are.
    ///
    /// # Errors
    /// Where nothing is kept.
    pub fn prefetch_owner(&self, owner: &Owner) -> Result<usize, Error> {
        let tiers = self.tiers()?;
        let theirs = tiers.stored_prefixes(usize::MAX).into_iter().filter(|context| context.owners.contains(owner));
        Ok(theirs.map(|context| tiers.prefetch(&context.last)).count())
    }

    /// Deletes all that only this owner has, also in the pages of loaded models. Blocks.
    pub fn forget_owner(&self, owner: &Owner) -> Deletion {
        self.engine.clear_caches(Some(owner));
        self.kept.as_ref().map_or_else(Deletion::default, |kept| kept.tiers.forget_owner(owner, DELETION))
    }

    /// Deletes all that is kept, in one place or everywhere; then also what pages of loaded models hold. Blocks until it is removed.
    pub fn clear(&self, place: Option<TierKind>) -> Deletion {
        if place.is_none() {
            self.engine.clear_caches(None);
        }
        let Some(kept) = &self.kept else { return Deletion::default() };
        match place {
            Some(place) => kept.tiers.clear_tier(place, DELETION),
            None => kept.tiers.clear(DELETION),
        }
    }

    pub(crate) fn tiers(&self) -> Result<&cairn_tier::Tiers, Error> {
        self.kept.as_ref().map(|kept| &*kept.tiers).ok_or(Error::Off)
    }

    /// The context whose id begins so.
    fn context(&self, asked: &str) -> Result<ChunkId, Error> {
        let none = || Error::NoContext(asked.to_owned());
        if asked.len() < LEAST_ID_LETTERS || asked.len() > ID_LETTERS {
            return Err(none());
        }
        let all = self.tiers()?.stored_prefixes(usize::MAX).into_iter();
        let mut found = all.map(|context| context.last).filter(|last| id(last).starts_with(asked));
        match (found.next(), found.next()) {
            (Some(last), None) => Ok(last),
            (Some(_), Some(_)) => Err(Error::Ambiguous(asked.to_owned())),
            (None, _) => Err(none()),
        }
    }
}

impl CacheStatus {
    /// Why a place is not as it should be, for people.
    #[must_use]
    pub fn reason(health: Health) -> Option<&'static str> {
        match health {
            Health::Up => None,
            Health::Scanning => Some("its chunks are being listed"),
            Health::ReadOnly => Some("it is full, or a write failed: nothing is written for a while"),
            Health::Suspect => Some("it gave damaged chunks: nothing is written until the daemon is started anew"),
            Health::Unavailable => Some("it does not answer, and is asked again in a while"),
        }
    }
}

fn id(last: &ChunkId) -> String {
    last.hash.to_string().chars().take(ID_LETTERS).collect()
}

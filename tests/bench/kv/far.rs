//! Cost of a remote tier that hangs, is slow or fails: `cargo xtask bench kv-far [--shape 1b] [--tokens 512]`.
//!
//! Prompts are computed and stored in a folder that simulates a remote tier. Then two prompts alternate: one that is
//! not stored and must be computed, and one that is stored, while the tier hangs, answers after two seconds, or fails.
//! The tiers are reopened each time, so that they have no health record of the remote tier.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use cairn_tier::remote::FileEntry;
use cairn_tier::{Config, FileStore, LowerTier, RemoteOptions, RemoteTier, SharedFolder, TierError, Tiers};

use super::bars::{Bar, median, report};
use super::{Options, Running, Shape, block_on, place};

const ROUNDS: u64 = 15;
/// Most extra time of an answer compared with a computed one.
const BAR: Duration = Duration::from_millis(100);
/// Timeout for the scan of the tier and for writes from RAM.
const WITHIN: Duration = Duration::from_secs(60);

/// How the remote tier responds to a read.
#[derive(Clone, Copy, PartialEq)]
enum Problem {
    Silent,
    Late,
    Fails,
}

pub(crate) fn run(folder: &Path, options: &Options) -> anyhow::Result<()> {
    let shape = super::shape(options.shape.as_deref().unwrap_or("1b"))?;
    let tokens = options.tokens.unwrap_or(512);
    let share = folder.join("kv-far");
    if share.exists() {
        fs::remove_dir_all(&share)?;
    }
    fs::create_dir_all(&share)?;
    let problems = [("says nothing", Problem::Silent), ("answers after 2 s", Problem::Late), ("fails", Problem::Fails)];
    let mut bars = Vec::new();
    for (name, problem) in problems {
        let bench = Bench { shape: &shape, folder, share: &share, tokens, problem };
        let (mut computed, mut more) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let (plain, slow) = block_on(bench.round(round))?;
            computed.push(plain);
            more.push(slow - plain);
        }
        let more = median(&more);
        let figure = format!("{:+.0} ms ({:.2} s computed)", more * 1e3, median(&computed));
        bars.push(Bar::new(format!("a place that {name}"), "<= +100 ms", figure, more <= BAR.as_secs_f64()));
    }
    fs::remove_dir_all(&share)?;
    report(&bars)
}

struct Bench<'a> {
    shape: &'a Shape,
    folder: &'a Path,
    share: &'a Path,
    tokens: usize,
    problem: Problem,
}

impl Bench<'_> {
    /// Seconds to the first token of a computed prompt and of a stored one.
    async fn round(&self, round: u64) -> anyhow::Result<(f64, f64)> {
        let seed = 100 * (1 + round) + self.problem as u64;
        let kept = self.shape.prompt(seed, self.tokens);
        let (tiers, _) = self.open()?;
        let running = Running::load(self.shape, self.folder, Some(place::kept(&tiers)), self.tokens + 64).await?;
        running.ask(kept.clone(), 1, |_, _| ()).await?;
        running.unload().await?;
        tiers.shut_down(WITHIN);

        let (tiers, faulty) = self.open()?;
        let running = Running::load(self.shape, self.folder, Some(place::kept(&tiers)), self.tokens + 64).await?;
        faulty.now.store(true, Ordering::Relaxed);
        running.ask(self.shape.prompt(seed + 10, 64), 1, |_, _| ()).await?;
        let plain = running.ask(self.shape.prompt(seed + 20, self.tokens), 1, |_, _| ()).await?;
        let slow = running.ask(kept, 1, |_, _| ()).await?;
        ensure!(slow.finish.usage.restored.remote_tokens == 0, "the remote tier supplied rows");
        ensure!(
            faulty.reads.load(Ordering::Relaxed) > 0,
            "the remote tier was not read: {:?}",
            slow.finish.usage.restored
        );
        running.unload().await?;
        tiers.shut_down(Duration::from_millis(100));
        Ok((plain.first.as_secs_f64(), slow.first.as_secs_f64()))
    }

    /// Tiers with RAM and a remote tier only, and that remote tier.
    fn open(&self) -> anyhow::Result<(Arc<Tiers>, Arc<FaultyShare>)> {
        let (share, problem) = (SharedFolder::new(self.share), self.problem);
        let files = Arc::new(FaultyShare { share, problem, now: AtomicBool::new(false), reads: AtomicU64::new(0) });
        let clock = place::Wall::start();
        let keys = RemoteTier::keys(&place::namespace());
        let remote =
            RemoteTier::open(Arc::clone(&files) as _, keys, RemoteOptions::default(), Arc::clone(&clock) as _, || {
                [0; 24]
            })?;
        let remote = Some(LowerTier::remote(&Arc::new(remote), 40 << 30, true));
        // Without a RAM budget, nothing is prefetched while the model loads.
        let config = Config { remote, min_tokens: 0, min_recompute: Duration::ZERO, ..Config::new(0) };
        let tiers = Tiers::open(config, clock)?;
        ensure!(tiers.wait_idle(WITHIN), "the scan of the remote tier timed out");
        Ok((Arc::new(tiers), files))
    }
}

/// A folder with faulty reads from some moment on.
struct FaultyShare {
    share: SharedFolder,
    problem: Problem,
    now: AtomicBool,
    /// Reads since that moment.
    reads: AtomicU64,
}

impl FileStore for FaultyShare {
    fn threads(&self) -> usize {
        self.share.threads()
    }

    fn list(&self, each: &mut dyn FnMut(&str, FileEntry) -> bool, within: Duration) -> Result<(), TierError> {
        self.share.list(each, within)
    }

    fn read(
        &self,
        name: &str,
        part: Range<u64>,
        within: Duration,
        heard: &dyn Fn(),
    ) -> Result<Option<Vec<u8>>, TierError> {
        if !self.now.load(Ordering::Relaxed) {
            return self.share.read(name, part, within, heard);
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        match self.problem {
            Problem::Silent => std::thread::sleep(within),
            Problem::Late => std::thread::sleep(Duration::from_secs(2)),
            Problem::Fails => return Err(TierError::Unavailable("500 Internal Server Error".to_owned())),
        }
        self.share.read(name, part, within, heard)
    }

    fn create(&self, name: &str, file: Vec<u8>, draft: &str, within: Duration) -> Result<bool, TierError> {
        self.share.create(name, file, draft, within)
    }

    fn replace(&self, name: &str, file: Vec<u8>, draft: &str, within: Duration) -> Result<(), TierError> {
        self.share.replace(name, file, draft, within)
    }

    fn remove(&self, name: &str, within: Duration) -> Result<(), TierError> {
        self.share.remove(name, within)
    }
}

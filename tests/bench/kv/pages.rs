//! Pages with a cache and without computation, to measure flush and restore alone.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use cairn_gguf::DType;
use cairn_kv::{Budget, Cache, FLUSH_SLICE_BYTES, ModelTiers, RestorePoll};
use cairn_models::ModelFile;
use cairn_tensor::{Backend, Cpu, Kv, Limits, PAGE_TOKENS, PageLayout, StateId, Team};
use cairn_tier::{CostModel, Fingerprint, NumericClass, RowTypes, SsdOptions, Tiers, WeightsDigest};

use super::{Shape, place};

/// Approximate size of a prompt's rows in bytes by default.
pub(crate) const BYTES: u64 = 1 << 30;

/// A backend with a cache, without a scheduler. Its weights are zeros: nothing is computed here.
pub(crate) struct Pages {
    backend: Cpu,
    layout: PageLayout,
    cache: Cache,
}

impl Pages {
    pub(crate) fn new(folder: &Path, shape: &Shape) -> anyhow::Result<Self> {
        let path = folder.join("kv-zeros.gguf");
        cairn_testkit::write_sparse(&shape.spec, &path)?;
        let machine = cairn_hardware::Machine::probe();
        let variant = cairn_kernels::usable(&machine.cpu.features)[0];
        let team = Arc::new(Team::new(1, &machine.cpu.usable_cores)?);
        let mut backend = Cpu::new(variant, team);
        let model = cairn_models::load(&ModelFile::open(&path)?, 1024, &mut backend)?;
        let layout = model.plan.page_layout(DType::F16);
        backend.prepare(model.plan, Limits { rows: 1, logit_rows: 1 })?;
        fs::remove_file(path)?;
        let cache = Cache::new(layout.clone(), Arc::new(Budget::new(4 * BYTES)));
        Ok(Self { backend, layout, cache })
    }

    pub(crate) fn token_bytes(&self) -> u64 {
        self.page_bytes() / PAGE_TOKENS as u64
    }

    fn page_bytes(&self) -> u64 {
        self.sections().map(|(state, kv)| self.layout.section(state, kv).len() as u64).sum()
    }

    fn sections(&self) -> impl Iterator<Item = (StateId, Kv)> + use<> {
        (0..self.layout.sections.len() as u32).flat_map(|state| Kv::ALL.map(|kv| (StateId(state), kv)))
    }

    fn attach_tiers(&mut self, tiers: &Arc<Tiers>) {
        let model = ModelTiers {
            tiers: Arc::clone(tiers),
            namespace: place::namespace(),
            fingerprint: Fingerprint::new(WeightsDigest([1; 32]), []),
            class: NumericClass::new("bench").expect("a short name"),
            groups: cairn_kv::groups(&self.layout),
            rows: RowTypes { keys: DType::F16, values: DType::F16 },
        };
        self.cache.attach_tiers(model, CostModel::new(Duration::from_millis(10)));
    }

    /// Fills a prompt's pages with numbers as rows have them.
    fn hold(&mut self, tiers: &Arc<Tiers>, prompt: &[u32]) -> anyhow::Result<()> {
        self.attach_tiers(tiers);
        let (seq, _) = self.cache.open(prompt);
        self.cache.reserve(&mut self.backend, seq, prompt.len())?;
        let longest = self.sections().map(|(state, kv)| self.layout.section(state, kv).len()).max().unwrap_or(0);
        let mut random = cairn_testkit::Random::new(5);
        let values: Vec<f32> = (0..longest / 2).map(|_| random.normal()).collect();
        let mut rows = Vec::new();
        DType::F16.encode(&values, &mut rows).context("F16 has an encoder")?;
        for page in self.cache.pages(seq).to_vec() {
            for (state, kv) in self.sections() {
                let bytes = self.layout.section(state, kv).len();
                self.backend.write_section(page, state, kv, &rows[..bytes]);
            }
        }
        self.cache.advance(seq, prompt);
        self.cache.close(seq);
        Ok(())
    }

    /// Fills a prompt's pages and stores all of them.
    pub(crate) fn fill(&mut self, tiers: &Arc<Tiers>, prompt: &[u32]) -> anyhow::Result<()> {
        self.hold(tiers, prompt)?;
        self.cache.flush_all(&self.backend, || {
            std::thread::sleep(Duration::from_millis(5));
            true
        });
        self.cache.clear();
        Ok(())
    }

    pub(crate) fn write(&mut self, chunks: &Path, options: SsdOptions, prompt: &[u32]) -> anyhow::Result<()> {
        let tiers = place::open(chunks, 2 * BYTES, options, false)?;
        self.fill(&tiers, prompt)?;
        place::close(&tiers);
        Ok(())
    }

    /// Bytes per second of restoring all but the last token.
    pub(crate) fn restore(&mut self, tiers: &Arc<Tiers>, prompt: &[u32]) -> anyhow::Result<f64> {
        self.attach_tiers(tiers);
        let began = Instant::now();
        let (seq, known) = self.cache.open(prompt);
        ensure!(known == 0, "{known} tokens are in pages already");
        let mut restore = self.cache.begin_restore(seq, prompt).restore.context("nothing was kept")?;
        let mut tokens = 0;
        while tokens + 1 < prompt.len() {
            match self.cache.poll_restore(&mut self.backend, seq, prompt, &mut restore) {
                RestorePoll::Tokens(more, _) => tokens += more,
                RestorePoll::Pending => std::thread::sleep(Duration::from_micros(200)),
                other => anyhow::bail!("the restore stopped at {tokens} tokens: {other:?}"),
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        drop(restore);
        self.cache.discard(seq);
        self.cache.clear();
        Ok(tokens as f64 * self.token_bytes() as f64 / seconds)
    }

    /// Seconds of each flush step, in the size that is used while answers are generated: the wait of an answer.
    pub(crate) fn stalls(&mut self, tiers: &Arc<Tiers>, prompt: &[u32]) -> anyhow::Result<Vec<f64>> {
        self.hold(tiers, prompt)?;
        // Prompts that are used twice are stored at once.
        let (seq, known) = self.cache.open(prompt);
        ensure!(known + 1 == prompt.len(), "{known} tokens are in pages");
        self.cache.close(seq);
        let mut stalls = Vec::new();
        loop {
            let began = Instant::now();
            if !self.cache.flush_some(&self.backend, FLUSH_SLICE_BYTES) {
                break;
            }
            stalls.push(began.elapsed().as_secs_f64());
        }
        self.cache.clear();
        Ok(stalls)
    }
}

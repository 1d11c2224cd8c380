//! Computes the inputs of a model's matrices on a text, for an importance matrix.
//!
//! The text is cut into chunks of equal length, and each is computed as a sequence of its own, as llama.cpp does it. A chunk
//! begins with the token that begins a text, if the vocabulary adds one.

use std::path::Path;
use std::sync::Arc;

use cairn_hardware::Machine;
use cairn_models::ModelFile;
use cairn_tensor::cpu::{InputSquares, variants};
use cairn_tensor::{Backend, Batch, Cpu, Limits, PAGE_TOKENS, PageId, PlanId, Row, SnapshotId, SnapshotTable, Team};
use cairn_tokenizer::{EncodeOptions, Tokenizer};

use crate::error::LoadError;
use crate::loaded;
use crate::request::GenerateError;

/// A model that computes chunks of a text.
pub struct ImportanceRun {
    file: ModelFile,
    backend: Cpu,
    plan: PlanId,
    tokenizer: Tokenizer,
    chunk_tokens: usize,
    begin: Option<u32>,
}

impl ImportanceRun {
    /// Loads a model for chunks of this many tokens, with one thread for each usable core.
    ///
    /// # Errors
    /// When the model cannot be loaded.
    pub fn open(path: &Path, machine: &Machine, chunk_tokens: usize) -> Result<Self, LoadError> {
        let file = ModelFile::open(path)?;
        let variant = variants(&machine.cpu.features, None).expect("nothing is forced")[0];
        let cores = &machine.cpu.usable_cores;
        let team = Team::new(cores.len().max(1), &[]).map_err(LoadError::Thread)?;
        let mut backend = Cpu::new(variant, Arc::new(team));
        let (tokenizer, model) = loaded::read(&file, &[], chunk_tokens, &mut backend)?;
        if model.hparams.embedding.is_some() {
            let what = "an importance matrix of an embedding model".to_owned();
            return Err(cairn_models::LoadError::Unsupported { what }.into());
        }
        if model.store.is_some() {
            let what = "an importance matrix of a model with an encoder and a decoder".to_owned();
            return Err(cairn_models::LoadError::Unsupported { what }.into());
        }
        let plan = backend.prepare(model.plan, Limits { rows: chunk_tokens, logit_rows: 1 })?;
        backend.grow_pages(chunk_tokens.div_ceil(PAGE_TOKENS))?;
        backend.grow_snapshots(1)?;
        backend.collect_squares();
        let special = EncodeOptions { add_special: true, ..EncodeOptions::default() };
        let begin = tokenizer.adds_bos().then(|| tokenizer.encode("", special).first().copied()).flatten();
        Ok(Self { file, backend, plan, begin, tokenizer, chunk_tokens })
    }

    /// Returns the tokens of a text.
    pub fn tokenize(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode(text, EncodeOptions::default())
    }

    /// Tokens of the text in a chunk.
    pub fn text_tokens(&self) -> usize {
        self.chunk_tokens - usize::from(self.begin.is_some())
    }

    /// Computes a chunk: at most [`ImportanceRun::text_tokens`] tokens.
    ///
    /// # Errors
    /// When the backend rejects it, or the file has changed.
    pub fn add(&mut self, tokens: &[u32]) -> Result<(), GenerateError> {
        let tokens: Vec<u32> = self.begin.iter().chain(tokens).copied().collect();
        let rows = tokens.iter().zip(0..).map(|(&token, slot)| Row::text(0, token, slot, false)).collect();
        let pages = (0..self.chunk_tokens.div_ceil(PAGE_TOKENS) as u32).map(PageId).collect();
        // A chunk begins without recurrent states. Those at its end are not used.
        let snapshots = vec![SnapshotTable { from: None, to: vec![(tokens.len() as u32, SnapshotId(0))] }];
        let batch = Batch { rows, tables: vec![pages], snapshots, ..Batch::default() };
        self.backend.run(self.plan, &batch).map_err(|error| GenerateError::Backend(error.to_string()))?;
        self.file.check().map_err(|error| GenerateError::ModelVanished(error.to_string()))
    }

    /// Returns the squared inputs of the matrices of all layers.
    pub fn finish(mut self) -> Vec<InputSquares> {
        let mut squares = self.backend.take_squares(self.plan);
        squares.retain(|squares| squares.name.starts_with("blk."));
        squares
    }
}

//! An engine with small random models, and requests to it.

use std::path::{Path, PathBuf};

use cairn_gguf::{DType, Gguf};
use cairn_hardware::Machine;
use cairn_runtime::{
    Engine, EngineConfig, Event, Finish, GenerateError, Generation, KeepAlive, Lease, LoadOptions, Request, Sampling,
    Source,
};
use tempfile::TempDir;

pub(crate) fn config() -> EngineConfig {
    EngineConfig {
        machine: Machine::probe(),
        kernel: None,
        kv_budget_bytes: Some(64 << 20),
        kv_type: DType::F16,
        parallel: 4,
        max_loaded: 2,
        max_queue: 16,
        keep_alive: KeepAlive::Forever,
        load_timeouts: cairn_runtime::LoadTimeouts::default(),
        seed: 1,
        cache_tiers: None,
    }
}

pub(crate) fn model(folder: &TempDir, seed: u64) -> PathBuf {
    let path = folder.path().join(format!("{seed}.gguf"));
    let spec = cairn_testkit::ModelSpec { seed, ..cairn_testkit::tiny_llama() };
    cairn_testkit::write_file(&spec, &path).expect("the folder is writable");
    path
}

pub(crate) async fn lease(engine: &Engine, path: &Path) -> Lease {
    let id = path.display().to_string();
    engine.acquire(id, Source::File(path.to_owned()), LoadOptions::default(), None).await.expect("the model loads")
}

pub(crate) fn prompt(seed: u32, tokens: u32) -> Vec<u32> {
    (0..tokens).map(|at| (seed * 7919 + at * 31) % 300).collect()
}

pub(crate) fn greedy(prompt: Vec<u32>, tokens: u32) -> Request {
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    Request { prompt, sampling, max_tokens: Some(tokens), ..Request::default() }
}

/// Replaces the values of F32 tensors in a file: all those of a tensor for which `value` gives a number.
pub(crate) fn fill_tensors(path: &Path, value: impl Fn(&str) -> Option<f32>) {
    let mut bytes = std::fs::read(path).expect("the file was written");
    let head = Gguf::parse(&bytes).expect("a valid file");
    let mut filled = 0;
    for tensor in head.tensors() {
        let Some(value) = value(&tensor.name) else { continue };
        assert_eq!(tensor.dtype, DType::F32, "{}", tensor.name);
        let values = &mut bytes[tensor.offset as usize..(tensor.offset + tensor.bytes) as usize];
        values.chunks_exact_mut(4).for_each(|x| x.copy_from_slice(&value.to_le_bytes()));
        filled += 1;
    }
    assert!(filled > 0, "the file has such a tensor");
    std::fs::write(path, bytes).expect("the folder is writable");
}

/// Reads a generation to its end.
pub(crate) async fn answer(mut events: Generation) -> Result<Finish, GenerateError> {
    loop {
        match events.recv().await.expect("a generation has a last event") {
            Event::Delta(_) | Event::ContextFull(_) => {}
            Event::Finish(finish) => return Ok(finish),
            Event::Error(error) => return Err(error),
        }
    }
}

//! Adapters: sequences of one batch that use different ones, and caches that never mix their rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_gguf::{DType, Gguf, Writer};
use cairn_runtime::{
    AdapterSource, AdapterUse, Engine, Finish, GenerateError, Lease, LoadError, LoadOptions, NotFinite, Request, Source,
};
use cairn_tier::WeightsDigest;
use tempfile::TempDir;

use super::common::{answer, config, fill_tensors, greedy, model, prompt};
use super::tiers;

const RANK: u64 = 4;

/// Writes an adapter of the attention of a model's first layer.
fn adapter(folder: &TempDir, model: &Path, seed: u8) -> AdapterSource {
    let bytes = std::fs::read(model).expect("the model was written");
    let head = Gguf::parse(&bytes).expect("a valid model");
    let mut writer = Writer::default();
    writer.set("general.architecture", head.metadata().required_str("general.architecture").expect("a family"));
    writer.set("general.type", "adapter").set("adapter.type", "lora").set("adapter.lora.alpha", 8.0f32);
    let mut state = u32::from(seed) + 1;
    let mut random = |count: u64| {
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        (0..count).flat_map(|_| next().to_le_bytes()).collect::<Vec<u8>>()
    };
    for name in ["blk.0.attn_q.weight", "blk.0.attn_v.weight", "blk.0.attn_output.weight"] {
        let dims = &head.tensor(name).expect("a decoder has it").dims;
        for (part, dims) in [("a", [dims[0], RANK]), ("b", [RANK, dims[1]])] {
            let bytes = random(dims[0] * dims[1]);
            writer.tensor(format!("{name}.lora_{part}"), DType::F32, &dims, bytes).expect("valid tensor");
        }
    }
    let path = folder.path().join(format!("adapter-{seed}.gguf"));
    std::fs::write(&path, writer.finish()).expect("the folder is writable");
    AdapterSource { path, digest: Some([seed; 32]) }
}

async fn load(engine: &Engine, path: &Path, adapters: &[AdapterSource]) -> Result<Lease, LoadError> {
    let weights = Some(WeightsDigest([7; 32]));
    let adapters = adapters.to_vec();
    let options = LoadOptions { context_tokens: Some(2048), weights, adapters, ..LoadOptions::default() };
    engine.acquire("m".to_owned(), Source::File(path.to_owned()), options, None).await
}

fn with(seed: u32, uses: &[(u32, f32)]) -> Request {
    let adapters = uses.iter().map(|&(adapter, scale)| AdapterUse { adapter, scale }).collect();
    Request { adapters: Some(adapters), ..greedy(prompt(seed, 300), 24) }
}

async fn ask(lease: &Lease, request: Request) -> Finish {
    answer(lease.generate(request)).await.expect("the generation finishes")
}

#[tokio::test(flavor = "multi_thread")]
async fn sequences_with_different_adapters_share_batches_but_no_rows() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = model(&folder, 1);
    let adapters = [adapter(&folder, &path, 1), adapter(&folder, &path, 2)];
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let lease = load(&engine, &path, &adapters).await.expect("the model loads");
    let selections: [&[(u32, f32)]; 4] = [&[], &[(0, 1.0)], &[(0, 0.5)], &[(0, 1.0), (1, 1.0)]];
    let mut alone = Vec::new();
    for uses in selections {
        let first = ask(&lease, with(3, uses)).await;
        assert_eq!(first.usage.cached_tokens, 0, "{uses:?}: rows of other adapters are not used");
        let again = ask(&lease, with(3, uses)).await;
        assert_eq!(again.usage.cached_tokens, 299, "{uses:?}: its own rows are used");
        assert_eq!(again.tokens, first.tokens, "{uses:?}: a cached prefix gives the same answer");
        alone.push(first.tokens);
    }
    assert_ne!(alone[0], alone[1], "an adapter changes the answer");
    let all = ask(&lease, greedy(prompt(3, 300), 24)).await;
    assert_eq!(all.tokens, alone[3], "without a selection, all adapters are used");
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let lease = load(&engine, &path, &adapters).await.expect("the model loads");
    let at_once: Vec<_> = selections.iter().map(|uses| lease.generate(with(3, uses))).collect();
    for (answers, alone) in at_once.into_iter().zip(&alone) {
        let finish = answer(answers).await.expect("the generation finishes");
        assert_eq!(&finish.tokens, alone, "an answer does not depend on the batch");
    }
    let plain = Engine::start(config()).expect("a kernel variant runs");
    let plain = load(&plain, &path, &[]).await.expect("the model loads");
    assert_eq!(ask(&plain, with(3, &[])).await.tokens, alone[0], "no adapter is the model without adapters");
}

#[tokio::test(flavor = "multi_thread")]
async fn tiers_restore_rows_of_the_same_adapter_only() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = model(&folder, 5);
    let adapters = [adapter(&folder, &path, 1)];
    let kept = tiers::tiers(&folder.path().join("kept"));
    let engine = tiers::engine(Some(&kept));
    let holders = Arc::strong_count(&kept);
    let restored = async |adapters: &[AdapterSource], uses: &[(u32, f32)]| {
        let lease = load(&engine, &path, adapters).await.expect("the model loads");
        let request = Request { prompt: prompt(1, 900), ..with(1, uses) };
        let finish = ask(&lease, request).await;
        drop(lease);
        tiers::unload(&engine, &kept, holders).await;
        finish.usage.restored.ram_tokens
    };
    assert_eq!(restored(&adapters, &[(0, 1.0)]).await, 0, "the tiers are empty");
    assert_eq!(restored(&adapters, &[(0, 1.0)]).await, 899, "the same adapter and scale");
    assert_eq!(restored(&adapters, &[(0, 0.5)]).await, 0, "another scale");
    assert_eq!(restored(&adapters, &[]).await, 0, "no adapter");
    let other = [AdapterSource { digest: Some([9; 32]), ..adapters[0].clone() }];
    assert_eq!(restored(&other, &[(0, 1.0)]).await, 0, "another file");
    let unknown = [AdapterSource { digest: None, ..adapters[0].clone() }];
    assert_eq!(restored(&unknown, &[(0, 1.0)]).await, 0, "a file without a digest");
    assert_eq!(restored(&unknown, &[(0, 1.0)]).await, 0, "its rows were not stored");
    assert_eq!(restored(&[], &[]).await, 0, "the model without adapters");
    assert_eq!(restored(&[], &[]).await, 899, "its own rows");
}

#[tokio::test(flavor = "multi_thread")]
async fn adapter_whose_products_overflow_fails_with_an_error_that_names_it() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = model(&folder, 1);
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let source = adapter(&folder, &path, 1);
    fill_tensors(&source.path, |_| Some(1e30));
    let lease = load(&engine, &path, &[source]).await.expect("its numbers are finite");
    // Less than a page, so that all rows belong to the failed sequence.
    let short = |uses: &[(u32, f32)]| Request { prompt: prompt(3, 40), ..with(3, uses) };
    for _ in 0..2 {
        let failed = [short(&[(0, 1.0)]), short(&[])].map(|request| lease.generate(request));
        let [adapted, plain] = failed.map(answer);
        let error = adapted.await.expect_err("its logits are no numbers");
        assert!(matches!(error, GenerateError::NotFinite(NotFinite::AdaptedLogits)), "{error}");
        assert!(error.to_string().contains("adapter"), "{error}");
        plain.await.expect("a request without the adapter is answered");
    }
    let lease = Arc::new(lease);
    let lookup = tokio::task::spawn_blocking(move || lease.lookup_prefix(&prompt(3, 40), &[], None));
    assert_eq!(lookup.await.expect("it does not panic").memory_tokens, 0, "no rows of the failed sequence are cached");
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_adapters_and_selections_are_refused() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = model(&folder, 1);
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let missing = AdapterSource { path: PathBuf::from("/nowhere/a.gguf"), digest: None };
    let error = load(&engine, &path, &[missing]).await.err().expect("no such file").to_string();
    assert!(error.contains("/nowhere/a.gguf: no such file"), "{error}");
    let a_model = AdapterSource { path: path.clone(), digest: None };
    let error = load(&engine, &path, &[a_model]).await.err().expect("a model is no adapter").to_string();
    assert!(error.contains("`general.type` must be \"adapter\""), "{error}");
    let lease = load(&engine, &path, &[adapter(&folder, &path, 1)]).await.expect("the model loads");
    let error = answer(lease.generate(with(1, &[(1, 1.0)]))).await.expect_err("one adapter").to_string();
    assert!(error.contains("the model has 1"), "{error}");
    assert!(answer(lease.generate(with(1, &[(0, 1.0)]))).await.is_ok(), "the model still answers");
}

//! Models with an adapter in safetensors files.

use cairn_gguf::{DType, Gguf};
use cairn_testkit::checkpoint::{AdapterSpec, Checkpoint, CheckpointSpec, Storage, Vocabulary, adapter, checkpoint};
use cairn_testkit::{ModelSpec, tiny_llama, tiny_qwen3};

use super::*;

const RANK: u64 = 4;

/// A small Llama, and the files of its adapter.
fn llama() -> (Checkpoint, Vec<(String, Vec<u8>)>) {
    let model = ModelSpec { vocab: 520, ..tiny_llama() };
    let (storage, vocabulary) = (Storage::Float(DType::F32), Vocabulary::Bytes);
    let spec = CheckpointSpec { model, architecture: "LlamaForCausalLM", model_type: "llama", storage, vocabulary };
    let made = checkpoint(&spec);
    let spec = AdapterSpec {
        config: json!({"r": RANK, "lora_alpha": 8, "base_model_name_or_path": "someone/base"}),
        rank: |_| RANK,
        scale: |_| 2.0,
        changes: |module| module.ends_with("_proj"),
        seed: 1,
    };
    let files = adapter(&made.files, &spec).adapter;
    (made, files)
}

#[tokio::test]
async fn adapter_in_safetensors_files_is_converted_and_stored() {
    let fixture = fixture();
    let (base, files) = llama();
    let adapters = send_all(&fixture, &files).await;
    let base = send(&fixture, "m.gguf", &base.model).await;
    create(&fixture, of_files("base", vec![base])).await.unwrap();
    let statuses = create(&fixture, Create { adapters: adapters.clone(), ..of("tuned", "base") }).await.unwrap();
    assert_eq!(statuses.last().map(String::as_str), Some("success"), "{statuses:?}");
    let shown = fixture.app.library().show("tuned", false).unwrap().modelfile;
    let path = shown.lines().find_map(|line| line.strip_prefix("ADAPTER ")).expect("the model has an adapter");
    let head = Gguf::parse(&std::fs::read(path).unwrap()).expect("the adapter is a GGUF file");
    assert_eq!(head.metadata().str("general.architecture"), Ok(Some("llama")));
    assert!(head.tensor("blk.0.attn_q.weight.lora_a").is_some_and(|tensor| tensor.dims[1] == RANK));
    fixture.app.inference().load("tuned", false, None).await.expect("the model loads with its adapter");
    let digest = path.rsplit('-').next().expect("the file's name has a digest");
    assert!(statuses.iter().any(|status| status.starts_with("creating new layer") && status.contains(digest)));
    let again = create(&fixture, Create { adapters, ..of("again", "base") }).await.unwrap();
    assert!(again.iter().any(|status| status.contains(digest)), "the same adapter: {again:?}");
}

#[tokio::test]
async fn adapter_of_another_model_is_refused_before_anything_is_created() {
    let fixture = fixture();
    let (_, files) = llama();
    let adapters = send_all(&fixture, &files).await;
    for (name, spec) in [("other", ModelSpec { width: 192, ..tiny_llama() }), ("qwen", tiny_qwen3())] {
        let base = send(&fixture, "m.gguf", &cairn_testkit::write(&spec)).await;
        create(&fixture, of_files(name, vec![base])).await.unwrap();
        let error = create(&fixture, Create { adapters: adapters.clone(), ..of("tuned", name) }).await.unwrap_err();
        assert!(error.contains("does not fit the base model") && error.contains("\"someone/base\""), "{error}");
        assert!(fixture.app.library().show("tuned", false).is_err(), "nothing was created");
    }
    let alone = adapters.into_iter().filter(|(name, _)| name.ends_with(".safetensors")).collect();
    let error = create(&fixture, Create { adapters: alone, ..of("tuned", "pebble") }).await.unwrap_err();
    assert!(error.starts_with("adapter_config.json: it is missing"), "{error}");
}

#[tokio::test]
async fn several_adapters_are_refused() {
    let fixture = fixture();
    let (base, files) = llama();
    let adapters = send_all(&fixture, &files).await;
    let base = send(&fixture, "m.gguf", &base.model).await;
    create(&fixture, of_files("base", vec![base])).await.unwrap();
    create(&fixture, Create { adapters: adapters.clone(), ..of("tuned", "base") }).await.unwrap();
    let shown = fixture.app.library().show("tuned", false).unwrap().modelfile;
    let path = shown.lines().find_map(|line| line.strip_prefix("ADAPTER ")).expect("the model has an adapter");
    let converted = std::fs::read(path).unwrap();
    let weights = &files.iter().find(|(name, _)| name.ends_with(".safetensors")).expect("weights").1;
    for (name, contents) in [("other.gguf", &converted), ("adapter", &converted), ("other.safetensors", weights)] {
        let more = send(&fixture, name, contents).await;
        let adapters = [adapters.clone(), vec![more]].concat();
        let error = create(&fixture, Create { adapters, ..of("several", "base") }).await.unwrap_err();
        assert!(error.contains("adapter"), "{name}: {error}");
        assert!(fixture.app.library().show("several", false).is_err(), "{name}: nothing was created");
    }
}

//! Pulls of models that this version cannot run, and of ones that it can.

use cairn_gguf::{Array, DType, Gguf, Strings, Value, Writer};
use cairn_testkit::registry::Fault;

use super::*;

const MODEL: &str = "application/vnd.ollama.image.model";
const CONFIG: &[u8] = br#"{"model_format":"gguf"}"#;
const MIB: u64 = 1 << 20;
/// Bytes that a server sends into the buffers of a few connections before it notices that the client has closed them.
const BUFFERS: u64 = 32 * MIB;

/// A fixture with a fast registry.
pub(super) fn fast() -> Fixture {
    let at = fixture();
    at.registry.set_faults(Faults::default());
    at
}

impl Fixture {
    fn publish_model(&self, model: &str, file: &[u8]) -> Pull {
        self.publish_layers(model, MODEL, &[file], CONFIG)
    }

    /// Bytes of a file that the registry has sent.
    fn sent(&self, file: &[u8]) -> u64 {
        self.registry.sent_bytes(&Digest::of(file).to_string())
    }
}

/// A file of an architecture, with `tensor_bytes` of tensors.
fn file(architecture: &str, texts: &[&str], tensor_bytes: usize) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.set("general.architecture", architecture);
    let texts: Strings = texts.iter().copied().collect();
    writer.set("tokenizer.ggml.tokens", Value::Array(Array::String(texts)));
    let data: Vec<u8> = (0..tensor_bytes).map(|at| (at % 251) as u8).collect();
    writer.tensor("token_embd.weight", DType::F32, &[tensor_bytes as u64 / 4], data).expect("the tensor is sound");
    writer.finish()
}

pub(super) async fn last_event(app: &App, pull: Pull) -> String {
    event_texts(app.transfers().pull(pull).unwrap()).await.pop().expect("a pull ends with an event")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_architecture_is_refused_before_the_tensors_are_downloaded() {
    let at = fast();
    let app = at.app();
    let file = file("lorem", &["a", "b"], 16 << 20);
    let pull = at.publish_model("m", &file);
    let last = last_event(&app, pull.clone()).await;
    assert!(last.contains("cannot run") && last.contains("here yet: architecture lorem"), "{last}");
    assert!(last.contains("--force") && last.contains("16.8 MB"), "the size and what to do: {last}");
    assert!(at.sent(&file) <= MIB, "only the beginning: {} bytes", at.sent(&file));
    assert!(app.library().list().unwrap().iter().all(|model| !model.name.contains("/m:")), "the model is not listed");
    let row = &app.transfers().downloads()[0];
    assert!(row.held_bytes >= MIB && row.total_bytes > 16 * MIB, "the beginning is stored: {row:?}");
    assert!(last_event(&app, pull.clone()).await.contains("architecture lorem"), "a second pull is refused too");
    assert!(at.sent(&file) <= MIB, "the stored beginning is used");

    assert_eq!(last_event(&app, Pull { force: true, ..pull }).await, "success", "downloaded on request");
    assert_eq!(at.sent(&file), file.len() as u64, "no byte was sent twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resume_with_force_downloads_a_refused_model() {
    let at = fast();
    let app = at.app();
    let file = file("lorem", &[], 2 << 20);
    assert!(last_event(&app, at.publish_model("m", &file)).await.contains("architecture lorem"));
    let mut working = app.transfers().working();
    app.transfers().resume("1", true).await.unwrap();
    let ended = async {
        while state(&app, "/m:") != Some(PullState::Done) {
            tokio::select! {
                _ = working.changed() => {}
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ended).await.expect("the model is downloaded");
    assert_eq!(at.sent(&file), file.len() as u64, "no byte was sent twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_that_runs_is_downloaded_once() {
    let at = fast();
    let app = at.app();
    let file = cairn_testkit::write(&cairn_testkit::tiny_llama());
    assert!(file.len() as u64 > 2 * MIB, "longer than the first request");
    assert_eq!(last_event(&app, at.publish_model("m", &file)).await, "success");
    assert_eq!(at.sent(&file), file.len() as u64, "each byte was sent once");
    let library = cairn_store::Library::new(at.folder.path().join("models"));
    assert!(std::fs::read(library.blob_path(&Digest::of(&file))).unwrap() == file, "the registry's bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn head_that_is_longer_than_the_first_request_is_completed() {
    let at = fast();
    let app = at.app();
    let text = "x".repeat(60_000);
    // 6 MB of metadata.
    let file = file("ipsum", &vec![text.as_str(); 100], 32 << 20);
    assert!(last_event(&app, at.publish_model("m", &file)).await.contains("architecture ipsum"));
    let sent = at.sent(&file);
    assert!((6 * MIB - MIB..=16 * MIB).contains(&sent), "the head and not much more: {sent}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn untrustworthy_heads_are_refused_within_the_limit() {
    let at = fast();
    let app = at.app();
    let check = async |name: &str, file: Vec<u8>, limit_bytes: u64, part: &str| {
        let last = last_event(&app, at.publish_model(name, &file)).await;
        assert!(last.contains("cannot run") && last.contains(part), "{name}: {part:?} is missing from {last}");
        assert!(at.sent(&file) <= limit_bytes, "{name}: {} bytes were sent", at.sent(&file));
    };
    let noise: Vec<u8> = (0..4 << 20).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    check("noise", noise, MIB, "not a GGUF file").await;

    let head = |tensors: u64, entries: u64, rest: &[u8]| {
        let mut bytes =
            [b"GGUF".as_slice(), &3_u32.to_le_bytes(), &tensors.to_le_bytes(), &entries.to_le_bytes(), rest].concat();
        bytes.resize(48 << 20, 0);
        bytes
    };
    check("counts", head(1 << 60, 1 << 60, &[]), MIB, "its file cannot be read").await;
    // One key with a text of 40 MiB.
    let key = |len: u64| [1_u64.to_le_bytes().as_slice(), b"k", &8_u32.to_le_bytes(), &len.to_le_bytes()].concat();
    check("long-text", head(0, 1, &key(40 << 20)), MIB, "more than 32 MiB").await;
    check("lying-text", head(0, 1, &key(1 << 62)), MIB, "its file cannot be read").await;
    // A tensor of a type that does not exist.
    let tensor = [
        1_u64.to_le_bytes().as_slice(),
        b"t",
        &1_u32.to_le_bytes(),
        &32_u64.to_le_bytes(),
        &999_u32.to_le_bytes(),
        &0_u64.to_le_bytes(),
    ]
    .concat();
    check("type", head(1, 0, &tensor), MIB, "type 999").await;
    // Metadata of many texts that are longer than any model's.
    let text = "y".repeat(65_000);
    check("long-head", file("dolor", &vec![text.as_str(); 600], 1 << 20), 32 * MIB, "more than 32 MiB").await;
    let partials = at.names_in("partials").iter().filter(|name| !name.contains('.')).count();
    assert_eq!(partials, 2, "beginnings that cannot be read are removed, because a source may have sent wrong bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn registry_without_ranges_is_asked_for_the_beginning_too() {
    let at = fixture();
    at.registry.set_faults(Faults { per_1000: vec![(Fault::IgnoreRange, 1000)], ..Faults::default() });
    let app = at.app();
    let unknown = file("lorem", &[], 96 << 20);
    assert!(last_event(&app, at.publish_model("unknown", &unknown)).await.contains("architecture lorem"));
    assert!(at.sent(&unknown) <= BUFFERS, "the registry stops soon: {} bytes", at.sent(&unknown));
    let tiny = cairn_testkit::write(&cairn_testkit::tiny_llama());
    assert_eq!(last_event(&app, at.publish_model("tiny", &tiny)).await, "success");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn config_alone_can_refuse_a_model() {
    let at = fast();
    let app = at.app();
    let file = file("llama", &[], 1 << 20);
    let check = async |config: &[u8], part: &str| {
        let last = last_event(&app, at.publish_layers("m", MODEL, &[&file], config)).await;
        assert!(last.contains(part), "{part:?} is missing from {last}");
        assert_eq!(at.sent(&file), 0, "nothing of the model was requested");
    };
    check(br#"{"model_format":"safetensors"}"#, "format safetensors").await;
    check(br#"{"remote_host":"https://ollama.example:443"}"#, "runs only at https://ollama.example:443").await;
    check(b"{\"model_format\":\"a\\nb\"}", "format a b").await;
}

/// Returns a model file without its chat template.
fn without_template(file: &[u8]) -> Vec<u8> {
    let head = Gguf::parse(file).expect("testkit writes complete files");
    let mut writer = Writer::new(head.alignment);
    for (key, value) in head.metadata().iter().filter(|(key, _)| *key != "tokenizer.chat_template") {
        writer.set(key, value.clone());
    }
    for tensor in head.tensors() {
        let bytes = file[tensor.offset as usize..][..tensor.bytes as usize].to_vec();
        writer.tensor(tensor.name.clone(), tensor.dtype, &tensor.dims, bytes).expect("the tensor is sound");
    }
    writer.finish()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_with_a_missing_renderer_is_refused_unless_a_template_replaces_it() {
    let with_template = cairn_testkit::write(&cairn_testkit::tiny_llama());
    let without = without_template(&with_template);
    let check = async |renderer: &str, file: &[u8], template: &str, wanted: &str| {
        // A file in the library is not checked again.
        let at = fast();
        let config = format!(r#"{{"model_format":"gguf","renderer":"{renderer}"}}"#);
        let layers = [(MODEL, file), ("application/vnd.ollama.image.template", template.as_bytes())];
        let last = last_event(&at.app(), at.publish_typed_layers("m", &layers, config.as_bytes())).await;
        assert!(last.contains(wanted), "{renderer}, {template}: {wanted:?} is missing from {last}");
    };
    let refused = "here yet: its prompts need the renderer \"future\", which is not built in; only the beginning";
    check("future", &without, "{{ .Prompt }}", refused).await;
    check("future", &without, "{{ if }}", refused).await;
    check("future", &without, "{{ .System }}: {{ .Prompt }}", "success").await;
    check("future", &with_template, "{{ .Prompt }}", "success").await;
    check("gemma4", &without, "{{ .Prompt }}", "success").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beginning_that_a_restart_interrupted_is_not_sent_again() {
    let at = fixture();
    let text = "x".repeat(60_000);
    // 1.2 MB of metadata, which take three seconds.
    let file = file("lorem", &vec![text.as_str(); 20], 8 << 20);
    let pull = at.publish_model("m", &file);
    let app = at.app();
    let watcher = app.transfers().pull(pull.clone()).unwrap();
    let some = async {
        while at.sent(&file) < 400_000 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), some).await.expect("the beginning is requested");
    app.transfers().close().await;
    drop(watcher);
    app.transfers().pulls.0.queue().jobs.iter().for_each(|job| job.release_claim());
    at.registry.set_faults(Faults::default());
    let next = at.app();
    assert!(last_event(&next, pull).await.contains("architecture lorem"));
    // The first daemon had up to four open responses.
    let most = 4 * MIB + MIB;
    assert!(at.sent(&file) <= most, "{} bytes were sent", at.sent(&file));
}

/// The first pull already downloads the whole file, which is smaller than the beginning.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_file_is_refused_each_time() {
    let at = fast();
    let app = at.app();
    let pull = at.publish_model("m", &file("lorem", &["a"], 4096));
    for attempt in 0..10 {
        let last = last_event(&app, pull.clone()).await;
        assert!(last.contains("architecture lorem"), "attempt {attempt}: {last}");
    }
    assert_eq!(last_event(&app, Pull { force: true, ..pull }).await, "success");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_in_ollamas_layout_runs() {
    let at = fast();
    let (architecture, file) = cairn_testkit::ollama_layout::qwen25vl().files.pop().expect("a file in Ollama's layout");
    assert_eq!(architecture, "qwen25vl", "no family has this name");
    assert_eq!(last_event(&at.app(), at.publish_model("m", &file)).await, "success");
}

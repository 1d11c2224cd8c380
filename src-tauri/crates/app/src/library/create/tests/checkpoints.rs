//! Models from checkpoints in safetensors files.

use cairn_gguf::DType;
use cairn_testkit::checkpoint::{CheckpointSpec, Storage, Vocabulary, checkpoint};
use cairn_testkit::families::{GEMMA3, QWEN2VL, T5};
use cairn_testkit::tower::TowerSpec;
use cairn_testkit::{ModelSpec, tiny, tiny_t5};

use super::*;

/// Creates a model from a checkpoint, and loads it. Returns the statuses, and the model's capabilities.
async fn created(
    model: ModelSpec,
    architecture: &'static str,
    vocabulary: Vocabulary,
    tower: Option<TowerSpec>,
) -> (Vec<String>, Vec<String>) {
    let fixture = fixture();
    let (model, storage) = (ModelSpec { vocab: 520, ..model }, Storage::Float(DType::BF16));
    let made = checkpoint(&CheckpointSpec { model, architecture, model_type: "", storage, vocabulary, tower });
    let files = send_all(&fixture, &made.files).await;
    let statuses = create(&fixture, of_files("made", files)).await.expect("the checkpoint is converted");
    assert_eq!(statuses.last().map(String::as_str), Some("success"), "{statuses:?}");
    fixture.app.inference().load("made", false, None).await.expect("the model loads");
    let shown = fixture.app.library().show("made", false).expect("the model is stored");
    (statuses, shown.summary.capabilities)
}

fn warnings(statuses: &[String]) -> Vec<&str> {
    statuses.iter().filter_map(|status| status.strip_prefix("warning: ")).collect()
}

#[tokio::test]
async fn checkpoint_with_a_tower_becomes_a_model_with_a_projector() {
    let model = tiny(&GEMMA3);
    let tower = Some(TowerSpec::tiny(model.width));
    let (statuses, capabilities) = created(model, "Gemma3ForConditionalGeneration", Vocabulary::Pieces, tower).await;
    assert_eq!(warnings(&statuses), [""; 0], "{statuses:?}");
    assert!(capabilities.contains(&"vision".to_owned()), "{capabilities:?}");
}

#[tokio::test]
async fn checkpoint_with_a_tower_that_cannot_be_computed_is_created_with_a_warning() {
    let model = tiny(&QWEN2VL);
    let tower = Some(TowerSpec::tiny_qwen25(model.width));
    let architecture = "Qwen2VLForConditionalGeneration";
    let (statuses, capabilities) = created(model, architecture, Vocabulary::Bytes, tower).await;
    let found = warnings(&statuses);
    assert!(
        matches!(&found[..], [text] if text.contains("only the text part") && text.contains(architecture)),
        "{found:?}"
    );
    assert!(!capabilities.contains(&"vision".to_owned()), "{capabilities:?}");
    // The converter reads the tower, and the engine refuses its size.
    let model = tiny(&GEMMA3);
    let tower = TowerSpec { image_size: 396, ..TowerSpec::tiny(model.width) };
    let (statuses, _) = created(model, "Gemma3ForConditionalGeneration", Vocabulary::Pieces, Some(tower)).await;
    let found = warnings(&statuses);
    assert!(matches!(&found[..], [text] if text.contains("are more than 16384")), "{found:?}");
    let place = |text: &str| statuses.iter().position(|status| status.contains(text));
    assert!(place("only the text part") < place("verifying conversion"), "the model is not written yet: {statuses:?}");
}

#[tokio::test]
async fn checkpoint_of_an_encoder_decoder_is_created() {
    let (statuses, _) = created(tiny_t5(&T5), "T5ForConditionalGeneration", Vocabulary::UnigramPieces, None).await;
    assert_eq!(warnings(&statuses), [""; 0], "{statuses:?}");
}

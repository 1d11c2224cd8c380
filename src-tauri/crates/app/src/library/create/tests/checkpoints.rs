//! Models from checkpoints in safetensors files.

use cairn_gguf::DType;
use cairn_testkit::checkpoint::{CheckpointSpec, Storage, Vocabulary, checkpoint};
use cairn_testkit::families::{QWEN3VL, T5};
use cairn_testkit::{ModelSpec, tiny, tiny_t5};

use super::*;

/// Creates a model from a checkpoint, and loads it. Returns the statuses.
async fn created(model: ModelSpec, architecture: &'static str, vocabulary: Vocabulary) -> Vec<String> {
    let fixture = fixture();
    let (model, storage) = (ModelSpec { vocab: 520, ..model }, Storage::Float(DType::BF16));
    let made = checkpoint(&CheckpointSpec { model, architecture, model_type: "", storage, vocabulary });
    let files = send_all(&fixture, &made.files).await;
    let statuses = create(&fixture, of_files("made", files)).await.expect("the checkpoint is converted");
    assert_eq!(statuses.last().map(String::as_str), Some("success"), "{statuses:?}");
    fixture.app.inference().load("made", false, None).await.expect("the model loads");
    statuses
}

#[tokio::test]
async fn checkpoint_with_a_tower_is_created_with_a_warning() {
    let statuses = created(tiny(&QWEN3VL), "Qwen3VLForConditionalGeneration", Vocabulary::Bytes).await;
    let warnings: Vec<&String> = statuses.iter().filter(|status| status.starts_with("warning: ")).collect();
    assert!(matches!(&warnings[..], [text] if text.contains("only the text part")), "{warnings:?}");
}

#[tokio::test]
async fn checkpoint_of_an_encoder_decoder_is_created() {
    let statuses = created(tiny_t5(&T5), "T5ForConditionalGeneration", Vocabulary::UnigramPieces).await;
    assert!(!statuses.iter().any(|status| status.starts_with("warning: ")), "{statuses:?}");
}

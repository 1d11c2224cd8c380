//! Models with files in Ollama's own layout, as its registry publishes them.

use cairn_testkit::ollama_layout::{self, EqualFiles};
use serde_json::{Value, json};

use super::*;

/// Returns the file in Ollama's layout.
fn file(equal: EqualFiles) -> Vec<u8> {
    equal.files.into_iter().next_back().expect("the last file is in Ollama's layout").1
}

fn daemon() -> Daemon {
    let daemon = Daemon::start();
    daemon.store("gemma3", &[("model", &file(ollama_layout::gemma3_with_tower()))]);
    daemon.store("plain", &[("model", &ollama_layout::gemma3_with_tower().expected)]);
    daemon.store("embeddinggemma", &[("model", &file(ollama_layout::embedding_gemma()))]);
    daemon
}

#[tokio::test]
async fn model_with_vision_tower_answers_text_and_refuses_images() {
    let daemon = daemon();
    let request = |model: &str| {
        json!({"model": model, "prompt": "the water", "raw": true, "stream": false,
               "options": {"temperature": 0, "num_predict": 8}})
    };
    let (status, ours) = daemon.json("/api/generate", request("gemma3")).await;
    let (_, plain) = daemon.json("/api/generate", request("plain")).await;
    assert_eq!((status, &ours["response"]), (200, &plain["response"]), "the same answer: {ours}");
    let message = json!({"role": "user", "content": "Hello"});
    let chat = json!({"model": "gemma3", "messages": [message], "stream": false, "_debug_render_only": true});
    let (_, rendered) = daemon.json("/api/chat", chat).await;
    let text = rendered["_debug_info"]["rendered_template"].as_str().unwrap_or_default();
    assert!(text.ends_with("<start_of_turn>user\nHello<end_of_turn>\n<start_of_turn>model\n"), "{rendered}");
    let image = json!({"role": "user", "content": "x", "images": ["aGk="]});
    let reply = daemon.post("/api/chat", &json!({"model": "gemma3", "messages": [image]}).to_string()).await;
    assert!(reply.starts_with("400 ") && reply.contains("does not support vision"), "{reply}");
}

#[tokio::test]
async fn details_show_only_supported_capabilities_of_a_translated_file() {
    let daemon = daemon();
    let shown = async |model: &str| daemon.json("/api/show", json!({"model": model})).await.1;
    let gemma = shown("gemma3").await;
    assert_eq!(gemma["capabilities"], json!(["completion"]), "no images");
    assert_eq!(gemma["model_info"]["gemma3.mm.tokens_per_image"], 256, "the file's own metadata");
    assert!(gemma["template"].as_str().is_some_and(|text| text.contains("<start_of_turn>")), "{}", gemma["template"]);
    let embedding = shown("embeddinggemma").await;
    assert_eq!(embedding["capabilities"], json!(["embedding"]), "instead of completion");
    let (status, reply) = daemon.json("/api/embed", json!({"model": "embeddinggemma", "input": "stone"})).await;
    let width = reply["embeddings"][0].as_array().map(Vec::len);
    assert_eq!((status, width), (200, Some(64)), "{reply}");
}

#[tokio::test]
async fn model_of_an_unsupported_architecture_is_refused_by_name() {
    let daemon = Daemon::start();
    daemon.store("llama3.2-vision", &[("model", &ollama_layout::other_architecture("mllama"))]);
    let request = json!({"model": "llama3.2-vision", "messages": [{"role": "user", "content": "x"}]});
    let (status, reply): (u16, Value) = daemon.json("/api/chat", request).await;
    let error = reply["error"].as_str().unwrap_or_default();
    let text = "Llama 3.2 Vision (architecture `mllama`) is not supported; supported are ";
    assert!(status == 500 && error.contains(text), "{status} {reply}");
}

//! Vectors of texts in the APIs of Ollama and OpenAI, and rerank.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use cairn_testkit::families::{BERT, CROSS_ENCODER};
use cairn_testkit::{Family, tiny_bert};
use serde_json::{Value, json};

use super::*;

/// Tokens that begin and end a text.
const AROUND: usize = 2;

fn daemon() -> Daemon {
    daemon_with(&[])
}

fn daemon_with(settings: &[(&str, &str)]) -> Daemon {
    let daemon = Daemon::with(settings);
    let file = |family: &'static Family| cairn_testkit::write(&tiny_bert(family));
    daemon.store("bert", &[("model", &file(&BERT))]);
    daemon.store("cross", &[("model", &file(&CROSS_ENCODER))]);
    daemon
}

fn vector(value: &Value) -> Vec<f32> {
    serde_json::from_value(value.clone()).unwrap_or_else(|_| panic!("{value} is not a vector"))
}

fn length(vector: &[f32]) -> f32 {
    vector.iter().map(|x| x * x).sum::<f32>().sqrt()
}

#[tokio::test]
async fn embed_returns_normalised_vectors_in_order() {
    let daemon = daemon();
    let (status, both) = daemon.json("/api/embed", json!({"model": "bert", "input": ["one word", "stone"]})).await;
    assert_eq!(status, 200, "{both}");
    assert_eq!((&both["model"], both["prompt_eval_count"].as_u64()), (&json!("bert"), Some(7)), "{both}");
    let vectors: Vec<Vec<f32>> = both["embeddings"].as_array().unwrap().iter().map(vector).collect();
    assert_eq!(vectors.iter().map(Vec::len).collect::<Vec<_>>(), [256, 256], "the model's width");
    assert!(vectors.iter().all(|vector| (length(vector) - 1.0).abs() < 1e-5), "length 1");
    let (_, one) = daemon.json("/api/embed", json!({"model": "bert", "input": "stone"})).await;
    assert_eq!(vector(&one["embeddings"][0]), vectors[1], "a text alone, bit for bit");
    let (_, same) = daemon.json("/api/embed", json!({"model": "bert", "input": " STONE "})).await;
    assert_eq!(same["embeddings"], one["embeddings"], "the vocabulary has no case");
    let (_, old) = daemon.json("/api/embeddings", json!({"model": "bert", "prompt": "stone"})).await;
    assert_eq!(old, json!({"embedding": one["embeddings"][0]}), "the earlier endpoint");
    let (_, short) = daemon.json("/api/embed", json!({"model": "bert", "input": "stone", "dimensions": 16})).await;
    let short = vector(&short["embeddings"][0]);
    assert!(short.len() == 16 && (length(&short) - 1.0).abs() < 1e-5, "cut and normalised again");
    assert!((short[0] / short[1] - vectors[1][0] / vectors[1][1]).abs() < 1e-3, "the first elements");
}

#[tokio::test]
async fn empty_input_loads_the_model() {
    let daemon = daemon();
    for input in [json!(null), json!(""), json!([])] {
        let (status, reply) = daemon.json("/api/embed", json!({"model": "bert", "input": input})).await;
        assert_eq!((status, &reply["embeddings"]), (200, &json!([])), "{input}");
        let loads = input.is_null();
        assert_eq!(reply["load_duration"].as_u64() > Some(0), loads, "only the first request loads it: {reply}");
    }
    assert_eq!(daemon.json("/api/embeddings", json!({"model": "bert"})).await, (200, json!({"embedding": []})));
    assert_eq!(daemon.server.app().system().running().len(), 1, "it is loaded");
}

#[tokio::test]
async fn long_text_is_cut_or_refused() {
    let daemon = daemon();
    let of = |text: String, more: Value| {
        let mut request = json!({"model": "bert", "input": text});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        request
    };
    let fits = "stone ".repeat(128 - AROUND);
    let (_, whole) = daemon.json("/api/embed", of(fits.clone(), json!({"truncate": false}))).await;
    assert_eq!(whole["prompt_eval_count"], 128, "{whole}");
    let long = fits + "and more";
    let (_, cut) = daemon.json("/api/embed", of(long.clone(), json!({}))).await;
    assert_eq!(cut["embeddings"], whole["embeddings"], "the end is cut, and the text still ends with its separator");
    let (status, refused) = daemon.json("/api/embed", of(long.clone(), json!({"truncate": false}))).await;
    let text = "the input length exceeds the context length (128 tokens, 126 fit)";
    assert_eq!((status, refused["error"].as_str(), &refused["code"]), (400, Some(text), &json!("prompt_too_long")));
    let (_, small) = daemon.json("/api/embed", of(long, json!({"options": {"num_ctx": 10}}))).await;
    assert_eq!(small["prompt_eval_count"], 10, "the context of the request");
}

#[tokio::test]
async fn openai_embeddings_have_two_formats() {
    let daemon = daemon();
    let (_, native) = daemon.json("/api/embed", json!({"model": "bert", "input": ["one", "two words"]})).await;
    let (status, list) = daemon.json("/v1/embeddings", json!({"model": "bert", "input": ["one", "two words"]})).await;
    assert_eq!(status, 200, "{list}");
    let tokens = native["prompt_eval_count"].clone();
    assert_eq!((&list["object"], &list["model"]), (&json!("list"), &json!("bert")));
    assert_eq!(list["usage"], json!({"prompt_tokens": tokens, "total_tokens": tokens}));
    for (index, item) in list["data"].as_array().unwrap().iter().enumerate() {
        let expected = json!({"object": "embedding", "embedding": native["embeddings"][index], "index": index});
        assert_eq!(*item, expected, "text {index}");
    }
    let request = json!({"model": "bert", "input": "one", "encoding_format": "base64", "dimensions": 8});
    let (_, encoded) = daemon.json("/v1/embeddings", request).await;
    let bytes = BASE64_STANDARD.decode(encoded["data"][0]["embedding"].as_str().unwrap()).unwrap();
    let decoded: Vec<f32> = bytes.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
    let (_, short) = daemon.json("/api/embed", json!({"model": "bert", "input": "one", "dimensions": 8})).await;
    assert_eq!(decoded, vector(&short["embeddings"][0]), "little-endian f32");
    // The ids of [CLS], the word "stone" and [SEP].
    let shown = daemon.server.app().library().show("bert", true).unwrap();
    let vocabulary = shown.info["tokenizer.ggml.tokens"].as_array().unwrap();
    let stone = vocabulary.iter().position(|token| token == "\u{2581}stone").unwrap();
    let (_, text) = daemon.json("/v1/embeddings", json!({"model": "bert", "input": "stone"})).await;
    for input in [json!([2, stone, 3]), json!([[2, stone, 3]])] {
        let (_, ids) = daemon.json("/v1/embeddings", json!({"model": "bert", "input": input})).await;
        assert_eq!(ids["data"], text["data"], "{input}");
    }
    let (_, empty) = daemon.json("/v1/embeddings", json!({"model": "bert", "input": ""})).await;
    assert_eq!(empty["usage"]["prompt_tokens"], AROUND, "an empty text has a vector: {empty}");
}

#[tokio::test]
async fn rerank_orders_documents() {
    let daemon = daemon();
    let documents = json!(["green house", {"text": "stone"}, "the river"]);
    let request = json!({"model": "bert", "query": "stone", "documents": documents, "return_documents": true});
    let (status, ranking) = daemon.json("/v1/rerank", request).await;
    assert_eq!((status, &ranking["model"]), (200, &json!("bert")), "{ranking}");
    let results = ranking["results"].as_array().unwrap();
    assert_eq!((results.len(), &results[0]["index"]), (3, &json!(1)), "the query itself is first: {ranking}");
    assert_eq!(results[0]["document"], json!({"text": "stone"}), "{ranking}");
    let scores: Vec<f64> = results.iter().map(|result| result["relevance_score"].as_f64().unwrap()).collect();
    assert!((scores[0] - 1.0).abs() < 1e-5 && scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    let request = json!({"model": "cross", "query": "stone", "documents": documents, "top_n": 2});
    let (status, ranking) = daemon.json("/v1/rerank", request).await;
    assert_eq!(status, 200, "{ranking}");
    let scores: Vec<f64> =
        ranking["results"].as_array().unwrap().iter().map(|r| r["relevance_score"].as_f64().unwrap()).collect();
    assert!(scores.len() == 2 && scores[0] > scores[1] && scores.iter().all(|s| (0.0..=1.0).contains(s)), "{scores:?}");
    assert!(ranking["results"][0].get("document").is_none(), "only if requested: {ranking}");
    // [CLS] query [SEP] document [SEP]
    let alone = json!({"model": "cross", "query": "stone", "documents": ["stone"]});
    assert_eq!(daemon.json("/v1/rerank", alone).await.1["usage"]["prompt_tokens"], 5, "tokens of the pair");
    let long = json!({"model": "cross", "query": "stone", "documents": ["stone ".repeat(500)]});
    assert_eq!(daemon.json("/v1/rerank", long).await.1["usage"]["prompt_tokens"], 128, "the document is cut");
}

#[tokio::test]
async fn rerank_takes_one_place_of_the_queue() {
    let daemon = daemon_with(&[("OLLAMA_NUM_PARALLEL", "1"), ("OLLAMA_MAX_QUEUE", "1")]);
    let request = json!({"model": "bert", "query": "stone", "documents": ["green house"]});
    let (first, second) =
        tokio::join!(daemon.json("/v1/rerank", request.clone()), daemon.json("/v1/rerank", request.clone()));
    assert_eq!((first.0, second.0), (200, 200), "one is computed and one waits: {} {}", first.1, second.1);
}

#[tokio::test]
async fn model_without_the_capability_is_refused() {
    let daemon = daemon();
    let check = async |path: &str, request: Value, status: u16, text: &str| {
        let (found, reply) = daemon.json(path, request).await;
        let error = reply["error"].as_str().or_else(|| reply["error"]["message"].as_str()).map(str::to_owned);
        assert_eq!((found, error.as_deref()), (status, Some(text)), "{path}: {reply}");
    };
    let lacks = "this model does not support embeddings";
    check("/api/embed", json!({"model": "m", "input": "x"}), 501, lacks).await;
    check("/api/embeddings", json!({"model": "m", "prompt": "x"}), 501, lacks).await;
    check("/v1/embeddings", json!({"model": "m", "input": "x"}), 501, lacks).await;
    check("/v1/rerank", json!({"model": "m", "query": "x", "documents": ["y"]}), 501, lacks).await;
    let chat = json!({"model": "bert", "messages": [{"role": "user", "content": "x"}]});
    check("/api/chat", chat.clone(), 400, "\"bert\" does not support chat").await;
    check("/v1/chat/completions", chat, 400, "\"bert\" does not support chat").await;
    check("/api/generate", json!({"model": "bert", "prompt": "x"}), 400, "\"bert\" does not support generate").await;
    let scores = "\"cross\" scores pairs of texts and has no embeddings; send query and documents to /v1/rerank";
    check("/api/embed", json!({"model": "cross", "input": "x"}), 400, scores).await;
}

#[tokio::test]
async fn invalid_embedding_requests_are_refused() {
    let daemon = daemon();
    let check = async |path: &str, request: Value, expected: &str| {
        let (_, reply) = daemon.json(path, request).await;
        let error = reply["error"].as_str().or_else(|| reply["error"]["message"].as_str()).unwrap_or_default();
        assert!(error.contains(expected), "{path}: {reply} lacks {expected:?}");
    };
    for input in [json!(3), json!({"a": 1}), json!([1, 2]), json!(["x", 3])] {
        check("/api/embed", json!({"model": "bert", "input": input}), "invalid input type").await;
    }
    check("/api/embed", json!({"model": "none", "input": "x"}), "model 'none' not found").await;
    check("/api/embed", json!({"input": "x"}), "model is required").await;
    let many = json!({"model": "bert", "input": vec!["x"; 2049]});
    check("/api/embed", many, "the request has 2049 texts; the maximum is 2048").await;
    let v1 = "/v1/embeddings";
    for input in [json!(null), json!([]), json!(true), json!([1, "x"]), json!([[-1]]), json!([["x"]])] {
        check(v1, json!({"model": "bert", "input": input}), "invalid input").await;
    }
    check(v1, json!({"model": "bert", "input": [[]]}), "input has a text without tokens").await;
    check(v1, json!({"model": "bert", "input": [512]}), "input has the token 512").await;
    check(v1, json!({"model": "bert", "input": "x", "encoding_format": "f16"}), "invalid encoding_format").await;
    check(v1, json!({"model": "bert", "input": "x", "dimensions": 0}), "dimensions cannot be 0").await;
    let rerank = "/v1/rerank";
    check(rerank, json!({"model": "bert", "query": "", "documents": ["x"]}), "must not be empty").await;
    check(rerank, json!({"model": "bert", "query": "x", "documents": []}), "must not be empty").await;
    check(rerank, json!({"model": "bert", "query": "x", "documents": ["x"], "top_n": 0}), "top_n cannot be 0").await;
    for document in [json!(3), json!({"image": "x"}), json!(null)] {
        let request = json!({"model": "bert", "query": "x", "documents": ["x", document]});
        check(rerank, request, "invalid document: it must be a text, or an object with a text").await;
    }
    let long = json!({"model": "cross", "query": "stone ".repeat(200), "documents": ["x"]});
    check(rerank, long, "the input length exceeds the context length").await;
}

#[tokio::test]
async fn text_without_tokens_is_refused() {
    let daemon = daemon();
    // Its tokenizer adds no tokens to a text.
    let spec = cairn_testkit::tiny(&cairn_testkit::families::QWEN3_EMBEDDING);
    daemon.store("qwen", &[("model", &cairn_testkit::write(&spec))]);
    let request = json!({"model": "qwen", "input": ["stone", ""]});
    let (status, reply) = daemon.json("/api/embed", request).await;
    assert_eq!((status, &reply["error"]), (400, &json!("input has a text without tokens")), "{reply}");
    let (status, reply) = daemon.json("/api/embed", json!({"model": "qwen", "input": ["stone"]})).await;
    assert_eq!(status, 200, "{reply}");
}

#[tokio::test]
async fn requests_have_the_priority_of_their_client() {
    let daemon = daemon();
    for (path, request) in [
        ("/api/embed", json!({"model": "bert", "input": "x"})),
        ("/api/embeddings", json!({"model": "bert", "prompt": "x"})),
        ("/v1/embeddings", json!({"model": "bert", "input": "x"})),
        ("/v1/rerank", json!({"model": "bert", "query": "x", "documents": ["y"]})),
    ] {
        for (priority, status) in [("batch", 200), ("interactive", 200), ("soon", 400)] {
            let post = Request::post(path).header("X-Cairn-Priority", priority);
            let response = daemon.send(post.body(Body::from(request.to_string())).unwrap()).await;
            assert_eq!(response.status().as_u16(), status, "{path} with the priority {priority}");
        }
    }
}

#[tokio::test]
async fn lists_and_details_show_the_capability() {
    let daemon = daemon();
    let (_, shown) = daemon.json("/api/show", json!({"model": "bert"})).await;
    assert_eq!(shown["capabilities"], json!(["embedding"]), "instead of completion");
    assert_eq!(shown["details"]["embedding_length"], 256, "{shown}");
}

//! Images in requests of all APIs, to a model with a vision tower.

use cairn_testkit::families::GEMMA3;
use cairn_testkit::tower::TowerSpec;
use cairn_testkit::{ModelSpec, tiny, write};
use serde_json::{Value, json};

use super::*;

/// One pixel each: PNG and GIF.
const RED: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
const BLACK: &str = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";
/// Rows of a picture in a prompt.
const ROWS: u64 = 4;

/// A daemon with a model and its projector, and with the same model and tower in one file.
fn daemon() -> Daemon {
    let text = write(&ModelSpec { width: 64, heads: 2, kv_heads: 1, head_dim: 32, ffn: 64, ..tiny(&GEMMA3) });
    let tower = TowerSpec::tiny(64);
    let daemon = Daemon::start();
    daemon.store("sees", &[("model", &text), ("projector", &tower.write())]);
    daemon.store("one-file", &[("model", &tower.write_into(&text))]);
    daemon.store("blind", &[("model", &text)]);
    daemon
}

fn chat(model: &str, images: &[&str]) -> Value {
    let message = json!({"role": "user", "content": "Look", "images": images});
    let options = json!({"temperature": 0, "num_predict": 6});
    json!({"model": model, "messages": [message], "stream": false, "options": options, "logprobs": true})
}

#[tokio::test]
async fn answers_depend_on_the_image_in_every_api() {
    let daemon = daemon();
    let ask = async |path: &str, request: Value| {
        let (status, reply) = daemon.json(path, request).await;
        assert_eq!(status, 200, "{path}: {reply}");
        reply
    };
    let none = ask("/api/chat", chat("sees", &[])).await;
    let red = ask("/api/chat", chat("sees", &[RED])).await;
    let count = |reply: &Value| reply["prompt_eval_count"].as_u64().unwrap_or_default();
    assert!(count(&red) >= count(&none) + ROWS, "the prompt has the rows of the picture: {red}");
    let black = ask("/api/chat", chat("sees", &[BLACK])).await;
    assert_eq!(count(&red), count(&black), "pictures of one size");
    assert_ne!(red["logprobs"], black["logprobs"], "another image gives other log probabilities");
    let again = ask("/api/chat", chat("sees", &[RED])).await;
    assert_eq!(red["logprobs"], again["logprobs"], "the same image");
    let two = ask("/api/chat", chat("sees", &[RED, BLACK])).await;
    assert_eq!(count(&two) - count(&red), count(&red) - count(&none), "two pictures");

    let options = json!({"temperature": 0, "num_predict": 6});
    let generate = |image: &str| json!({"model": "sees", "prompt": "Look", "images": [image], "stream": false, "options": options, "logprobs": true});
    let (red, black) = (ask("/api/generate", generate(RED)).await, ask("/api/generate", generate(BLACK)).await);
    assert_ne!(red["logprobs"], black["logprobs"], "/api/generate");
    let context = red["context"].as_array().cloned().unwrap_or_default();
    assert!(context.iter().all(|token| token.as_u64() < Some(1 << 31)), "the context has tokens only: {context:?}");

    let openai = |image: &str| {
        let url = format!("data:image/png;base64,{image}");
        let parts = json!([{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": url}}]);
        json!({"model": "sees", "messages": [{"role": "user", "content": parts}], "temperature": 0, "max_tokens": 6,
               "logprobs": true})
    };
    let path = "/v1/chat/completions";
    let (red, black) = (ask(path, openai(RED)).await, ask(path, openai(BLACK)).await);
    assert_ne!(red["choices"][0]["logprobs"], black["choices"][0]["logprobs"], "{path}");

    let source = json!({"type": "base64", "media_type": "image/png", "data": RED});
    let content = json!([{"type": "image", "source": source}, {"type": "text", "text": "Look"}]);
    let message = json!({"role": "user", "content": content});
    let reply = ask("/v1/messages", json!({"model": "sees", "max_tokens": 3, "messages": [message]})).await;
    let tokens = |name: &str| reply["usage"][name].as_u64().unwrap_or_default();
    assert!(tokens("input_tokens") + tokens("cache_read_input_tokens") > ROWS, "{reply}");

    let screenshot = |image: &str| {
        let source = json!({"type": "base64", "media_type": "image/png", "data": image});
        let result =
            json!({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image", "source": source}]});
        let call = json!({"type": "tool_use", "id": "t", "name": "screen", "input": {}});
        let messages = json!([{"role": "user", "content": "Look"}, {"role": "assistant", "content": [call]},
                              {"role": "user", "content": [result]}]);
        json!({"model": "sees", "max_tokens": 1, "messages": messages})
    };
    let input = |reply: &Value| {
        let tokens = |name: &str| reply["usage"][name].as_u64().unwrap_or_default();
        tokens("input_tokens") + tokens("cache_read_input_tokens")
    };
    let seen = input(&ask("/v1/messages", screenshot(RED)).await);
    let mut text = screenshot(RED);
    text["messages"][2]["content"][0]["content"] = json!("");
    assert!(seen >= input(&ask("/v1/messages", text).await) + ROWS, "the image in the result of a tool");
}

#[tokio::test]
async fn vision_is_a_capability_of_models_whose_tower_can_be_computed() {
    let daemon = daemon();
    let text = write(&ModelSpec { width: 64, heads: 2, kv_heads: 1, head_dim: 32, ffn: 64, ..tiny(&GEMMA3) });
    daemon.store("other-tower", &[("model", &text), ("projector", &TowerSpec::tiny(32).write())]);
    let problem =
        "the vision tower has rows of 32 elements, and the model has rows of 64: it is the tower of another model";
    let models =
        [("sees", true, None), ("one-file", true, None), ("blind", false, None), ("other-tower", false, Some(problem))];
    for (model, sees, problem) in models {
        let shown = daemon.json("/api/show", json!({"model": model})).await.1;
        assert_eq!(shown["vision_problem"].as_str(), problem, "{model}: the reason of a tower that is not used");
        let has_vision = shown["capabilities"].as_array().is_some_and(|names| names.contains(&json!("vision")));
        assert_eq!(has_vision, sees, "{model}: {}", shown["capabilities"]);
        let (status, reply) = daemon.json("/api/chat", chat(model, &[RED])).await;
        assert_eq!(status, if sees { 200 } else { 400 }, "{model}: {reply}");
        assert!(sees || reply["error"].as_str().is_some_and(|text| text.contains("vision")), "{model}: {reply}");
        let (status, reply) = daemon.json("/api/chat", chat(model, &[])).await;
        assert_eq!(status, 200, "{model} answers text: {reply}");
    }
    let both = [chat("sees", &[RED]), chat("one-file", &[RED])];
    let [separate, one] =
        [daemon.json("/api/chat", both[0].clone()).await.1, daemon.json("/api/chat", both[1].clone()).await.1];
    assert_eq!(separate["logprobs"], one["logprobs"], "the same tower");
}

#[tokio::test]
async fn broken_images_are_refused_with_their_number() {
    let daemon = daemon();
    for (image, expected) in [("aGk=", "supported format"), ("iVBORw0KGgo=", "PNG image cannot be decoded")] {
        let (status, reply) = daemon.json("/api/chat", chat("sees", &[RED, image])).await;
        let error = reply["error"].as_str().unwrap_or_default();
        assert!(status == 400 && error.contains("image 2 of the request") && error.contains(expected), "{reply}");
    }
    let many = vec![BLACK; 257];
    let (status, reply) = daemon.json("/api/chat", chat("sees", &many)).await;
    assert!(status == 400 && reply.to_string().contains("257 images; the maximum is 256"), "{reply}");
}

#[tokio::test]
async fn images_that_do_not_fit_are_a_warning() {
    let daemon = daemon();
    let turn = |image: &str| {
        [json!({"role": "user", "content": "Look", "images": [image]}), json!({"role": "assistant", "content": "Yes"})]
    };
    let question = json!({"role": "user", "content": "the river is all water and light and stone ".repeat(4)});
    let messages: Vec<Value> = turn(RED).into_iter().chain(turn(BLACK)).chain([question]).collect();
    let ask = async |messages: &[Value], context: usize| {
        let options = json!({"num_predict": 1, "num_ctx": context});
        let (status, reply) = daemon
            .json("/api/chat", json!({"model": "sees", "messages": messages, "stream": false, "options": options}))
            .await;
        assert_eq!(status, 200, "{reply}");
        reply
    };
    let whole = ask(&messages, 512).await;
    assert_eq!(whole["truncated"], Value::Null, "the whole conversation fits: {whole}");
    let cut = ask(&messages, 64).await;
    assert_eq!((&cut["truncated"]["turns"], &cut["truncated"]["images"]), (&json!(2), &json!(2)), "{cut}");
    assert!(cut["warnings"].to_string().contains(" and 2 images left out"), "{cut}");
    let mut last = messages[4].clone();
    last["images"] = json!([RED]);
    let cut = ask(&[last], 32).await;
    assert_eq!(cut["truncated"]["images"], 1, "a picture in the middle of a cut message: {cut}");
}

#[tokio::test]
async fn image_that_a_template_shows_twice_or_never_is_counted_once() {
    let daemon = daemon();
    let ask = async |template: &str| {
        let request = json!({"model": "sees", "prompt": "Look", "images": [RED], "template": template, "stream": false,
                             "options": {"num_predict": 1}});
        let (status, reply) = daemon.json("/api/generate", request).await;
        assert_eq!(status, 200, "{template}: {reply}");
        reply
    };
    let twice = ask("{{ .Prompt }} and {{ .Prompt }}").await;
    assert_eq!(twice["truncated"], Value::Null, "nothing is left out: {twice}");
    let never = ask("{{ .System }} nothing").await;
    assert!(never["warnings"].to_string().contains("does not see 1 image: its chat template"), "{never}");
}

#[tokio::test]
async fn rendered_prompt_shows_images_as_tags() {
    let daemon = daemon();
    let mut request = chat("sees", &[RED, BLACK]);
    request["_debug_render_only"] = json!(true);
    let (_, rendered) = daemon.json("/api/chat", request).await;
    let text = rendered["_debug_info"]["rendered_template"].as_str().unwrap_or_default();
    assert!(text.contains("[img-0][img-1]Look"), "{rendered}");
}

#[tokio::test]
async fn text_around_a_message_is_no_picture() {
    let daemon = daemon();
    let template = "\u{fffc}0\u{fffc} {{ .Prompt }}";
    let request = json!({"model": "sees", "prompt": "Look", "images": [RED], "template": template, "stream": false,
                         "_debug_render_only": true});
    let (_, rendered) = daemon.json("/api/generate", request).await;
    let text = rendered["_debug_info"]["rendered_template"].as_str().unwrap_or_default();
    assert_eq!(text, "\u{fffc}0\u{fffc} [img-0]Look", "{rendered}");
}

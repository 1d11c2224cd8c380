//! Stress: many short requests to three models, of which two are loaded at a time. Some clients cancel. Every answer equals the answer
//! without other requests.

use std::time::Duration;

use cairn_runtime::{Engine, EngineConfig, KeepAlive};
use tempfile::TempDir;

use crate::common::{answer, config, greedy, lease, model, prompt};

const MODELS: usize = 3;
const PROMPTS: usize = 12;
const REQUESTS: usize = 600;
/// Concurrent clients.
const CLIENTS: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_answers_equal_single_answers() {
    let folder = TempDir::new().expect("a temporary folder");
    let short = KeepAlive::For(Duration::from_millis(50));
    let engine =
        Engine::start(EngineConfig { max_queue: 512, keep_alive: short, ..config() }).expect("a kernel variant runs");
    let paths: Vec<_> = (0..MODELS as u64).map(|seed| model(&folder, 100 + seed)).collect();
    let request = |prompt_index: usize| {
        let index = prompt_index as u32;
        greedy(prompt(index, 3 + index * 17 % 90), 1 + index * 5 % 12)
    };
    let mut alone = Vec::new();
    for path in &paths {
        let lease = lease(&engine, path).await;
        for index in 0..PROMPTS {
            alone.push(answer(lease.generate(request(index))).await.expect("the generation finishes").tokens);
        }
    }
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        let (engine, paths, alone) = (engine.clone(), paths.clone(), alone.clone());
        clients.spawn(async move {
            for at in (client..REQUESTS).step_by(CLIENTS) {
                // Knuth's multiplicative hash replaces a random number.
                let chance = (at as u32).wrapping_mul(2_654_435_761) >> 8;
                let (which, index) = (chance as usize % MODELS, chance as usize / 8 % PROMPTS);
                let acquired = lease(&engine, &paths[which]);
                if chance.is_multiple_of(11) {
                    // Cancels, perhaps while the model loads.
                    let _ = tokio::time::timeout(Duration::from_millis(2), acquired).await;
                    continue;
                }
                let lease = acquired.await;
                let events = lease.generate(request(index));
                if chance.is_multiple_of(5) {
                    tokio::time::sleep(Duration::from_micros(u64::from(chance % 4000))).await;
                    drop(events);
                    continue;
                }
                let finish = answer(events).await.expect("the generation finishes");
                assert_eq!(finish.tokens, alone[which * PROMPTS + index], "model {which}, prompt {index}");
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.expect("a client does not panic");
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(engine.loaded().is_empty(), "no lease is left: {:?}", engine.loaded());
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(tasks < 10, "{tasks} tasks are left");
}

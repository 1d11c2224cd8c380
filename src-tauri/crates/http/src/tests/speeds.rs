//! `/app/speeds` and `/app/hardware/measure`.

use cairn_wire::app::{DiscoverResponse, HardwareResponse, SpeedsResponse};
use serde::de::DeserializeOwned;

use super::*;

async fn reply<T: DeserializeOwned>(daemon: &Daemon, method: &str, path: &str) -> T {
    let reply = daemon.authorized(method, path, "").await;
    let (head, body) = reply.split_once('\n').expect("a head and a body");
    assert_eq!(head, "200 application/json; charset=utf-8", "{reply}");
    serde_json::from_str(body).expect("the body parses")
}

#[tokio::test]
async fn measurement_gives_rates_of_kernels_and_estimates_of_models() {
    let daemon = Daemon::start();
    let catalogue = "/app/discover?q=llama3.2&own=true";
    let before: DiscoverResponse = reply(&daemon, "GET", catalogue).await;
    assert!(
        before.models[0].variants.iter().all(|variant| variant.speed.is_none()),
        "nothing was measured: {before:?}"
    );
    let hardware: HardwareResponse = reply(&daemon, "POST", "/app/hardware/measure").await;
    assert!(!hardware.kernels.measuring, "the measurement is complete");
    for variant in hardware.kernels.variants.iter().filter(|variant| variant.usable) {
        let types: Vec<_> = variant.rates.iter().map(|rate| rate.dtype.as_str()).collect();
        assert!(types.contains(&"Q4_K") && types.contains(&"Q8_0"), "{variant:?}");
        assert_eq!(types.len() > 2, variant.in_use, "all types of the variant in use: {types:?}");
    }
    let speeds: SpeedsResponse = reply(&daemon, "GET", "/app/speeds").await;
    assert!(!speeds.measuring && !speeds.models.is_empty(), "{speeds:?}");
    for model in &speeds.models {
        assert!(!model.speed.answer.measured && model.speed.answer.tokens_per_second > 0.0, "no model ran: {model:?}");
    }
    let after: DiscoverResponse = reply(&daemon, "GET", catalogue).await;
    let variants = &after.models[0].variants;
    let estimates: Vec<f64> = variants.iter().filter_map(|one| Some(one.speed?.answer.tokens_per_second)).collect();
    assert_eq!(estimates.len(), variants.len(), "{variants:?}");
    assert!(estimates.iter().all(|estimate| estimate.is_finite() && *estimate > 0.0), "{variants:?}");
}

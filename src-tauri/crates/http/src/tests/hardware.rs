//! `/app/hardware`.

use cairn_wire::app::{DiskHolds, HardwareResponse};
use tokio_stream::StreamExt;

use super::*;

#[tokio::test]
async fn the_machine_is_told() {
    let daemon = Daemon::start();
    let heard = daemon.own("GET", "/app/hardware", "").await;
    let told: HardwareResponse = serde_json::from_str(heard.split_once('\n').unwrap().1).unwrap();
    assert!(told.cpu.used_cores > 0 && told.memory.total_bytes > told.memory.ours_bytes.unwrap_or(0), "{told:?}");
    assert_eq!(told.kernels.in_use, "scalar", "as the settings have it");
    let scalar = told.kernels.variants.last().expect("there is always one");
    assert!(scalar.name == "scalar" && scalar.usable && scalar.in_use && scalar.lacks.is_empty(), "{scalar:?}");
    for variant in &told.kernels.variants {
        assert_eq!(variant.usable, variant.lacks.is_empty(), "what cannot be used lacks something: {variant:?}");
    }
    let models = told.disks.iter().find(|disk| disk.holds == DiskHolds::Models).expect("the library");
    assert!(models.total_bytes >= models.free_bytes && models.free_bytes > Some(0), "{models:?}");
}

#[tokio::test(start_paused = true)]
async fn it_is_told_again_every_two_seconds() {
    let daemon = Daemon::start();
    let request = Request::get("/app/hardware/events")
        .header(header::HOST, format!("127.0.0.1:{PORT}"))
        .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"));
    let began = tokio::time::Instant::now();
    let mut lines = daemon.send(request.body(Body::empty()).unwrap()).await.into_body().into_data_stream();
    for line in 0..3 {
        let bytes = lines.next().await.expect("it goes on").expect("it can be read");
        serde_json::from_slice::<HardwareResponse>(&bytes).expect("a whole line");
        let waited = began.elapsed();
        assert!(waited >= Duration::from_secs(2 * line), "line {line} after {waited:?}");
    }
}

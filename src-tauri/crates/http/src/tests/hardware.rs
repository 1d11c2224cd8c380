//! `/app/hardware`.

use cairn_wire::app::{DiskHolds, HardwareResponse};
use tokio_stream::StreamExt;

use super::*;

#[tokio::test]
async fn hardware_reports_cpu_memory_kernels_and_disks() {
    let daemon = Daemon::start();
    let reply = daemon.authorized("GET", "/app/hardware", "").await;
    let hardware: HardwareResponse = serde_json::from_str(reply.split_once('\n').unwrap().1).unwrap();
    let memory = &hardware.memory;
    assert!(hardware.cpu.used_cores > 0 && memory.total_bytes > memory.ours_bytes.unwrap_or(0), "{hardware:?}");
    assert_eq!(hardware.kernels.in_use, "scalar", "the value of the setting");
    let scalar = hardware.kernels.variants.last().expect("at least one variant");
    assert!(scalar.name == "scalar" && scalar.usable && scalar.in_use && scalar.lacks.is_empty(), "{scalar:?}");
    for variant in &hardware.kernels.variants {
        assert_eq!(variant.usable, variant.lacks.is_empty(), "an unusable variant lacks a feature: {variant:?}");
    }
    let models = hardware.disks.iter().find(|disk| disk.holds == DiskHolds::Models).expect("the library");
    assert!(models.total_bytes >= models.free_bytes && models.free_bytes > Some(0), "{models:?}");
}

#[tokio::test(start_paused = true)]
async fn hardware_events_arrive_every_two_seconds() {
    let daemon = Daemon::start();
    let request = Request::get("/app/hardware/events")
        .header(header::HOST, format!("127.0.0.1:{PORT}"))
        .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"));
    let began = tokio::time::Instant::now();
    let mut lines = daemon.send(request.body(Body::empty()).unwrap()).await.into_body().into_data_stream();
    for line in 0..3 {
        let bytes = lines.next().await.expect("the stream continues").expect("a chunk");
        serde_json::from_slice::<HardwareResponse>(&bytes).expect("a whole line");
        let waited = began.elapsed();
        assert!(waited >= Duration::from_secs(2 * line), "line {line} after {waited:?}");
    }
}

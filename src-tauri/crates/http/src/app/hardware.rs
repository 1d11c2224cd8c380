//! `GET /app/hardware`: the hardware of this machine and its use. `/app/hardware/events` streams it every two seconds, and
//! `POST /app/hardware/measure` measures the kernels.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use cairn_app::App;
use cairn_app::speed::{TypeRate, VariantRates};
use cairn_app::system::{DiskUse, Hardware};
use cairn_wire::app::{
    DiskHolds, HardwareCpu, HardwareDisk, HardwareGpu, HardwareKernels, HardwareMemory, HardwareResponse, KernelRate,
    KernelVariant,
};
use tokio::time::Instant;

use crate::error::{ApiError, blocking, json};
use crate::streaming::Events;
use crate::{Server, ndjson};

const POLL_INTERVAL: Duration = Duration::from_secs(2);

pub(super) fn routes() -> Router<Server> {
    Router::new()
        .route("/app/hardware", get(hardware))
        .route("/app/hardware/events", get(events))
        .route("/app/hardware/measure", post(measure))
}

async fn hardware(State(server): State<Server>) -> Result<Response, ApiError> {
    Ok(json(StatusCode::OK, &probe(server.app()).await?))
}

async fn measure(State(server): State<Server>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    blocking(move || app.speeds().measure()).await??;
    Ok(json(StatusCode::OK, &probe(server.app()).await?))
}

async fn events(State(server): State<Server>) -> Response {
    ndjson::stream(HardwareEvents { next: Instant::now(), server: server.clone() }, server.activity().begin(), Ok)
}

/// Source of a hardware report every [`POLL_INTERVAL`].
struct HardwareEvents {
    next: Instant,
    server: Server,
}

impl Events for HardwareEvents {
    type Event = HardwareResponse;

    async fn next(&mut self) -> Option<HardwareResponse> {
        tokio::select! {
            () = tokio::time::sleep_until(self.next) => {}
            () = self.server.stopping() => return None,
        }
        self.next = Instant::now() + POLL_INTERVAL;
        probe(self.server.app()).await.ok()
    }
}

async fn probe(app: &App) -> Result<HardwareResponse, ApiError> {
    let app = app.clone();
    let (rates, measuring) = (app.speeds().kernel_rates(), app.speeds().is_measuring());
    let hardware = blocking(move || app.system().hardware()).await?;
    Ok(response(hardware, rates, measuring))
}

fn response(hardware: Hardware, rates: Vec<VariantRates>, measuring: bool) -> HardwareResponse {
    let Hardware { cpu, memory, process, kept_bytes, kernels, gpus, disks } = hardware;
    let in_use = kernels.iter().find(|kernel| kernel.in_use).map_or("", |kernel| kernel.name);
    HardwareResponse {
        cpu: HardwareCpu {
            architecture: std::env::consts::ARCH.to_owned(),
            physical_cores: cpu.physical_cores as u64,
            logical_cores: cpu.logical as u64,
            used_cores: cpu.usable_cores.len() as u64,
            features: cpu
                .features
                .named()
                .into_iter()
                .filter(|(_, has)| *has)
                .map(|(name, _)| name.to_owned())
                .collect(),
            brand: cpu.brand,
        },
        memory: HardwareMemory {
            total_bytes: memory.total_bytes,
            limit_bytes: memory.limit_bytes,
            available_bytes: memory.available_bytes,
            ours_bytes: process.map(|process| process.resident_bytes),
            ours_mapped_bytes: process.map(|process| process.mapped_bytes),
            kept_bytes,
        },
        kernels: HardwareKernels {
            in_use: in_use.to_owned(),
            variants: kernels
                .into_iter()
                .map(|kernel| KernelVariant {
                    name: kernel.name.to_owned(),
                    usable: kernel.usable,
                    in_use: kernel.in_use,
                    lacks: kernel.lacks.into_iter().map(str::to_owned).collect(),
                    rates: kernel_rates(&rates, kernel.name),
                })
                .collect(),
            measuring,
        },
        gpus: gpus
            .into_iter()
            .map(|gpu| HardwareGpu {
                name: gpu.name,
                vendor: gpu.vendor,
                driver: gpu.driver,
                memory_bytes: gpu.memory_bytes,
                used: false,
            })
            .collect(),
        disks: disks
            .into_iter()
            .map(|disk| HardwareDisk {
                holds: match disk.holds {
                    DiskUse::Models => DiskHolds::Models,
                    DiskUse::Linked => DiskHolds::Linked,
                    DiskUse::Cache => DiskHolds::Cache,
                    DiskUse::Data => DiskHolds::Data,
                },
                path: disk.path.display().to_string(),
                total_bytes: disk.total_bytes,
                free_bytes: disk.free_bytes,
            })
            .collect(),
    }
}

fn kernel_rates(rates: &[VariantRates], name: &str) -> Vec<KernelRate> {
    let variant = rates.iter().find(|variant| variant.name == name);
    let types = variant.map_or(&[][..], |variant| &variant.types);
    let rate = |rate: &TypeRate| KernelRate {
        dtype: rate.dtype.clone(),
        decode_bytes_per_second: rate.decode_bytes_per_second,
        prefill_operations_per_second: rate.prefill_operations_per_second,
    };
    types.iter().map(rate).collect()
}

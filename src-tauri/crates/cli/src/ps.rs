//! `cairn ps`: the loaded models.

use std::time::{Duration, SystemTime};

use cairn_wire::ollama::{PsModel, PsResponse};

use crate::table::{render, row};
use crate::{CliContext, args, daemon, human, output};

/// Models that expire later than this are shown as never expiring.
const FOREVER: Duration = Duration::from_secs(20 * 365 * 24 * 3600);

pub(crate) async fn print(cli: &CliContext, args: &args::Ps) -> anyhow::Result<()> {
    // Without a daemon no model is loaded, so do not start one.
    let models = match daemon::connect(cli).await? {
        Some(client) => client.get::<PsResponse>("/api/ps").await?.models,
        None => Vec::new(),
    };
    if args.json {
        let prefix = args.prefix.as_deref().unwrap_or_default();
        let models = models.into_iter().filter(|model| model.name.starts_with(prefix)).collect();
        return output::json(&PsResponse { models });
    }
    output::print(&table(&models, args.prefix.as_deref().unwrap_or_default(), cli.clock.now()))
}

fn table(models: &[PsModel], prefix: &str, now: SystemTime) -> String {
    let mut rows = vec![row(["NAME", "ID", "SIZE", "PROCESSOR", "CONTEXT", "UNTIL"])];
    for model in models.iter().filter(|model| model.name.starts_with(prefix)) {
        rows.push(vec![
            model.name.clone(),
            model.digest.chars().take(12).collect(),
            human::bytes(model.size),
            processor(model.size, model.size_vram),
            model.context_length.to_string(),
            until(model, now),
        ]);
    }
    render(&rows)
}

fn processor(size: u64, on_gpu: u64) -> String {
    match on_gpu {
        _ if size == 0 || on_gpu > size => "Unknown".to_owned(),
        0 => "100% CPU".to_owned(),
        on_gpu if on_gpu == size => "100% GPU".to_owned(),
        on_gpu => {
            let cpu = ((size - on_gpu) as f64 / size as f64 * 100.0).round() as u64;
            format!("{cpu}%/{}% CPU/GPU", 100 - cpu)
        }
    }
}

fn until(model: &PsModel, now: SystemTime) -> String {
    match model.expires_at.0.duration_since(now) {
        Err(_) => "Stopping...".to_owned(),
        Ok(left) if left > FOREVER => "Forever".to_owned(),
        Ok(_) => human::relative(model.expires_at, now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_wire::Timestamp;
    use cairn_wire::ollama::Details;

    #[test]
    fn processor_column_shows_cpu_and_gpu_share() {
        let check =
            |size: u64, on_gpu: u64, text: &str| assert_eq!(processor(size, on_gpu), text, "{on_gpu} of {size}");
        check(10, 0, "100% CPU");
        check(10, 10, "100% GPU");
        check(10, 11, "Unknown");
        check(0, 0, "Unknown");
        check(3, 2, "33%/67% CPU/GPU");
    }

    #[test]
    fn until_column_shows_expiry() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let check = |expires_at: SystemTime, text: &str| {
            let model = PsModel {
                name: "m".to_owned(),
                model: "m".to_owned(),
                size: 1,
                digest: String::new(),
                details: Details::default(),
                expires_at: Timestamp(expires_at),
                size_vram: 0,
                context_length: 4096,
            };
            assert_eq!(until(&model, now), text, "{expires_at:?}");
        };
        check(now - Duration::from_secs(1), "Stopping...");
        check(now + Duration::from_secs(240), "4 minutes from now");
        check(now + Duration::from_nanos(i64::MAX as u64), "Forever");
    }
}

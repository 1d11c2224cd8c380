//! `cairn doctor`: checks this installation. Each check is one line: its result, and what to do.
//!
//! No daemon is started. Without one, only the checks of this machine are made.

mod daemon_checks;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cairn_app::VERSION;
use cairn_disk::{Disk, Mode, RealDisk};
use serde::Serialize;

use crate::{CliContext, args, human, output};

/// Free bytes of the models' disk below which the next model may not fit.
const LOW_DISK_BYTES: u64 = 5_000_000_000;
/// Bytes of the disk that downloads leave free.
const RESERVED_DISK_BYTES: u64 = 512 << 20;
/// A clock before this time is wrong: 2025-01-01.
const EARLIEST: Duration = Duration::from_secs(1_735_689_600);

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warning,
    Fault,
}

/// A check and its result.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    status: Status,
    /// What was found.
    text: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

/// All checks, as `--json` prints them.
#[derive(Debug, Serialize)]
struct Report {
    checks: Vec<Check>,
    warnings: usize,
    faults: usize,
}

impl Check {
    fn ok(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, text: text.into(), advice: None }
    }

    fn warning(name: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, status: Status::Warning, text: text.into(), advice: Some(advice.into()) }
    }

    fn fault(name: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { status: Status::Fault, ..Self::warning(name, text, advice) }
    }
}

pub(crate) async fn print(cli: &CliContext, args: &args::Json) -> anyhow::Result<()> {
    let mut checks = vec![Check::ok("version", VERSION)];
    checks.extend(settings(&cli.settings.warnings));
    checks.extend(folders(cli));
    checks.push(free_space(&cli.settings.library));
    checks.push(clock(cli.clock.now()));
    checks.extend(daemon_checks::all(cli).await);
    let count = |status: Status| checks.iter().filter(|check| check.status == status).count();
    let (warnings, faults) = (count(Status::Warning), count(Status::Fault));
    let report = Report { checks, warnings, faults };
    if args.json {
        output::json(&report)?
    } else {
        output::print(&report.text())?
    }
    match faults {
        0 => Ok(()),
        1 => anyhow::bail!("1 fault"),
        faults => anyhow::bail!("{faults} faults"),
    }
}

impl Report {
    fn text(&self) -> String {
        let width = self.checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
        let lines = self.checks.iter().map(|check| {
            let status = match check.status {
                Status::Ok => "ok",
                Status::Warning => "warning",
                Status::Fault => "fault",
            };
            let advice = check.advice.as_ref().map(|advice| format!("; {advice}")).unwrap_or_default();
            format!("{status:<8} {:<width$}  {}{advice}\n", check.name, check.text)
        });
        lines.collect()
    }
}

/// Values of settings that cannot be read, and variables without effect.
fn settings(warnings: &[String]) -> Vec<Check> {
    let advice = "correct or remove it";
    let mut checks: Vec<Check> = warnings.iter().map(|warning| Check::warning("settings", warning, advice)).collect();
    if checks.is_empty() {
        checks.push(Check::ok("settings", "all values can be read"));
    }
    checks
}

/// The folders of Cairn: whether files can be created in them.
fn folders(cli: &CliContext) -> Vec<Check> {
    let places = &cli.places;
    let folders = [
        ("data", &places.data),
        ("config", &places.config),
        ("cache", &places.cache),
        ("runtime", &places.runtime),
        ("log", &places.logs),
    ];
    folders.into_iter().map(|(name, folder)| folder_check(name, folder)).collect()
}

fn folder_check(name: &'static str, folder: &Path) -> Check {
    let existing = existing(folder);
    match RealDisk.create_temp_file(&existing, Mode::Private).map(drop) {
        Ok(()) => Check::ok(name, folder.display().to_string()),
        Err(error) => Check::fault(
            name,
            format!("cannot write to {}: {error}", existing.display()),
            "change its permissions, or set CAIRN_HOME to a writable folder",
        ),
    }
}

/// Returns the folder or the first folder above it that exists.
fn existing(folder: &Path) -> PathBuf {
    folder.ancestors().find(|folder| folder.exists()).unwrap_or(folder).to_owned()
}

fn free_space(library: &Path) -> Check {
    let place = library.display();
    if !existing(library).is_dir() {
        let text = format!("no model can be stored in {place}: it is no folder");
        return Check::fault("disk", text, "set OLLAMA_MODELS to a folder");
    }
    match RealDisk.free_bytes(&existing(library)) {
        Err(error) => {
            Check::warning("disk", format!("the free space of {place} is unknown: {error}"), "check the disk")
        }
        Ok(free) => {
            let text = format!("{} free for models in {place}", human::bytes(free));
            match () {
                () if free < RESERVED_DISK_BYTES => {
                    Check::fault("disk", text, "delete models with `cairn rm`, or set OLLAMA_MODELS to another disk")
                }
                () if free < LOW_DISK_BYTES => {
                    Check::warning("disk", text, "`cairn du` and `cairn gc --dry-run` show what can be freed")
                }
                () => Check::ok("disk", text),
            }
        }
    }
}

fn clock(now: SystemTime) -> Check {
    let earliest = SystemTime::UNIX_EPOCH + EARLIEST;
    let shown = cairn_wire::Timestamp(now);
    match now < earliest {
        true => Check::fault(
            "clock",
            format!("the system's clock shows {shown}"),
            "set the clock: certificates of registries cannot be verified",
        ),
        false => Check::ok("clock", shown.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_before_the_release_is_a_fault() {
        let check = |seconds: u64, expected: Status| {
            let found = clock(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(found.status, expected, "{found:?}");
        };
        check(0, Status::Fault);
        check(1_800_000_000, Status::Ok);
    }

    #[test]
    fn unusable_folder_is_a_fault_with_the_folder_above() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let found = folder_check("data", &file.join("below"));
        assert_eq!(found.status, Status::Fault, "a file is no folder: {found:?}");
        assert!(found.advice.is_some_and(|advice| advice.contains("CAIRN_HOME")), "what to do");
        let found = folder_check("data", &folder.path().join("not/yet"));
        assert_eq!(found.status, Status::Ok, "a folder that can be created: {found:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left");
    }

    #[test]
    fn library_that_is_no_folder_is_a_fault() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for path in [file.path().to_owned(), file.path().join("models")] {
            let found = free_space(&path);
            assert_eq!(found.status, Status::Fault, "{found:?}");
            assert!(found.advice.is_some_and(|advice| advice.contains("OLLAMA_MODELS")), "what to do");
        }
    }

    #[test]
    fn report_has_one_line_for_each_check() {
        let checks = vec![Check::ok("clock", "now"), Check::fault("disk", "0 B free", "delete models")];
        let report = Report { checks, warnings: 0, faults: 1 };
        assert_eq!(report.text(), "ok       clock  now\nfault    disk   0 B free; delete models\n");
    }
}

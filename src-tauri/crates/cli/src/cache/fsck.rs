//! `cairn cache fsck`: whether the folder's chunks are what was written, with the daemon or without one.

use std::fmt::Write;

use anyhow::bail;
use cairn_app::cache::check_folder;
use cairn_wire::app::CacheFsck;

use crate::{Setting, daemon, human, output};

pub(super) async fn fsck(setting: &Setting, fix: bool, json: bool) -> anyhow::Result<()> {
    let client = daemon::find(setting).await?.filter(|client| client.is_ours());
    let report = match client {
        Some(_) if fix => bail!("the daemon uses the folder: `cairn stop --daemon` first, then try again"),
        Some(client) => client.get("/app/cache/fsck").await?,
        None => {
            let settings = setting.settings.clone();
            cairn_http::checkup(tokio::task::spawn_blocking(move || check_folder(&settings, fix)).await??)
        }
    };
    match json {
        true => output::json(&report)?,
        false => output::print(&text(&report))?,
    }
    if report.damaged.is_empty() && report.unread.is_empty() || report.fixed {
        return Ok(());
    }
    bail!("{} are damaged or cannot be read", human::files((report.damaged.len() + report.unread.len()) as u64))
}

fn text(report: &CacheFsck) -> String {
    let mut text = format!("{}: {} whole chunks, {}\n", report.folder, report.whole, human::bytes(report.whole_bytes));
    let mut line = |line: String| writeln!(text, "{line}").expect("writing into a string does not fail");
    let done = if report.fixed { "removed" } else { "damaged" };
    for file in &report.damaged {
        line(format!("{done} {}: {}", file.path, file.reason));
    }
    for file in &report.unread {
        line(format!("could not read {}: {}", file.path, file.reason));
    }
    let hint = if report.fixed { "removed" } else { "--fix removes them, while no daemon runs" };
    if report.orphans > 0 {
        let size = human::bytes(report.orphan_bytes);
        line(format!(
            "{} chunks ({size}) are of no use, since what comes before them is not there: {hint}",
            report.orphans
        ));
    }
    if report.aside > 0 {
        line(format!("{} put aside before, because they were damaged: {hint}", human::files(report.aside)));
    }
    if report.foreign > 0 {
        line(format!("{} kept by other installations: left alone", human::files(report.foreign)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_wire::app::DamagedChunk;

    #[test]
    fn what_is_wrong_is_named() {
        let damaged = DamagedChunk { path: "/k/a".to_owned(), reason: "torn".to_owned() };
        let report = CacheFsck {
            folder: "/k".to_owned(),
            whole: 3,
            whole_bytes: 3_000_000,
            damaged: vec![damaged],
            orphans: 2,
            orphan_bytes: 2_000_000,
            aside: 1,
            foreign: 12,
            ..CacheFsck::default()
        };
        let expected = "/k: 3 whole chunks, 3 MB\ndamaged /k/a: torn\n\
                        2 chunks (2 MB) are of no use, since what comes before them is not there: \
                        --fix removes them, while no daemon runs\n\
                        1 file put aside before, because they were damaged: --fix removes them, while no daemon runs\n\
                        12 files kept by other installations: left alone\n";
        assert_eq!(text(&report), expected, "and what to do about it");
    }
}

//! `cairn cache fsck`: verifies the chunks of the cache folder, with or without a running daemon.

use std::fmt::Write;

use anyhow::bail;
use cairn_app::cache::check_folder;
use cairn_wire::app::CacheFsck;

use crate::{CliContext, daemon, human, output};

pub(super) async fn fsck(cli: &CliContext, fix: bool, json: bool) -> anyhow::Result<()> {
    let client = daemon::connect(cli).await?.filter(|client| client.is_own_daemon());
    let report = match client {
        Some(_) if fix => {
            bail!("cannot repair the cache folder while the daemon uses it; run `cairn stop --daemon` first")
        }
        Some(client) => client.get("/app/cache/fsck").await?,
        None => {
            let settings = cli.settings.clone();
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
        line(format!("cannot read {}: {}", file.path, file.reason));
    }
    let hint = if report.fixed { "removed" } else { "stop the daemon and use --fix to remove them" };
    if report.orphans > 0 {
        let size = human::bytes(report.orphan_bytes);
        line(format!("{} chunks ({size}) are unusable, because a preceding chunk is missing: {hint}", report.orphans));
    }
    if report.aside > 0 {
        line(format!("{} set aside earlier as damaged: {hint}", human::files(report.aside)));
    }
    if report.foreign > 0 {
        line(format!("{} of other installations: not touched", human::files(report.foreign)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_wire::app::DamagedChunk;

    #[test]
    fn fsck_text_lists_all_defects() {
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
                        2 chunks (2 MB) are unusable, because a preceding chunk is missing: \
                        stop the daemon and use --fix to remove them\n\
                        1 file set aside earlier as damaged: stop the daemon and use --fix to remove them\n\
                        12 files of other installations: not touched\n";
        assert_eq!(text(&report), expected, "each defect with its remedy");
    }
}

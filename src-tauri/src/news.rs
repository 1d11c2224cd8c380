//! Download outcomes for notifications: completed and failed downloads. Progress and the user's own actions are not
//! notified.

use cairn_wire::app::{Download, DownloadState};

/// Outcome of a download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DownloadOutcome {
    Finished { model: String },
    Failed { model: String, reason: String },
}

/// Returns the outcomes between two lists. A download that is only in the second list may have started and ended in
/// between.
pub(crate) fn outcomes_between(before: &[Download], after: &[Download]) -> Vec<DownloadOutcome> {
    let old_state = |download: &Download| before.iter().find(|old| old.id == download.id).map(|old| old.state);
    after
        .iter()
        .filter(|download| old_state(download) != Some(download.state))
        .filter_map(|download| {
            let model = download.model.clone();
            match download.state {
                DownloadState::Done => Some(DownloadOutcome::Finished { model }),
                DownloadState::Failed => Some(DownloadOutcome::Failed {
                    model,
                    reason: download.error.as_ref().map_or_else(String::new, ToString::to_string),
                }),
                DownloadState::Queued | DownloadState::Running | DownloadState::Paused | DownloadState::Stopped => None,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tray::menu::tests::download;

    #[test]
    fn outcomes_are_completed_and_failed_downloads() {
        use DownloadState::{Done, Failed, Paused, Queued, Running, Stopped};
        let check = |before: &[DownloadState], after: &[DownloadState], expected: &[&str]| {
            let list = |states: &[DownloadState]| -> Vec<Download> {
                (1..).zip(states).map(|(id, state)| download(id, *state, 0)).collect()
            };
            let outcomes: Vec<String> = outcomes_between(&list(before), &list(after))
                .iter()
                .map(|outcome| match outcome {
                    DownloadOutcome::Finished { model } => format!("{model} finished"),
                    DownloadOutcome::Failed { model, reason } => format!("{model}: {reason}"),
                })
                .collect();
            assert_eq!(outcomes, expected, "{before:?} to {after:?}");
        };
        check(&[], &[Queued], &[]);
        check(&[Queued], &[Running], &[]);
        check(&[Running], &[Running], &[]);
        check(&[Running], &[Paused], &[]);
        check(&[Running], &[Stopped], &[]);
        check(&[Running, Running], &[Done, Running], &["m1 finished"]);
        check(&[Done], &[Done], &[]);
        check(&[Running], &[Failed], &["m1: no space"]);
        check(&[Failed], &[Failed], &[]);
        check(&[], &[Done], &["m1 finished"]);
    }
}

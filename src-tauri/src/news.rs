//! What is worth a notification: a model that has come, and one that will not come unless its user does something. Progress never
//! is, and neither is what a user did.

use cairn_wire::app::{Download, DownloadState};

/// Something to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    /// The model is here.
    Finished { model: String },
    /// It stopped for a reason.
    Failed { model: String, why: String },
}

/// What happened between two lists. A download that was not in the first one began after it, and may already have ended.
pub(crate) fn between(before: &[Download], after: &[Download]) -> Vec<News> {
    let was = |download: &Download| before.iter().find(|old| old.id == download.id).map(|old| old.state);
    after
        .iter()
        .filter(|download| was(download) != Some(download.state))
        .filter_map(|download| {
            let model = download.model.clone();
            match download.state {
                DownloadState::Done => Some(News::Finished { model }),
                DownloadState::Failed => Some(News::Failed {
                    model,
                    why: download.error.as_ref().map_or_else(String::new, ToString::to_string),
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
    fn only_ends_are_news() {
        use DownloadState::{Done, Failed, Paused, Queued, Running, Stopped};
        let check = |before: &[DownloadState], after: &[DownloadState], expected: &[&str]| {
            let list = |states: &[DownloadState]| -> Vec<Download> {
                (1..).zip(states).map(|(id, state)| download(id, *state, 0)).collect()
            };
            let told: Vec<String> = between(&list(before), &list(after))
                .iter()
                .map(|news| match news {
                    News::Finished { model } => format!("{model} is here"),
                    News::Failed { model, why } => format!("{model}: {why}"),
                })
                .collect();
            assert_eq!(told, expected, "{before:?} to {after:?}");
        };
        check(&[], &[Queued], &[]);
        check(&[Queued], &[Running], &[]);
        check(&[Running], &[Running], &[]);
        check(&[Running], &[Paused], &[]);
        check(&[Running], &[Stopped], &[]);
        check(&[Running, Running], &[Done, Running], &["m1 is here"]);
        check(&[Done], &[Done], &[]);
        check(&[Running], &[Failed], &["m1: no space"]);
        check(&[Failed], &[Failed], &[]);
        check(&[], &[Done], &["m1 is here"]);
    }
}

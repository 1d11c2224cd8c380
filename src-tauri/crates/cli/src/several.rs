//! Verbs that take several models. Each model is tried even if another one failed; the last line sums up the failures.
//! With `--json` the last line of a failed verb is its error.

use anyhow::{anyhow, bail};
use serde::Serialize;

use crate::{is_broken_pipe, one_line, output};

/// A failure, as printed with `--json`.
#[derive(Serialize)]
struct Failure<'a> {
    error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
}

/// An error after which the other models are not tried: the user interrupted the verb, or the daemon ended.
#[derive(Debug)]
pub(crate) struct AbortAll(pub(crate) String);

impl std::fmt::Display for AbortAll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AbortAll {}

/// Prints the error of a failed verb as JSON if `json` is set. Returns `result` unchanged.
pub(crate) fn report_failure<T>(json: bool, model: Option<&str>, result: anyhow::Result<T>) -> anyhow::Result<T> {
    if let Err(error) = &result
        && json
        && !is_broken_pipe(error)
    {
        output::json(&Failure { error: one_line(error), model })?;
    }
    result
}

/// Returns the model if `models` has exactly one.
pub(crate) fn only(models: &[String]) -> Option<&str> {
    match models {
        [model] => Some(model),
        _ => None,
    }
}

/// Checks the syntax of all names if there are at least two, so that none is processed if one is invalid. `action` is a
/// past participle for the error, for example `deleted`.
///
/// # Errors
/// If names are invalid: lists all of them.
pub(crate) fn check_names(models: &[String], action: &str) -> anyhow::Result<()> {
    if models.len() < 2 {
        return Ok(());
    }
    let invalid =
        |model: &String| cairn_app::transfers::check_name(model).err().map(|error| format!("{model:?}: {error}"));
    let invalid: Vec<String> = models.iter().filter_map(invalid).collect();
    match invalid.is_empty() {
        true => Ok(()),
        false => bail!("{}; nothing was {action}", invalid.join("; ")),
    }
}

/// Runs `action` for each of the models. `failure` is the predicate of the summary, for example `were not deleted`.
///
/// # Errors
/// For one model, its own error. For several, a list of the failed ones.
pub(crate) async fn each(
    json: bool,
    models: &[String],
    failure: &str,
    mut action: impl AsyncFnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if let Some(model) = only(models) {
        return report_failure(json, Some(model), action(model).await);
    }
    let mut failed = Vec::new();
    for (index, model) in models.iter().enumerate() {
        let Err(error) = action(model).await else { continue };
        if is_broken_pipe(&error) {
            return Err(error);
        }
        let is_abort = error.is::<AbortAll>();
        let error = format!("{model}: {}", one_line(&error));
        output::note(&format!("Error: {error}"));
        failed.push(model.as_str());
        if json {
            output::json(&Failure { error, model: Some(model) })?;
        }
        if is_abort {
            failed.extend(models[index + 1..].iter().map(String::as_str));
            break;
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    let summary = anyhow!("{} of {} models {failure}: {}", failed.len(), models.len(), failed.join(", "));
    report_failure(json, None, Err(summary))
}

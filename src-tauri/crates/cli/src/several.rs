//! Verbs that are told of several models: each is tried, whatever became of the others, and what failed is summed up at the
//! end. With `--json` the last line of a verb that failed is its error, for scripts that read nothing else.

use anyhow::{anyhow, bail};
use serde::Serialize;

use crate::{is_broken_pipe, one_line, output};

/// What `--json` says of a failure.
#[derive(Serialize)]
struct Failure<'a> {
    error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
}

/// An error after which the other models are not tried: whoever asked has had enough, or nobody is there to do it.
#[derive(Debug)]
pub(crate) struct Enough(pub(crate) String);

impl std::fmt::Display for Enough {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Enough {}

/// Tells scripts of an error, which is then handed on.
pub(crate) fn told<T>(json: bool, model: Option<&str>, done: anyhow::Result<T>) -> anyhow::Result<T> {
    if let Err(error) = &done
        && json
        && !is_broken_pipe(error)
    {
        output::json(&Failure { error: one_line(error), model })?;
    }
    done
}

/// The model, where there is one only.
pub(crate) fn only(models: &[String]) -> Option<&str> {
    match models {
        [model] => Some(model),
        _ => None,
    }
}

/// Refuses names that are none before anything is done, where others would be done first.
pub(crate) fn check_names(models: &[String], not_done: &str) -> anyhow::Result<()> {
    if models.len() < 2 {
        return Ok(());
    }
    let wrong =
        |model: &String| cairn_app::transfers::check_name(model).err().map(|error| format!("{model:?}: {error}"));
    let wrong: Vec<String> = models.iter().filter_map(wrong).collect();
    match wrong.is_empty() {
        true => Ok(()),
        false => bail!("{}; nothing was {not_done}", wrong.join("; ")),
    }
}

/// Does `one` for each of the models; `not_done` is what is said of those for which it failed.
///
/// # Errors
/// The only model's own error; of several, which of them failed.
pub(crate) async fn each(
    json: bool,
    models: &[String],
    not_done: &str,
    mut one: impl AsyncFnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if let Some(model) = only(models) {
        return told(json, Some(model), one(model).await);
    }
    let mut failed = Vec::new();
    for (place, model) in models.iter().enumerate() {
        let Err(error) = one(model).await else { continue };
        if is_broken_pipe(&error) {
            return Err(error);
        }
        let enough = error.is::<Enough>();
        let error = format!("{model}: {}", one_line(&error));
        output::note(&format!("Error: {error}"));
        failed.push(model.as_str());
        if json {
            output::json(&Failure { error, model: Some(model) })?;
        }
        if enough {
            failed.extend(models[place + 1..].iter().map(String::as_str));
            break;
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    let sum = anyhow!("{} of {} models {not_done}: {}", failed.len(), models.len(), failed.join(", "));
    told(json, None, Err(sum))
}

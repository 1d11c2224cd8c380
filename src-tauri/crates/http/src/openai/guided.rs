//! Formats of an answer that other servers have as extensions of the API: a regular expression, a grammar, a choice of texts. The
//! names of the fields are those of vLLM.

use cairn_app::inference::{Constraint, Part};
use cairn_wire::openai::StructuredOutputs;
use serde_json::Value;

use crate::error::ApiError;

/// Returns the format of an answer: the one of `response_format`, or the one of these fields.
pub(super) fn format(
    response_format: Option<Constraint>,
    outputs: Option<StructuredOutputs>,
    guided: StructuredOutputs,
) -> Result<Option<Constraint>, ApiError> {
    let all = [constraints(outputs.unwrap_or_default())?, constraints(guided)?].concat();
    let mut all = response_format.into_iter().chain(all);
    match (all.next(), all.next()) {
        (_, Some(_)) => Err(ApiError::bad_request(
            "the request has several output formats; send one of response_format, structured_outputs and guided_*",
        )),
        (format, None) => Ok(format),
    }
}

fn constraints(outputs: StructuredOutputs) -> Result<Vec<Constraint>, ApiError> {
    let StructuredOutputs { json, regex, choice, grammar } = outputs;
    let schema = |json: Value| match json {
        Value::String(text) => serde_json::from_str(&text)
            .map_err(|error| ApiError::bad_request(format!("the JSON schema of the output is not JSON: {error}"))),
        schema => Ok(schema),
    };
    let choice = choice.map(|texts| match texts.is_empty() {
        true => Err(ApiError::bad_request("the choice of outputs is empty")),
        false => Ok(Constraint::Parts(Part::Choice(texts.into_iter().map(Part::Text).collect()))),
    });
    let json = json.map(schema).transpose()?.map(Constraint::JsonSchema);
    Ok(json
        .into_iter()
        .chain(regex.map(Constraint::Regex))
        .chain(choice.transpose()?)
        .chain(grammar.map(Constraint::Lark))
        .collect())
}

//! `cairn show`: details of one model.

use std::fmt::Write;

use cairn_wire::ollama::{ShowRequest, ShowResponse};
use serde_json::Value;

use crate::table::render;
use crate::{CliContext, args, daemon, model, output};

/// Columns after which an array is truncated.
const ARRAY_COLUMNS: usize = 10;
/// Lines of a licence or a system message that are shown.
const TEXT_LINES: usize = 2;

pub(crate) async fn print(cli: &CliContext, args: &args::Show) -> anyhow::Result<()> {
    let client = daemon::connect_or_start(cli).await?;
    let name = model::resolve(&client, &args.model).await?;
    let request = ShowRequest { model: name, verbose: Some(args.verbose), ..Default::default() };
    let shown: ShowResponse = client.post("/api/show", &request).await?;
    if args.json {
        return output::json(&shown);
    }
    let parts = [
        (args.license, &shown.license),
        (args.modelfile, &shown.modelfile),
        (args.parameters, &shown.parameters),
        (args.template, &shown.template),
        (args.system, &shown.system),
    ];
    match parts.into_iter().find(|(is_selected, _)| *is_selected) {
        Some((_, text)) => output::print(&format!("{text}\n")),
        None => output::print(&text(&shown, args.verbose)),
    }
}

pub(crate) fn text(shown: &ShowResponse, verbose: bool) -> String {
    let mut out = String::new();
    section(&mut out, "Model", &model_rows(shown));
    let capabilities: Vec<Vec<String>> = shown.capabilities.iter().map(|name| vec![name.clone()]).collect();
    section(&mut out, "Capabilities", &capabilities);
    let parameters: Vec<Vec<String>> = shown
        .parameters
        .lines()
        .map(|line| {
            line.split_once(' ').map_or(vec![line.to_owned()], |(a, b)| vec![a.to_owned(), b.trim().to_owned()])
        })
        .collect();
    section(&mut out, "Parameters", &parameters);
    if verbose {
        let mut info: Vec<(&String, &Value)> = shown.model_info.iter().collect();
        info.sort_by_key(|(key, _)| *key);
        let info: Vec<Vec<String>> = info.into_iter().map(|(key, value)| vec![key.clone(), short(value)]).collect();
        section(&mut out, "Metadata", &info);
        let tensors: Vec<Vec<String>> = shown
            .tensors
            .iter()
            .map(|tensor| vec![tensor.name.clone(), tensor.kind.clone(), format!("{:?}", tensor.shape)])
            .collect();
        section(&mut out, "Tensors", &tensors);
    }
    section(&mut out, "System", &first_lines(&shown.system));
    section(&mut out, "License", &first_lines(&shown.license));
    out
}

fn model_rows(shown: &ShowResponse) -> Vec<Vec<String>> {
    let architecture = shown.model_info.get("general.architecture").and_then(Value::as_str);
    let architecture = architecture.unwrap_or(&shown.details.family).to_owned();
    let number = |key: &str| shown.model_info.get(&format!("{architecture}.{key}")).and_then(Value::as_u64);
    let parameters = match shown.model_info.get("general.parameter_count").and_then(Value::as_u64) {
        Some(count) => cairn_wire::human_count(count),
        None => shown.details.parameter_size.clone(),
    };
    // Servers of OpenAI's API have no metadata.
    let context = number("context_length").or(shown.details.context_length);
    let rows = [
        ("architecture", architecture.clone()),
        ("parameters", parameters),
        ("context length", context.map(|n| n.to_string()).unwrap_or_default()),
        ("embedding length", number("embedding_length").map(|n| n.to_string()).unwrap_or_default()),
        ("quantization", shown.details.quantization_level.clone()),
        ("template", shown.template_reason.clone()),
        ("template problem", shown.template_problem.clone().unwrap_or_default()),
        ("vision problem", shown.vision_problem.clone().unwrap_or_default()),
        ("origin", shown.origin.clone().unwrap_or_default()),
    ];
    rows.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| vec![name.to_owned(), value]).collect()
}

/// Appends a header and an indented table; nothing if there are no rows.
fn section(out: &mut String, header: &str, rows: &[Vec<String>]) {
    if rows.is_empty() {
        return;
    }
    let rows: Vec<Vec<String>> = rows.iter().map(|row| [vec![String::new()], row.clone()].concat()).collect();
    writeln!(out, "  {header}\n{}", render(&rows)).expect("writing into a string does not fail");
}

fn first_lines(text: &str) -> Vec<Vec<String>> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut rows: Vec<Vec<String>> = lines.by_ref().take(TEXT_LINES).map(|line| vec![line.to_owned()]).collect();
    if lines.next().is_some() {
        rows.push(vec!["...".to_owned()]);
    }
    rows
}

/// Formats a value for one cell. Long arrays are truncated.
fn short(value: &Value) -> String {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let Value::Array(items) = value else { return plain(value) };
    let mut text = "[".to_owned();
    for (index, item) in items.iter().enumerate() {
        if index > 0 && text.chars().count() >= ARRAY_COLUMNS {
            return format!("{text} ...+{} more]", items.len() - index);
        }
        text += if index > 0 { " " } else { "" };
        text += &plain(item);
    }
    text + "]"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_has_header_and_indented_rows() {
        let mut out = String::new();
        section(&mut out, "Model", &[vec!["architecture".to_owned(), "llama".to_owned()]]);
        assert_eq!(out, "  Model\n    architecture    llama    \n\n", "a header, an empty column, an empty line");
        section(&mut out, "Nothing", &[]);
        assert!(!out.contains("Nothing"), "no rows, no header");
    }

    #[test]
    fn long_values_are_truncated() {
        let check = |value: Value, text: &str| assert_eq!(short(&value), text, "{value}");
        check(serde_json::json!([1, 2]), "[1 2]");
        check(serde_json::json!([100, 200, 300, 400]), "[100 200 300 ...+1 more]");
        check(serde_json::json!("text"), "text");
        check(Value::Null, "null");
        let lines = first_lines("a\n\n b\nc\n");
        assert_eq!(lines, [["a"], ["b"], ["..."]].map(|row| row.map(str::to_owned).to_vec()), "two lines and dots");
    }
}

//! Answers of the built-in model with an output format, checked by another implementation of JSON Schema.

use serde_json::json;

use crate::cairn::Home;
use crate::clients::script;

/// The first answer and the number of answers: 100 in CI, 1,000 in `cargo xtask prove structured`.
#[expect(clippy::disallowed_methods, reason = "`cargo xtask prove` sets the scale")]
fn scale() -> [u64; 2] {
    let number = |name: &str| std::env::var(name).ok().and_then(|number| number.parse().ok());
    [number("CAIRN_PROVE_FROM").unwrap_or(0), number("CAIRN_PROVE_RUNS").unwrap_or(100)]
}

#[test]
fn structured_answers_parse_and_match_their_schemas() {
    let home = Home::new();
    let _daemon = home.serve();
    let [first, count] = scale();
    let host = format!("http://127.0.0.1:{}", home.port);
    let report = script("structured.py", &[&host, &first.to_string(), &count.to_string()]);
    println!("{report}");
    assert_eq!((&report["answers"], &report["schemas"]), (&json!(count), &json!(50)), "{report}");
    assert_eq!(report["faults"], json!([]), "answers that do not match: {report:#}");
}

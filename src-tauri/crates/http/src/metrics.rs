//! `GET /metrics`: metrics in the Prometheus text format, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>). It needs an API key for metrics, or the daemon's token.

use std::fmt::Write;

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use cairn_app::system::{Family, FamilyKind};

use crate::Server;

/// Path that [`crate::access`] protects.
pub(crate) const PATH: &str = "/metrics";
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) fn routes() -> Router<Server> {
    Router::new().route(PATH, get(metrics))
}

async fn metrics(State(server): State<Server>) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text(&server.app().system().metrics())).into_response()
}

fn text(families: &[Family]) -> String {
    const INFALLIBLE: &str = "writing to a String cannot fail";
    let mut text = String::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let kind = match family.kind {
            FamilyKind::Counter => "counter",
            FamilyKind::Gauge => "gauge",
            FamilyKind::Histogram => "histogram",
        };
        let about = family.about.replace('\\', r"\\").replace('\n', r"\n");
        writeln!(text, "# HELP {0} {about}\n# TYPE {0} {kind}", family.name).expect(INFALLIBLE);
        for sample in &family.samples {
            text.push_str(family.name);
            text.push_str(sample.suffix);
            let labels: Vec<String> =
                sample.labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
            if !labels.is_empty() {
                write!(text, "{{{}}}", labels.join(",")).expect(INFALLIBLE);
            }
            writeln!(text, " {}", sample.value).expect(INFALLIBLE);
        }
    }
    text
}

/// Escapes a label value, which may contain any character: a model's name for example.
fn escape(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use cairn_app::system::Sample;

    use super::*;

    #[test]
    fn text_escapes_values_and_skips_empty_families() {
        let sample = |labels: &[(&'static str, &str)], value| Sample {
            suffix: "",
            labels: labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
            value,
        };
        let family = |name, kind, samples| Family { name, about: "What it \\ is.\nReally.", kind, samples };
        let families = [
            family("a_total", FamilyKind::Counter, vec![sample(&[("m", "a\\b\"c\nd"), ("t", "x")], 3.0)]),
            family("nothing", FamilyKind::Gauge, Vec::new()),
            family("h", FamilyKind::Histogram, vec![Sample { suffix: "_sum", ..sample(&[], 1.5) }]),
            family("b", FamilyKind::Gauge, vec![sample(&[], 0.5), sample(&[("m", "é")], 1e15)]),
        ];
        let expected = r#"# HELP a_total What it \\ is.\nReally.
# TYPE a_total counter
a_total{m="a\\b\"c\nd",t="x"} 3
# HELP h What it \\ is.\nReally.
# TYPE h histogram
h_sum 1.5
# HELP b What it \\ is.\nReally.
# TYPE b gauge
b 0.5
b{m="é"} 1000000000000000
"#;
        assert_eq!(text(&families), expected, "escaped values, and no family without samples");
    }
}

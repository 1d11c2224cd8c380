//! `GET /metrics`: the daemon's numbers for Prometheus, in its text format, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>). Asked like `/app`, with the daemon's token.

use std::fmt::Write;

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use cairn_app::system::{Family, FamilyKind};

use crate::Server;

/// The path, which [`crate::access`] guards.
pub(crate) const PATH: &str = "/metrics";
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) fn routes() -> Router<Server> {
    Router::new().route(PATH, get(metrics))
}

async fn metrics(State(server): State<Server>) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text(&server.app().system().metrics())).into_response()
}

fn text(families: &[Family]) -> String {
    const FITS: &str = "a String grows";
    let mut text = String::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let kind = match family.kind {
            FamilyKind::Counter => "counter",
            FamilyKind::Gauge => "gauge",
            FamilyKind::Histogram => "histogram",
        };
        let about = family.about.replace('\\', r"\\").replace('\n', r"\n");
        writeln!(text, "# HELP {0} {about}\n# TYPE {0} {kind}", family.name).expect(FITS);
        for sample in &family.samples {
            text.push_str(family.name);
            text.push_str(sample.suffix);
            let labels: Vec<String> =
                sample.labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            if !labels.is_empty() {
                write!(text, "{{{}}}", labels.join(",")).expect(FITS);
            }
            writeln!(text, " {}", sample.value).expect(FITS);
        }
    }
    text
}

/// A label's value, which may be anything: a model's name for instance.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use cairn_app::system::Sample;

    use super::*;

    #[test]
    fn families_are_written_as_prometheus_reads_them() {
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
        assert_eq!(text(&families), expected, "escaped, and nothing of a family without numbers");
    }
}

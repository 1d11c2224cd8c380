//! What an answer cost, in lines, as `--verbose` prints it.

use cairn_wire::go_duration;
use cairn_wire::ollama::Metrics;

/// One line per value that is not zero.
pub(super) fn text(metrics: &Metrics) -> String {
    let duration = |ns: u64| (ns > 0).then(|| go_duration::format(i64::try_from(ns).unwrap_or(i64::MAX)));
    let count = |tokens: u64| (tokens > 0).then(|| format!("{tokens} token(s)"));
    let rate = |tokens: u64, ns: u64| {
        (tokens > 0 && ns > 0).then(|| format!("{:.2} tokens/s", tokens as f64 / (ns as f64 / 1e9)))
    };
    let restored = || {
        let places =
            [("RAM", metrics.ram_tokens), ("SSD", metrics.ssd_tokens), ("the remote tier", metrics.remote_tokens)];
        let parts: Vec<String> =
            places.iter().filter(|(_, n)| *n > 0).map(|(place, n)| format!("{n} from {place}")).collect();
        let time = duration(metrics.restore_duration).unwrap_or_default();
        (!parts.is_empty())
            .then(|| format!("{} of {} prompt tokens, in {time}", parts.join(", "), metrics.prompt_eval_count))
    };
    let computed = metrics.prompt_eval_count.saturating_sub(metrics.cached_tokens);
    let lines = [
        ("total duration", duration(metrics.total_duration)),
        ("load duration", duration(metrics.load_duration)),
        ("prompt eval count", count(metrics.prompt_eval_count)),
        ("of these cached", count(metrics.cached_tokens)),
        ("of these restored", restored()),
        ("prompt eval duration", duration(metrics.prompt_eval_duration)),
        ("prompt eval rate", rate(computed, metrics.prompt_eval_duration)),
        ("eval count", count(metrics.eval_count)),
        ("eval duration", duration(metrics.eval_duration)),
        ("eval rate", rate(metrics.eval_count, metrics.eval_duration)),
    ];
    let written = lines.into_iter().filter_map(|(name, value)| Some(format!("{:<22}{}\n", format!("{name}:"), value?)));
    written.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_left_out_and_rates_are_of_computed_tokens() {
        let metrics = Metrics {
            total_duration: 1_500_000_000,
            prompt_eval_count: 26,
            cached_tokens: 16,
            ssd_tokens: 12,
            restore_duration: 5_000_000,
            prompt_eval_duration: 100_000_000,
            eval_count: 50,
            eval_duration: 1_000_000_000,
            ..Default::default()
        };
        let expected = "total duration:       1.5s\n\
                        prompt eval count:    26 token(s)\n\
                        of these cached:      16 token(s)\n\
                        of these restored:    12 from SSD of 26 prompt tokens, in 5ms\n\
                        prompt eval duration: 100ms\n\
                        prompt eval rate:     100.00 tokens/s\n\
                        eval count:           50 token(s)\n\
                        eval duration:        1s\n\
                        eval rate:            50.00 tokens/s\n";
        assert_eq!(text(&metrics), expected, "labels are padded to 22 columns");
    }
}

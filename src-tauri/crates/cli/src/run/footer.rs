//! Usage of an answer, as `--verbose` prints it.

use std::time::Duration;

use cairn_wire::ollama::Metrics;
use cairn_wire::{go_duration, thousands};

use crate::human;

/// One line per value that is not zero.
pub(super) fn text(metrics: &Metrics) -> String {
    let duration = |ns: u64| (ns > 0).then(|| go_duration::format(i64::try_from(ns).unwrap_or(i64::MAX)));
    let count = |tokens: u64| (tokens > 0).then(|| format!("{tokens} token(s)"));
    let rate = |tokens: u64, ns: u64| {
        (tokens > 0 && ns > 0).then(|| format!("{:.2} tokens/s", tokens as f64 / (ns as f64 / 1e9)))
    };
    let computed = metrics.prompt_eval_count.saturating_sub(metrics.cached_tokens);
    let lines = [
        ("total duration", duration(metrics.total_duration)),
        ("load duration", duration(metrics.load_duration)),
        ("prompt eval count", count(metrics.prompt_eval_count)),
        ("of these cached", count(metrics.cached_tokens)),
        ("of these restored", restored(metrics)),
        ("prompt eval duration", duration(metrics.prompt_eval_duration)),
        ("prompt eval rate", rate(computed, metrics.prompt_eval_duration)),
        ("eval count", count(metrics.eval_count)),
        ("eval duration", duration(metrics.eval_duration)),
        ("eval rate", rate(metrics.eval_count, metrics.eval_duration)),
    ];
    let written = lines.into_iter().filter_map(|(name, value)| Some(format!("{:<22}{}\n", format!("{name}:"), value?)));
    written.collect()
}

/// Formats the restored tokens: `12,304 of 12,380 prompt tokens from SSD in 180 ms instead of about 11 s`.
fn restored(metrics: &Metrics) -> Option<String> {
    let tiers = [("RAM", metrics.ram_tokens), ("SSD", metrics.ssd_tokens), ("the remote tier", metrics.remote_tokens)];
    let used = tiers.into_iter().filter(|(_, tokens)| *tokens > 0);
    let tokens: u64 = used.clone().map(|(_, tokens)| tokens).sum();
    let from = match used.clone().count() {
        0 => return None,
        1 => used.map(|(tier, _)| tier.to_owned()).collect::<String>(),
        _ => {
            let parts: Vec<String> = used.map(|(tier, tokens)| format!("{tier} ({})", thousands(tokens))).collect();
            parts.join(", ")
        }
    };
    let (tokens, all) = (thousands(tokens), thousands(metrics.prompt_eval_count));
    let took = human::short_duration(Duration::from_nanos(metrics.restore_duration));
    let instead = match metrics.recompute_duration {
        0 => String::new(),
        ns => format!(" instead of about {}", human::short_duration(Duration::from_nanos(ns))),
    };
    Some(format!("{tokens} of {all} prompt tokens from {from} in {took}{instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_text_omits_zeros_and_rates_exclude_cached_tokens() {
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
                        of these restored:    12 of 26 prompt tokens from SSD in 5.0 ms\n\
                        prompt eval duration: 100ms\n\
                        prompt eval rate:     100.00 tokens/s\n\
                        eval count:           50 token(s)\n\
                        eval duration:        1s\n\
                        eval rate:            50.00 tokens/s\n";
        assert_eq!(text(&metrics), expected, "labels are padded to 22 columns");
    }

    #[test]
    fn restored_line_shows_tiers_and_saved_time() {
        let check = |metrics: Metrics, expected: &str| {
            assert_eq!(restored(&metrics).as_deref(), Some(expected), "{metrics:?}");
        };
        let ssd = Metrics {
            prompt_eval_count: 12_380,
            ssd_tokens: 12_304,
            restore_duration: 180_400_000,
            recompute_duration: 11_200_000_000,
            ..Metrics::default()
        };
        check(ssd, "12,304 of 12,380 prompt tokens from SSD in 180 ms instead of about 11 s");
        let two = Metrics { ram_tokens: 76, recompute_duration: 0, ..ssd };
        check(two, "12,380 of 12,380 prompt tokens from RAM (76), SSD (12,304) in 180 ms");
        assert_eq!(restored(&Metrics::default()), None, "no restored tokens");
    }
}

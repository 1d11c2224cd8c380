//! `cairn bench`: the speed of a model on this machine, through the daemon.
//!
//! Each measurement has a prompt of its own that leaves nothing in the cache, so that every prompt is computed. The
//! first one loads the model and is not counted.

use anyhow::Context;
use cairn_wire::app::HardwareResponse;
use cairn_wire::ollama::{GenerateChunk, GenerateRequest};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::{CliContext, args, daemon, model, output};

/// Words of the prompts. Most tokenizers have a token for each.
const WORDS: [&str; 8] = [" the", " day", " was", " long", " and", " we", " went", " home"];

/// Room of the context for a tokenizer with more than one token for a word, as a multiple of the prompt.
const CONTEXT_PER_PROMPT: u32 = 2;

/// The result, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Report {
    model: String,
    /// The processor; absent if the server is not this user's daemon.
    #[serde(skip_serializing_if = "Option::is_none")]
    processor: Option<String>,
    /// The variant of the kernels.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<String>,
    /// Cores that compute.
    #[serde(skip_serializing_if = "Option::is_none")]
    cores: Option<u64>,
    prompt: Speed,
    answer: Speed,
    load_ms: u64,
}

/// The speed of a phase.
#[derive(Debug, PartialEq, Serialize)]
struct Speed {
    /// Tokens of one measurement.
    tokens: u64,
    /// The median.
    tokens_per_second: f64,
    /// All measurements, the slowest first.
    all: Vec<f64>,
}

pub(crate) async fn bench(cli: &CliContext, args: &args::Bench) -> anyhow::Result<()> {
    let client = daemon::connect_or_start(cli).await?;
    let name = model::resolve(&client, &args.model).await?;
    let measured = async {
        let first = measure(&client, &name, 0, args).await?;
        let mut chunks = Vec::new();
        for run in 1..=args.runs {
            chunks.push(measure(&client, &name, run, args).await?);
        }
        anyhow::Ok((first, chunks))
    };
    let (first, chunks) = tokio::select! {
        measured = measured => measured?,
        _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
    };
    let hardware: Option<HardwareResponse> = match client.is_own_daemon() {
        true => Some(client.get("/app/hardware").await?),
        false => None,
    };
    let prompt = |chunk: &GenerateChunk| {
        let metrics = &chunk.metrics;
        (metrics.prompt_eval_count.saturating_sub(metrics.cached_tokens), metrics.prompt_eval_duration)
    };
    // The first token is part of the prompt's computation.
    let answer = |chunk: &GenerateChunk| (chunk.metrics.eval_count.saturating_sub(1), chunk.metrics.eval_duration);
    let report = Report {
        model: name,
        processor: hardware.as_ref().map(|hardware| hardware.cpu.brand.clone()),
        kernel: hardware.as_ref().map(|hardware| hardware.kernels.in_use.clone()),
        cores: hardware.as_ref().map(|hardware| hardware.cpu.used_cores),
        prompt: Speed::of(chunks.iter().map(prompt))?,
        answer: Speed::of(chunks.iter().map(answer))?,
        load_ms: first.metrics.load_duration / 1_000_000,
    };
    if args.json { output::json(&report) } else { output::print(&report.text()) }
}

/// Computes one prompt and one answer. A prompt that does not fit is refused, because the speed of a part of it would
/// be taken for that of the whole.
async fn measure(client: &Client, model: &str, run: u32, args: &args::Bench) -> anyhow::Result<GenerateChunk> {
    let options = [
        ("num_predict", json!(args.tokens)),
        ("num_ctx", json!(CONTEXT_PER_PROMPT * args.prompt_tokens + args.tokens + 64)),
        ("temperature", json!(0)),
        ("seed", json!(run)),
    ];
    let options: Map<String, Value> = options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let request = GenerateRequest {
        model: model.to_owned(),
        prompt: prompt(run, args.prompt_tokens),
        raw: Some(true),
        truncate: Some(false),
        stream: Some(false),
        options: Some(options),
        ..GenerateRequest::default()
    };
    let measured = client.post_incognito("/api/generate", &request).await;
    measured.with_context(|| format!("cannot measure --prompt-tokens {}", args.prompt_tokens))
}

/// Returns a prompt that differs from those of other runs from its first words on.
fn prompt(run: u32, tokens: u32) -> String {
    let start = run.to_string() + " " + &WORDS.map(str::trim)[run as usize % WORDS.len()].repeat(2);
    let words = (0..tokens).map(|word| WORDS[(word.wrapping_mul(5).wrapping_add(run) % 8) as usize]);
    start + &words.collect::<String>()
}

impl Speed {
    /// The median of measurements: tokens and nanoseconds.
    ///
    /// # Errors
    /// A measurement has no tokens: the model ended its answer at once.
    fn of(measured: impl Iterator<Item = (u64, u64)>) -> anyhow::Result<Self> {
        let mut rates = Vec::new();
        let mut tokens = 0;
        for (count, ns) in measured {
            anyhow::ensure!(
                count > 0 && ns > 0,
                "the model ended its answer after one token, so its speed cannot be measured; try another model"
            );
            tokens = count;
            rates.push(count as f64 * 1e9 / ns as f64);
        }
        rates.sort_by(f64::total_cmp);
        let middle = rates.len() / 2;
        let median = match rates.len() % 2 {
            0 => f64::midpoint(rates[middle - 1], rates[middle]),
            _ => rates[middle],
        };
        Ok(Self { tokens, tokens_per_second: median, all: rates })
    }

    fn line(&self, name: &str) -> String {
        let (slowest, fastest) = (self.all[0], self.all[self.all.len() - 1]);
        format!(
            "{name:<8} {:>9.1} tokens/s   (median of {}, {slowest:.1} to {fastest:.1}; {} tokens)\n",
            self.tokens_per_second,
            self.all.len(),
            self.tokens
        )
    }
}

impl Report {
    fn text(&self) -> String {
        let processor = match (&self.processor, &self.kernel, self.cores) {
            (Some(processor), Some(kernel), Some(cores)) => {
                let processor = if processor.is_empty() { "processor" } else { processor };
                format!(" on {processor}, {cores} cores, kernels {kernel}")
            }
            _ => String::new(),
        };
        format!("{}{processor}\n{}{}", self.model, self.prompt.line("prompt"), self.answer.line("answer"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_the_median_of_all_measurements() {
        let second = 1_000_000_000;
        let check = |measured: &[(u64, u64)], median: f64| {
            let speed = Speed::of(measured.iter().copied()).unwrap();
            assert_eq!(speed.tokens_per_second, median, "{measured:?}");
            assert!(speed.all.is_sorted() && speed.all.len() == measured.len(), "{speed:?}");
        };
        check(&[(10, second)], 10.0);
        check(&[(30, second), (10, second), (20, second)], 20.0);
        check(&[(10, second), (20, second / 2)], 25.0);
        assert!(Speed::of([(0, second)].into_iter()).is_err(), "an answer of one token has no speed");
    }

    #[test]
    fn prompts_of_runs_share_no_beginning() {
        let prompts: Vec<String> = (0..20).map(|run| prompt(run, 40)).collect();
        for (at, prompt) in prompts.iter().enumerate() {
            let rest = &prompts[at + 1..];
            assert!(rest.iter().all(|other| other[..4] != prompt[..4]), "{prompt:.20}");
            assert!(prompt.split_whitespace().count() >= 40, "{prompt}");
        }
    }

    #[test]
    fn report_names_the_processor() {
        let speed = || Speed { tokens: 8, tokens_per_second: 12.34, all: vec![12.0, 12.34, 13.0] };
        let report = Report {
            model: "m".to_owned(),
            processor: Some("Chip 9".to_owned()),
            kernel: Some("avx2-fma-f16c".to_owned()),
            cores: Some(4),
            prompt: speed(),
            answer: speed(),
            load_ms: 3,
        };
        let text = report.text();
        assert!(text.starts_with("m on Chip 9, 4 cores, kernels avx2-fma-f16c\n"), "{text}");
        assert!(text.contains("answer        12.3 tokens/s   (median of 3, 12.0 to 13.0; 8 tokens)"), "{text}");
    }
}

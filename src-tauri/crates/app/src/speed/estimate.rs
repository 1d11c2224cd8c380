//! Estimates of a model's speed: pure functions of its work, the kernels' rates and what was measured with other models.

use super::rates::VariantRates;
use super::token_work::TokenWork;

/// Time of a token that is not spent on products, as a share of the products' time: attention, norms, waits.
const BESIDE_PRODUCTS: f64 = 0.08;
/// Bounds of a correction. Beyond them, something else is wrong.
const CORRECTION: [f64; 2] = [0.25, 4.0];

/// Speed of a model on this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// Tokens of an answer.
    pub answer: Figure,
    /// Tokens of a prompt.
    pub prompt: Figure,
}

/// A speed, measured or estimated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Tokens in a second.
    pub tokens_per_second: f64,
    /// Whether the model itself was measured here.
    pub is_measured: bool,
}

/// Measured speeds of a model, as far as it ran.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Measured {
    pub(super) answer: Option<f64>,
    pub(super) prompt: Option<f64>,
}

/// Tokens in a second by the rates alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) answer: f64,
    pub(super) prompt: f64,
}

/// Factors for all estimates on this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Correction {
    answer: f64,
    prompt: f64,
}

/// Estimates the speed of a model. `None` without rates.
pub(super) fn estimate(work: &TokenWork, rates: &VariantRates) -> Option<Estimate> {
    let (mut answer, mut prompt) = (0.0, 0.0);
    for part in &work.types {
        let rates = rates.of(part.dtype)?;
        answer += part.decode_bytes / rates.decode_bytes;
        prompt += part.prefill_operations / rates.prefill_operations;
    }
    let per_second = |seconds: f64| 1.0 / (seconds * (1.0 + BESIDE_PRODUCTS));
    (answer > 0.0 && prompt > 0.0).then(|| Estimate { answer: per_second(answer), prompt: per_second(prompt) })
}

impl Correction {
    /// The median of measured / estimated of the models that ran here.
    pub(super) fn of(models: &[(Measured, Estimate)]) -> Self {
        let median = |ratios: Vec<f64>| median(ratios).unwrap_or(1.0).clamp(CORRECTION[0], CORRECTION[1]);
        let answers = models.iter().filter_map(|(measured, estimate)| Some(measured.answer? / estimate.answer));
        let prompts = models.iter().filter_map(|(measured, estimate)| Some(measured.prompt? / estimate.prompt));
        Self { answer: median(answers.collect()), prompt: median(prompts.collect()) }
    }
}

/// The speed to show: measured where it was, else the corrected estimate. `None` if neither is available.
pub(super) fn speed(measured: Measured, estimate: Option<Estimate>, correction: Correction) -> Option<Speed> {
    let figure = |measured: Option<f64>, estimated: Option<f64>| match (measured, estimated) {
        (Some(tokens_per_second), _) => Some(Figure { tokens_per_second, is_measured: true }),
        (None, Some(tokens_per_second)) => Some(Figure { tokens_per_second, is_measured: false }),
        (None, None) => None,
    };
    Some(Speed {
        answer: figure(measured.answer, estimate.map(|estimate| estimate.answer * correction.answer))?,
        prompt: figure(measured.prompt, estimate.map(|estimate| estimate.prompt * correction.prompt))?,
    })
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.retain(|value| value.is_finite() && *value > 0.0);
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        len if len % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speed::rates::TypeRate;
    use crate::speed::token_work::TypeWork;
    use cairn_gguf::DType;

    fn rates() -> VariantRates {
        let rate = |dtype: &str, bytes: f64, operations: f64| TypeRate {
            dtype: dtype.to_owned(),
            decode_bytes_per_second: bytes,
            prefill_operations_per_second: operations,
        };
        VariantRates { name: "fast".to_owned(), types: vec![rate("Q4_K", 20e9, 500e9), rate("Q8_0", 40e9, 1000e9)] }
    }

    fn work() -> TokenWork {
        let part = |dtype, decode_bytes, prefill_operations| TypeWork { dtype, decode_bytes, prefill_operations };
        TokenWork { types: vec![part(DType::Q4_K, 1e9, 4e9), part(DType::Q8_0, 2e9, 2e9)] }
    }

    #[test]
    fn estimate_adds_the_times_of_all_types() {
        let found = estimate(&work(), &rates()).expect("rates were measured");
        // 50 ms and 50 ms; 8 ms and 2 ms.
        assert!((found.answer - 10.0 / 1.08).abs() < 1e-9, "100 ms of products: {found:?}");
        assert!((found.prompt - 100.0 / 1.08).abs() < 1e-9, "10 ms of products: {found:?}");
        let none = VariantRates { types: Vec::new(), ..rates() };
        assert_eq!(estimate(&work(), &none), None, "no rates");
        assert_eq!(estimate(&TokenWork { types: Vec::new() }, &rates()), None, "no work");
    }

    fn measured(answer: f64) -> Measured {
        Measured { answer: Some(answer), prompt: None }
    }

    #[test]
    fn correction_is_the_median_of_measured_models() {
        let estimate = Estimate { answer: 10.0, prompt: 100.0 };
        let check = |answers: &[f64], expected: f64| {
            let models: Vec<_> = answers.iter().map(|answer| (measured(*answer), estimate)).collect();
            let found = Correction::of(&models);
            assert_eq!((found.answer, found.prompt), (expected, 1.0), "{answers:?}");
        };
        check(&[], 1.0);
        check(&[8.0], 0.8);
        check(&[8.0, 12.0], 1.0);
        check(&[50.0, 8.0, 9.0], 0.9);
        check(&[1000.0], 4.0);
        check(&[0.1], 0.25);
        check(&[f64::NAN, 8.0], 0.8);
    }

    #[test]
    fn measured_speed_replaces_the_estimate() {
        let estimate = Some(Estimate { answer: 10.0, prompt: 100.0 });
        let correction = Correction { answer: 0.5, prompt: 2.0 };
        let figures = |measured: Measured, estimate: Option<Estimate>| {
            let Speed { answer, prompt } = speed(measured, estimate, correction)?;
            Some([answer, prompt].map(|figure| (figure.tokens_per_second, figure.is_measured)))
        };
        let guess = figures(Measured::default(), estimate);
        assert_eq!(guess, Some([(5.0, false), (200.0, false)]), "the corrected estimates");
        let half = figures(measured(7.0), estimate);
        assert_eq!(half, Some([(7.0, true), (200.0, false)]), "no prompt was measured");
        let both = Measured { answer: Some(7.0), prompt: Some(70.0) };
        assert_eq!(figures(both, None), Some([(7.0, true), (70.0, true)]), "no estimate is needed");
        assert_eq!(figures(measured(7.0), None), None, "neither for the prompt");
    }
}

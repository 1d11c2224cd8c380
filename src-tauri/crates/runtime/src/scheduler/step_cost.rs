//! Predicts the time of a step from recent steps, so that a step can be composed for a time budget.
//!
//! The time of a decode step with `n` rows is modelled as `base + n * row`: reading the weights once, and the work of each row. The
//! cost of a row is measured when two successive steps have different numbers of rows, so that slow changes, such as
//! longer contexts, do not count as cost of rows. Prompt rows have a cost of their own; rows that go through a part of the layers
//! count as that part of their number. All values are exponential moving averages.

use std::time::Duration;

use crate::metrics::ModelSpeed;

/// Time that the prompt rows of a step may add for running answers, as a part of the time of a decode step.
const PROMPT_SHARE: f64 = 0.75;
/// Time of a step with prompt rows only. New requests and cancellations wait for its end.
const PROMPT_STEP_TIME: Duration = Duration::from_millis(500);
/// Largest growth of the number of prompt rows of a step that also decodes. The measurement of few rows is inexact.
const MAX_GROWTH: f64 = 4.0;
/// Number of steps with prompt and decode rows after which a step without prompt rows measures the cost of the decode rows again.
const MAX_SHARED_STEPS: u32 = 16;
/// Least number of prompt rows of a step without decode rows. Fewer rows would read the weights too often.
const MIN_ROWS: usize = 64;
/// Weight of the newest decode step.
const NEWEST_DECODE: f64 = 0.1;
/// The same behind steps with prompt and decode rows, which tell nothing about a decode step.
const RARE_DECODE: f64 = 0.5;
/// Largest growth of the predicted time of a decode step, unless two successive measurements agree. A process that pauses once would
/// otherwise give prompts a multiple of their time in all steps until the next measurements.
const MAX_DECODE_GROWTH: f64 = 2.0;
/// Number of decode steps before a model's speed counts as measured. The first steps may read the weights from the disk.
const MIN_DECODE_STEPS: u32 = 32;
/// Number of steps with many prompt rows before a model's speed counts as measured.
const MIN_PROMPT_STEPS: u32 = 3;
/// Weight of the newest step with prompt rows. Their number changes more.
const NEWEST_PROMPT: f64 = 0.25;
const NANOS_PER_SECOND: f64 = 1e9;

/// Cost of recent steps of one model. Times are in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepCost {
    /// Time of a decode step without the cost of its rows, if one was measured.
    base: Option<f64>,
    /// The same, measured in the last decode step alone.
    last_base: f64,
    /// Cost of a decode row, if it was measured.
    row: Option<f64>,
    /// Rows and time of the previous step, if it was a decode step.
    previous: Option<(f64, f64)>,
    /// Cost of a prompt row beside decode rows.
    shared_prompt_row: Option<f64>,
    /// Largest number of prompt rows beside decode rows so far.
    most_shared_rows: f64,
    /// Number of steps with prompt and decode rows since the last decode step.
    shared_steps: u32,
    /// Cost of a prompt row in a step without decode rows.
    prompt_row: Option<f64>,
    /// The same in steps with at least [`MIN_ROWS`] rows, which use all of the arithmetic.
    many_prompt_row: Option<f64>,
    /// Number of steps with decode rows only.
    decode_steps: u32,
    /// Number of steps with at least [`MIN_ROWS`] prompt rows and no decode rows.
    prompt_steps: u32,
}

impl StepCost {
    /// Adds the time of a step with this many decode and prompt rows.
    pub(crate) fn add(&mut self, decode_rows: usize, prompt_rows: f64, took: Duration) {
        let took = took.as_nanos() as f64;
        let previous = self.previous.take();
        if prompt_rows == 0.0 {
            self.add_decode(decode_rows as f64, took, previous);
        } else if decode_rows == 0 {
            average(&mut self.prompt_row, NEWEST_PROMPT, took / prompt_rows);
            if prompt_rows >= MIN_ROWS as f64 {
                average(&mut self.many_prompt_row, NEWEST_PROMPT, took / prompt_rows);
                self.prompt_steps = self.prompt_steps.saturating_add(1);
            }
        } else {
            let decode = self.decode(decode_rows).unwrap_or_default();
            if took < decode {
                // The decode rows alone cannot take longer.
                self.base = Some(self.base_of(decode_rows as f64, took));
            }
            let added = (took - decode).max(took / 100.0) / prompt_rows;
            average(&mut self.shared_prompt_row, NEWEST_PROMPT, added);
            self.most_shared_rows = self.most_shared_rows.max(prompt_rows);
            self.shared_steps += 1;
        }
    }

    fn add_decode(&mut self, rows: f64, took: f64, previous: Option<(f64, f64)>) {
        if let Some((previous_rows, previous_time)) = previous
            && previous_rows != rows
        {
            let row = (took - previous_time) / (rows - previous_rows);
            average(&mut self.row, NEWEST_DECODE, row.clamp(0.0, took / rows));
        }
        let weight = if self.shared_steps > 0 { RARE_DECODE } else { NEWEST_DECODE };
        let base = self.base_of(rows, took);
        let limit = self.decode(rows as usize).map(|time| self.base_of(rows, MAX_DECODE_GROWTH * time));
        let limit = limit.map_or(f64::INFINITY, |limit| limit.max(self.last_base));
        average(&mut self.base, weight, base.min(limit));
        self.last_base = base;
        self.previous = Some((rows, took));
        self.shared_steps = 0;
        self.decode_steps = self.decode_steps.saturating_add(1);
    }

    /// The time of a decode step without the cost of its rows.
    fn base_of(&self, rows: f64, took: f64) -> f64 {
        took - self.row.unwrap_or_default() * rows
    }

    /// Predicted time of a step with this many decode rows, if one was measured.
    fn decode(&self, rows: usize) -> Option<f64> {
        self.base.map(|base| base + self.row.unwrap_or_default() * rows as f64)
    }

    /// Largest number of decode rows in a step of at most `stretch` times the time of a step with `rows` rows.
    pub(crate) fn rows_within(&self, stretch: f64, rows: usize) -> usize {
        match (self.decode(rows), self.row) {
            (Some(time), Some(row)) if row > 0.0 => rows + ((stretch - 1.0) * time / row).min(1e6) as usize,
            _ => usize::MAX,
        }
    }

    /// Number of prompt rows for a step of this duration without decode rows.
    pub(crate) fn prompt_rows_within(&self, budget: Duration) -> usize {
        let budget = budget.as_nanos() as f64;
        self.prompt_row.map_or(MIN_ROWS, |row| (budget / row) as usize).max(MIN_ROWS)
    }

    /// Whether a step with decode rows only must be measured before prompt rows can be added to one.
    pub(crate) fn needs_decode_step(&self) -> bool {
        self.base.is_none() || self.shared_steps >= MAX_SHARED_STEPS
    }

    /// Speed of one sequence, as far as enough steps were measured.
    pub(crate) fn speed(&self) -> ModelSpeed {
        let per_second = |time: Option<f64>, is_measured: bool| {
            time.filter(|time| is_measured && *time > 0.0).map(|time| NANOS_PER_SECOND / time)
        };
        ModelSpeed {
            answer_tokens_per_second: per_second(self.decode(1), self.decode_steps >= MIN_DECODE_STEPS),
            prompt_tokens_per_second: per_second(self.many_prompt_row, self.prompt_steps >= MIN_PROMPT_STEPS),
        }
    }

    /// Time that other work may add to a step with this many decode rows.
    pub(crate) fn prompt_time(&self, decode_rows: usize) -> Duration {
        self.decode(decode_rows).map_or(Duration::ZERO, |decode| Duration::from_nanos((PROMPT_SHARE * decode) as u64))
    }

    /// Number of prompt rows, in all layers, for a step with this many decode rows. At least one, so that prompts make progress if the
    /// measurements are wrong.
    pub(crate) fn prompt_rows(&self, decode_rows: usize) -> f64 {
        match (decode_rows, self.decode(decode_rows), self.shared_prompt_row.or(self.prompt_row)) {
            (0, ..) => self.prompt_rows_within(PROMPT_STEP_TIME) as f64,
            (_, Some(decode), Some(row)) => {
                (PROMPT_SHARE * decode / row).min(MAX_GROWTH * self.most_shared_rows).max(1.0)
            }
            _ => 1.0,
        }
    }
}

/// Adds a value with this weight to a moving average.
fn average(average: &mut Option<f64>, weight: f64, new: f64) {
    *average = Some(average.map_or(new, |old| old + weight * (new - old)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_time(rows: usize) -> Duration {
        Duration::from_micros(4000 + 990 * rows as u64)
    }

    /// The cost after steps with 1 to 4 decode rows of about 1 ms each, beside 4 ms for any step.
    fn measured() -> StepCost {
        let mut cost = StepCost::default();
        for step in 0..200 {
            let rows = 1 + step % 4;
            cost.add(rows, 0.0, decode_time(rows));
        }
        cost
    }

    #[test]
    fn speed_is_that_of_one_sequence_after_enough_steps() {
        let mut cost = StepCost::default();
        let mut answer = |rows: usize| {
            cost.add(rows, 0.0, decode_time(rows));
            cost.speed().answer_tokens_per_second
        };
        let early = (1..MIN_DECODE_STEPS).find_map(|step| answer(1 + step as usize % 2));
        assert_eq!(early, None, "too few steps");
        let speed = (0..200).map(|step| answer(1 + step % 2)).last().flatten().expect("enough steps");
        assert!((speed - 1e6 / 4990.0).abs() < 1.0, "4.99 ms for one row: {speed}");
        let mut prompt = |rows: f64| {
            cost.add(0, rows, Duration::from_millis(rows as u64));
            cost.speed().prompt_tokens_per_second
        };
        assert_eq!([prompt(64.0), prompt(64.0)], [None, None], "too few steps");
        assert_eq!(prompt(5.0), None, "too few rows");
        let speed = prompt(512.0).expect("enough steps");
        assert!((speed - 1000.0).abs() < 1e-6, "1 ms for a row: {speed}");
    }

    #[test]
    fn rows_fit_into_stretched_step() {
        assert_eq!(measured().rows_within(1.5, 1), 3, "5 ms for a row, 7 ms for three");
        assert_eq!(measured().rows_within(1.5, 4), 8, "8 ms for four rows, 12 ms for eight");
        assert_eq!(StepCost::default().rows_within(1.5, 1), usize::MAX, "no measurement, no limit");
    }

    #[test]
    fn cost_of_row_survives_steps_of_equal_size() {
        let mut cost = measured();
        for _ in 0..2000 {
            // Longer contexts make each step slower.
            cost.add(2, 0.0, decode_time(2) * 2);
        }
        assert_eq!(cost.rows_within(1.5, 2), 8, "12 ms for two rows, 18 ms for eight with the previous cost of a row");
    }

    /// Steps with a prompt beside 4 decode rows, which take this time; a prompt row takes `row`. Returns the prompt rows of each step.
    fn prompt_steps(cost: &mut StepCost, decode: Duration, row: Duration, steps: usize) -> Vec<f64> {
        let step = |_| {
            let rows = if cost.needs_decode_step() { 0.0 } else { cost.prompt_rows(4) };
            cost.add(4, rows, decode + row.mul_f64(rows));
            rows
        };
        (0..steps).map(step).collect()
    }

    #[test]
    fn prompt_takes_its_share_of_a_step() {
        for (row, expected) in [(60, 95.0..105.0), (500, 11.5..12.5), (9000, 1.0..1.01)] {
            let rows = prompt_steps(&mut measured(), decode_time(4), Duration::from_micros(row), 50);
            assert_eq!(rows[0], 1.0, "before the first measurement");
            assert!(expected.contains(&rows[49]), "6 ms at {row} us for a row: {rows:?}");
        }
    }

    #[test]
    fn prompt_recovers_from_wrong_measurements() {
        let row = Duration::from_millis(5);
        // The first answers begin together with the prompt.
        let early = prompt_steps(&mut StepCost::default(), Duration::from_millis(100), row, 64);
        assert!(early[48..].iter().any(|rows| *rows > 12.0), "75 ms at 5 ms for a row: {early:?}");
        // Another model begins to compute, and each step takes twice the time.
        let mut cost = measured();
        prompt_steps(&mut cost, decode_time(4), row / 20, 50);
        let slower = prompt_steps(&mut cost, 2 * decode_time(4), row / 10, 100);
        assert!(slower[80..].iter().any(|rows| *rows > 20.0), "12 ms at 0.5 ms for a row: {slower:?}");
    }

    /// The longest of 600 steps with a prompt, behind decode steps of these times, in multiples of the time `decode` of 4 decode rows.
    fn longest_step(cost: &mut StepCost, before: &[Duration], decode: Duration) -> f64 {
        before.iter().for_each(|took| cost.add(4, 0.0, *took));
        let row = Duration::from_micros(800);
        let rows = prompt_steps(cost, decode, row, 600);
        1.0 + rows.into_iter().fold(0.0, f64::max) * row.as_secs_f64() / decode.as_secs_f64()
    }

    #[test]
    fn slow_decode_step_does_not_lengthen_the_next_steps() {
        let decode = decode_time(4);
        for factor in [5, 20, 10_000] {
            let mut cost = measured();
            prompt_steps(&mut cost, decode, Duration::from_micros(800), 67);
            assert!(cost.shared_steps > 0, "the next decode step is a rare one");
            let longest = longest_step(&mut cost, &[decode * factor], decode);
            assert!(longest < 3.0, "a pause of the process, {factor} times a decode step: {longest} decode steps");
        }
        let first = longest_step(&mut StepCost::default(), &[decode * 200], decode);
        assert!(first < 3.0, "the first step read the weights from the disk: {first} decode steps");
        let mut cost = measured();
        prompt_steps(&mut cost, decode, Duration::from_micros(3200), 67);
        let faster = longest_step(&mut cost, &[], decode / 4);
        assert!(faster < 4.0, "another model does not compute any more: {faster} decode steps");
    }

    #[test]
    fn impossible_times_do_not_stop_prompts() {
        for took in [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(1 << 40)] {
            let mut cost = StepCost::default();
            for step in 0..100 {
                cost.add(step % 3, (step % 2 + usize::from(step % 3 == 0)) as f64, took);
                let (rows, alone) = (cost.prompt_rows(2), cost.prompt_rows(0));
                assert!(rows >= 1.0 && alone >= MIN_ROWS as f64, "{took:?}: {rows} rows, {alone} alone");
            }
            prompt_steps(&mut cost, decode_time(4), Duration::from_micros(500), 400);
            let rows = prompt_steps(&mut cost, decode_time(4), Duration::from_micros(500), 20);
            assert!(rows.iter().any(|rows| (9.0..15.0).contains(rows)), "after {took:?}: {rows:?}");
        }
    }

    #[test]
    fn first_inexact_measurement_does_not_fill_a_step() {
        let mut cost = measured();
        cost.add(4, 1.0, decode_time(4));
        assert_eq!(cost.prompt_rows(4), MAX_GROWTH, "four times as many");
    }

    #[test]
    fn prompt_step_without_decode_rows_is_bounded() {
        let mut cost = StepCost::default();
        assert_eq!(cost.prompt_rows(0), MIN_ROWS as f64, "before the first measurement");
        cost.add(0, 64.0, Duration::from_millis(64));
        assert_eq!(cost.prompt_rows(0), 500.0, "half a second at 1 ms for a row");
        assert_eq!(cost.prompt_rows_within(Duration::from_millis(100)), 100, "a tenth of a second");
        let mut slow = StepCost::default();
        slow.add(0, 64.0, Duration::from_secs(64));
        assert_eq!(slow.prompt_rows(0), MIN_ROWS as f64, "the least number");
    }
}

//! Predicts the time of a step from recent steps, so that a step can be composed for a time budget.
//!
//! The time of a decode step with `n` rows is modelled as `base + n * row`: reading the weights once, and the work of each row. The
//! cost of a row is measured when two successive steps have different numbers of rows, so that slow changes, such as
//! longer contexts, do not count as cost of rows. Prompt rows beside them have a cost of their own, measured at the current size
//! of the chunk. All values are exponential moving averages.

use std::time::Duration;

/// Longest time that the prompt rows of a step may add for running answers.
const MAX_PROMPT_TIME: Duration = Duration::from_millis(50);
/// The same as a multiple of the time of a decode step. Answers then have at most 2.5 times their usual time between tokens.
const MAX_PROMPT_STRETCH: f64 = 1.5;
/// Time of a step with prompt rows only. New requests and cancellations wait for its end.
const PROMPT_STEP_TIME: Duration = Duration::from_millis(500);
/// Least number of prompt rows of a step that also decodes.
const MIN_SHARED_ROWS: usize = 4;
/// Prompt rows of a step that also decodes, before the first measurement.
const FIRST_SHARED_ROWS: usize = 16;
/// Least number of prompt rows of a step without decode rows. Fewer rows would read the weights too often.
const MIN_ROWS: usize = 64;
/// Weight of the newest decode step.
const NEWEST_DECODE: f64 = 0.1;
/// Weight of the newest step with prompt rows. Their number changes more.
const NEWEST_PROMPT: f64 = 0.25;

/// Cost of recent steps of one model. Times are in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepCost {
    /// Time of a decode step without the cost of its rows, if one was measured.
    base: Option<f64>,
    /// Cost of a decode row, if it was measured.
    row: Option<f64>,
    /// Rows and time of the previous step, if it was a decode step.
    previous: Option<(f64, f64)>,
    /// Cost of a prompt row beside decode rows.
    shared_prompt_row: Option<f64>,
    /// Cost of a prompt row in a step without decode rows.
    prompt_row: Option<f64>,
}

impl StepCost {
    /// Adds the time of a step with this many decode and prompt rows.
    pub(crate) fn add(&mut self, decode_rows: usize, prompt_rows: usize, took: Duration) {
        let took = took.as_nanos() as f64;
        let previous = self.previous.take();
        match (decode_rows, prompt_rows) {
            (_, 0) => self.add_decode(decode_rows as f64, took, previous),
            (0, _) => average(&mut self.prompt_row, NEWEST_PROMPT, took / prompt_rows as f64),
            _ => {
                // Without a decode step so far, the whole step counts as the cost of its rows.
                let decode = self.decode(decode_rows).unwrap_or_default();
                let added = (took - decode).max(took / 100.0) / prompt_rows as f64;
                average(&mut self.shared_prompt_row, NEWEST_PROMPT, added);
            }
        }
    }

    fn add_decode(&mut self, rows: f64, took: f64, previous: Option<(f64, f64)>) {
        if let Some((previous_rows, previous_time)) = previous
            && previous_rows != rows
        {
            let row = (took - previous_time) / (rows - previous_rows);
            average(&mut self.row, NEWEST_DECODE, row.clamp(0.0, took / rows));
        }
        average(&mut self.base, NEWEST_DECODE, took - self.row.unwrap_or_default() * rows);
        self.previous = Some((rows, took));
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

    /// Number of prompt rows for a step with this many decode rows.
    pub(crate) fn prompt_rows(&self, decode_rows: usize) -> usize {
        if decode_rows == 0 {
            return self.prompt_rows_within(PROMPT_STEP_TIME);
        }
        let max = MAX_PROMPT_TIME.as_nanos() as f64;
        let budget = self.decode(decode_rows).map_or(max, |time| max.min(MAX_PROMPT_STRETCH * time));
        let rows = self.shared_prompt_row.or(self.prompt_row).map(|row| (budget / row) as usize);
        // The cost of a row differs between small and large chunks, so the size grows in steps.
        let limit = if self.shared_prompt_row.is_some() { usize::MAX } else { FIRST_SHARED_ROWS };
        rows.unwrap_or(FIRST_SHARED_ROWS).clamp(MIN_SHARED_ROWS, limit)
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
            cost.add(rows, 0, decode_time(rows));
        }
        cost
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
            cost.add(2, 0, decode_time(2) * 2);
        }
        assert_eq!(cost.rows_within(1.5, 2), 8, "12 ms for two rows, 18 ms for eight with the previous cost of a row");
    }

    #[test]
    fn prompt_rows_follow_their_measured_cost() {
        let mut cost = measured();
        assert_eq!(cost.prompt_rows(1), FIRST_SHARED_ROWS, "before the first measurement");
        for _ in 0..50 {
            let rows = cost.prompt_rows(4);
            cost.add(4, rows, decode_time(4) + Duration::from_micros(500) * rows as u32);
        }
        assert!((22..=24).contains(&cost.prompt_rows(4)), "12 ms at 0.5 ms for a row: {}", cost.prompt_rows(4));
        for _ in 0..200 {
            cost.add(1, 0, Duration::from_millis(100));
        }
        assert!((95..=100).contains(&cost.prompt_rows(1)), "at most 50 ms: {}", cost.prompt_rows(1));
    }

    #[test]
    fn prompt_step_without_decode_rows_is_bounded() {
        let mut cost = StepCost::default();
        assert_eq!(cost.prompt_rows(0), MIN_ROWS, "before the first measurement");
        cost.add(0, 64, Duration::from_millis(64));
        assert_eq!(cost.prompt_rows(0), 500, "half a second at 1 ms for a row");
        assert_eq!(cost.prompt_rows_within(Duration::from_millis(100)), 100, "a tenth of a second");
        let mut slow = StepCost::default();
        slow.add(0, 64, Duration::from_secs(64));
        assert_eq!((slow.prompt_rows(0), slow.prompt_rows(1)), (MIN_ROWS, MIN_SHARED_ROWS), "the least numbers");
    }
}

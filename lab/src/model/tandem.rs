//! Stages in a row, each with room for one unit between it and the next: how long until the last unit is through.

/// The moment, in seconds, when the last of `units` has left the last stage; `stages` are seconds per unit. A stage
/// begins a unit when it has finished the one before and the stage before has handed it over.
pub fn seconds(units: u64, stages: &[f64]) -> f64 {
    let mut free = vec![0.0f64; stages.len()];
    for _ in 0..units {
        let mut at = 0.0f64;
        for (stage, free) in stages.iter().zip(&mut free) {
            at = at.max(*free) + stage;
            *free = at;
        }
    }
    free.last().copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_stage_sets_the_rate_and_whole_units_add_up() {
        assert_eq!(seconds(1, &[1.0, 2.0, 3.0]), 6.0);
        assert_eq!(seconds(100, &[1.0, 2.0, 1.0]), 1.0 + 200.0 + 1.0);
    }
}

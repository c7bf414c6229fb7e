//! Divides the time of a search among campaigns, by their weights: they take turns, so that each has begun soon, and
//! what one finds does not wait for all that the others do.

use std::time::Duration;

/// How long a turn takes, times the weight of the campaign.
const SLICE: Duration = Duration::from_secs(1);

/// A campaign that goes on from turn to turn.
pub trait TimeSliced {
    /// Its part of the time, against those of the others.
    fn weight(&self) -> u32;

    /// Whether it has all of its time in one turn: it cannot go on where it was.
    fn runs_once(&self) -> bool {
        false
    }

    /// Goes on for about so long, or to its end where there is no limit; all campaigns together have searched `before`
    /// that. Answers how long it searched, and whether it is at its end.
    ///
    /// # Errors
    /// It could not begin.
    fn turn(
        &mut self,
        before: Duration,
        limit: Option<Duration>,
    ) -> Result<(Duration, bool), String>;
}

/// Runs all campaigns: each for its share of the whole time, by its weight, or one after another to their ends. Time
/// that one leaves goes to the others.
///
/// # Errors
/// The first that could not begin.
pub fn run_in_slices(
    campaigns: &mut [&mut dyn TimeSliced],
    whole: Option<Duration>,
) -> Result<(), String> {
    let Some(whole) = whole else {
        let mut before = Duration::ZERO;
        for campaign in campaigns {
            before += campaign.turn(before, None)?.0;
        }
        return Ok(());
    };
    let weights: u32 = campaigns.iter().map(|campaign| campaign.weight()).sum();
    let mut spent = vec![Some(Duration::ZERO); campaigns.len()];
    let mut before = Duration::ZERO;
    while before < whole
        && let Some(next) = next(campaigns, &spent)
    {
        let campaign = &mut campaigns[next];
        let limit = match campaign.runs_once() {
            true => whole / weights.max(1) * campaign.weight(),
            false => SLICE * campaign.weight(),
        };
        let (searched, is_over) = campaign.turn(before, Some(limit.min(whole - before)))?;
        before += searched;
        let is_over = is_over || campaign.runs_once();
        spent[next] = spent[next]
            .filter(|_| !is_over)
            .map(|spent| spent + searched);
    }
    Ok(())
}

/// The campaign that is furthest behind; of several, the one with the largest weight, and then the first.
fn next(campaigns: &[&mut dyn TimeSliced], spent: &[Option<Duration>]) -> Option<usize> {
    let with_parts = spent.iter().zip(campaigns).enumerate();
    let behind = with_parts.filter_map(|(at, (spent, campaign))| {
        let weight = campaign.weight().max(1);
        Some(((*spent)? / weight, std::cmp::Reverse(weight), at))
    });
    behind.min().map(|(_, _, at)| at)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// One that notes its turns, and ends after so many.
    struct Noting<'a> {
        weight: u32,
        runs_once: bool,
        turns: usize,
        name: char,
        notes: &'a RefCell<Vec<(char, Option<Duration>)>>,
    }

    impl TimeSliced for Noting<'_> {
        fn weight(&self) -> u32 {
            self.weight
        }

        fn runs_once(&self) -> bool {
            self.runs_once
        }

        fn turn(
            &mut self,
            _before: Duration,
            limit: Option<Duration>,
        ) -> Result<(Duration, bool), String> {
            self.notes.borrow_mut().push((self.name, limit));
            self.turns -= 1;
            Ok((limit.unwrap_or_default(), self.turns == 0))
        }
    }

    /// The turns of campaigns with these names, weights, whether they run once, and ends.
    fn turns(
        of: &[(char, u32, bool, usize)],
        whole: Option<Duration>,
    ) -> Vec<(char, Option<Duration>)> {
        let notes = RefCell::default();
        let of = of.iter().map(|&(name, weight, runs_once, turns)| Noting {
            weight,
            runs_once,
            turns,
            name,
            notes: &notes,
        });
        let mut of: Vec<Noting<'_>> = of.collect();
        let mut all: Vec<&mut dyn TimeSliced> = Vec::new();
        for one in &mut of {
            all.push(one);
        }
        run_in_slices(&mut all, whole).unwrap();
        notes.into_inner()
    }

    fn time_of(name: char, turns: &[(char, Option<Duration>)]) -> u64 {
        let own = turns.iter().filter(|(of, _)| *of == name);
        own.map(|(_, limit)| limit.unwrap_or_default().as_secs())
            .sum()
    }

    #[test]
    fn each_has_its_part_of_the_time_and_begins_in_the_first_round() {
        let of = [('a', 1, false, 99), ('b', 3, false, 99), ('e', 1, true, 99)];
        let turns = turns(&of, Some(Duration::from_secs(50)));
        let names: String = turns.iter().map(|(name, _)| *name).collect();
        assert!(names.starts_with("baeba"), "{names}");
        let times = ['a', 'b', 'e'].map(|name| time_of(name, &turns));
        assert_eq!(times, [10, 30, 10]);
    }

    #[test]
    fn the_time_that_one_leaves_goes_to_the_others() {
        let of = [('a', 1, false, 2), ('b', 1, false, 99)];
        let turns = turns(&of, Some(Duration::from_secs(20)));
        assert_eq!(['a', 'b'].map(|name| time_of(name, &turns)), [2, 18]);
    }

    #[test]
    fn without_a_limit_each_goes_to_its_end() {
        let of = [('a', 1, false, 1), ('b', 6, false, 1)];
        assert_eq!(turns(&of, None), [('a', None), ('b', None)]);
    }
}

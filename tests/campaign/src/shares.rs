//! Campaigns that share a time: they take turns, so that each has begun soon, and what one finds does not wait for
//! all that the others do.

use std::time::Duration;

/// How long a turn takes for each part of the time that a campaign has.
const TURN: Duration = Duration::from_secs(1);

/// A campaign that goes on from turn to turn.
pub trait Shared {
    /// How many parts of the time it has.
    fn parts(&self) -> u32;

    /// Whether it has all of its time in one turn: it cannot go on where it was.
    fn is_one_piece(&self) -> bool {
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

/// Runs all campaigns: each in the time that is its part of the whole, or one behind the other to their ends. What one
/// leaves goes to the others.
///
/// # Errors
/// The first that could not begin.
pub fn share(campaigns: &mut [&mut dyn Shared], whole: Option<Duration>) -> Result<(), String> {
    let Some(whole) = whole else {
        let mut before = Duration::ZERO;
        for campaign in campaigns {
            before += campaign.turn(before, None)?.0;
        }
        return Ok(());
    };
    let parts: u32 = campaigns.iter().map(|campaign| campaign.parts()).sum();
    let mut spent = vec![Some(Duration::ZERO); campaigns.len()];
    let mut before = Duration::ZERO;
    while before < whole
        && let Some(next) = next(campaigns, &spent)
    {
        let campaign = &mut campaigns[next];
        let limit = match campaign.is_one_piece() {
            true => whole / parts.max(1) * campaign.parts(),
            false => TURN * campaign.parts(),
        };
        let (searched, is_over) = campaign.turn(before, Some(limit.min(whole - before)))?;
        before += searched;
        let is_over = is_over || campaign.is_one_piece();
        spent[next] = spent[next]
            .filter(|_| !is_over)
            .map(|spent| spent + searched);
    }
    Ok(())
}

/// The campaign that is furthest behind; of several, the one with the largest part, and then the first.
fn next(campaigns: &[&mut dyn Shared], spent: &[Option<Duration>]) -> Option<usize> {
    let with_parts = spent.iter().zip(campaigns).enumerate();
    let behind = with_parts.filter_map(|(at, (spent, campaign))| {
        let parts = campaign.parts().max(1);
        Some(((*spent)? / parts, std::cmp::Reverse(parts), at))
    });
    behind.min().map(|(_, _, at)| at)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// One that notes its turns, and ends after so many.
    struct Noting<'a> {
        parts: u32,
        is_one_piece: bool,
        turns: usize,
        name: char,
        notes: &'a RefCell<Vec<(char, Option<Duration>)>>,
    }

    impl Shared for Noting<'_> {
        fn parts(&self) -> u32 {
            self.parts
        }

        fn is_one_piece(&self) -> bool {
            self.is_one_piece
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

    /// The turns of campaigns with these names, parts, pieces and ends.
    fn turns(
        of: &[(char, u32, bool, usize)],
        whole: Option<Duration>,
    ) -> Vec<(char, Option<Duration>)> {
        let notes = RefCell::default();
        let of = of.iter().map(|&(name, parts, is_one_piece, turns)| Noting {
            parts,
            is_one_piece,
            turns,
            name,
            notes: &notes,
        });
        let mut of: Vec<Noting<'_>> = of.collect();
        let mut all: Vec<&mut dyn Shared> = Vec::new();
        for one in &mut of {
            all.push(one);
        }
        share(&mut all, whole).unwrap();
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

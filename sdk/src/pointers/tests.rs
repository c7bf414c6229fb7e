//! The table against a slow model, and against the recorded history of its own writers.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "functions beside the tests are tests too"
)]

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use proptest::prelude::*;

use super::{PointerEntry, PointerError, PointerTable};

/// The table as a sorted map.
#[derive(Default)]
struct Model(BTreeMap<u64, PointerEntry>);

impl Model {
    fn lookup(&self, address: u64) -> Option<PointerEntry> {
        let (_, entry) = self.0.range(..=address).next_back()?;
        entry.contains(address).then_some(*entry)
    }

    fn insert(&mut self, entry: PointerEntry) -> bool {
        let Some(last) = entry
            .size
            .checked_sub(1)
            .and_then(|reach| entry.base.checked_add(reach))
        else {
            return false;
        };
        let taken = self
            .0
            .range(..=last)
            .next_back()
            .is_some_and(|(_, e)| e.last() >= entry.base);
        if !taken {
            self.0.insert(entry.base, entry);
        }
        !taken
    }
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u64, u64),
    Remove(usize),
    Lookup(u64),
}

/// Addresses that meet: a few pages, a region's edge, high halves, the last page of all.
fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0x1_0000_u64..0x4_0000,
        2 => 0x0fff_0000_u64..0x1001_0000,
        1 => 0xffff_8000_0000_0000_u64..0xffff_8000_0002_0000,
        2 => u64::MAX - 0x2_0000..=u64::MAX,
        1 => any::<u64>(),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![
        6 => 1_u64..300,
        3 => 300_u64..0x3_0000,
        1 => 0x3_0000_u64..0x6000_0000,
        1 => any::<u64>(),
    ];
    prop_oneof![
        5 => (address(), size).prop_map(|(base, size)| Step::Insert(base, size)),
        2 => any::<usize>().prop_map(Step::Remove),
        3 => address().prop_map(Step::Lookup),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]
    #[test]
    fn the_table_answers_as_a_sorted_map_does(steps in prop::collection::vec(step(), 1..400)) {
        let (table, mut model) = (PointerTable::new(), Model::default());
        for (id, step) in (0_u64..).zip(steps) {
            match step {
                Step::Insert(base, size) => {
                    let entry = PointerEntry::new(base, size, id, !id);
                    let result = table.insert(entry);
                    prop_assert_eq!(result.is_ok(), model.insert(entry), "{:?}", result);
                }
                Step::Remove(nth) if !model.0.is_empty() => {
                    let base = *model.0.keys().nth(nth % model.0.len()).unwrap();
                    prop_assert_eq!(table.take(base), model.0.remove(&base));
                    prop_assert_eq!(table.take(base), None);
                }
                Step::Remove(_) => {}
                Step::Lookup(at) => prop_assert_eq!(table.lookup(at), model.lookup(at)),
            }
            prop_assert_eq!(table.len(), model.0.len());
        }
        for entry in model.0.values() {
            for at in [entry.base, entry.base + entry.size / 2, entry.last()] {
                prop_assert_eq!(table.lookup(at), Some(*entry));
            }
            for at in [entry.base.wrapping_sub(1), entry.last().wrapping_add(1)] {
                prop_assert_eq!(table.lookup(at), model.lookup(at));
            }
        }
    }
}

#[test]
fn an_overlap_is_refused_and_names_both_ranges() {
    let table = PointerTable::new();
    let wide = PointerEntry::new(0x1000, 1 << 31, 5, 0);
    table.insert(wide).unwrap();
    for base in [1, 0x1000, 0x7fff_ffff, 0x1000 + (1 << 31) - 1] {
        let error = table
            .insert(PointerEntry::new(base, 0x1000, 6, 0))
            .unwrap_err();
        let expected = PointerError::Overlap {
            base,
            size: 0x1000,
            existing: wide,
        };
        assert_eq!(error, expected, "base {base:#x}");
        let text = error.to_string();
        assert!(
            text.contains(&format!("{base:#x}")) && text.contains("0x1000"),
            "{text}"
        );
    }
    table
        .insert(PointerEntry::new(0x1000 + (1 << 31), 0x1000, 6, 0))
        .unwrap();
}

#[test]
fn ranges_at_the_ends_of_the_address_space_are_ordinary() {
    let table = PointerTable::new();
    let top = PointerEntry::new(u64::MAX - 15, 16, u64::MAX, u64::MAX);
    let bottom = PointerEntry::new(0, 16, 1, 2);
    table.insert(top).unwrap();
    table.insert(bottom).unwrap();
    assert_eq!(table.lookup(u64::MAX), Some(top));
    assert_eq!(table.lookup(0), Some(bottom));
    assert_eq!(table.lookup(u64::MAX - 16), None);
    let past = table.insert(PointerEntry::new(u64::MAX, 2, 3, 0));
    assert_eq!(
        past,
        Err(PointerError::PastTheEnd {
            base: u64::MAX,
            size: 2
        })
    );
    let empty = table.insert(PointerEntry::new(64, 0, 3, 0));
    assert_eq!(empty, Err(PointerError::Empty { base: 64 }));
    assert!(table.remove(u64::MAX - 15) && table.remove(0) && table.is_empty());
}

#[test]
fn a_page_with_an_owner_for_each_byte_answers_for_each() {
    let table = PointerTable::new();
    let base = 0x7f12_3456_0000_u64;
    // An odd factor visits every byte of the page once, far from sorted.
    let order = || {
        (0..0x1_0000_u64)
            .step_by(16)
            .map(|i| base + ((i * 40_503) & 0xfff0))
    };
    for at in order() {
        table.insert(PointerEntry::new(at, 16, at, 0)).unwrap();
    }
    for at in order() {
        assert_eq!(
            table.lookup(at + 15).map(|entry| entry.allocation),
            Some(at)
        );
    }
    for at in order() {
        assert!(table.remove(at));
        assert_eq!(table.lookup(at), None);
    }
    assert!(table.is_empty());
}

/// What a writer did: the range, and the ticks around entering and removing it.
struct Lived {
    entry: PointerEntry,
    insert: (u64, u64),
    remove: (u64, u64),
}

/// What a reader was told, and the ticks around it.
struct Told {
    address: u64,
    answer: Option<PointerEntry>,
    asked: (u64, u64),
}

#[test]
fn every_answer_was_right_at_some_moment_between_call_and_return() {
    const WRITERS: u64 = 2;
    const READERS: u64 = 2;
    const ROUNDS: u64 = 30_000;
    let (table, clock) = (PointerTable::new(), AtomicU64::new(0));
    let writing = AtomicU64::new(WRITERS);
    let start = Barrier::new(4);
    let (lived, told) = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn({
                    let (table, clock, start, writing) = (&table, &clock, &start, &writing);
                    move || {
                        start.wait();
                        let lived = write(table, clock, writer, ROUNDS);
                        writing.fetch_sub(1, Ordering::SeqCst);
                        lived
                    }
                })
            })
            .collect();
        let readers: Vec<_> = (0..READERS)
            .map(|reader| {
                scope.spawn({
                    let (table, clock, start, writing) = (&table, &clock, &start, &writing);
                    move || {
                        start.wait();
                        read((table, clock, writing), reader, 10 * ROUNDS)
                    }
                })
            })
            .collect();
        let lived: Vec<_> = writers
            .into_iter()
            .flat_map(|w| w.join().unwrap())
            .collect();
        let told: Vec<_> = readers
            .into_iter()
            .flat_map(|r| r.join().unwrap())
            .collect();
        (lived, told)
    });
    check(&lived, &told);
    assert!(
        told.iter().any(|told| told.answer.is_some()),
        "the readers met no range"
    );
}

/// The writers' plots: small neighbours in one page, across pages, a region and more.
fn plots(writer: u64) -> Vec<(u64, u64)> {
    let small = (0..24).map(|i| (0x7000_0000_0000 + (i * 2 + writer) * 128, 100));
    let pages = (0..4).map(|i| (0x7000_1000_8000 + (i * 2 + writer) * 0x2_0000, 0x1_f000));
    let wide = [(
        0x7100_0000_0000 - 0x2_0000 + writer * (4 << 28),
        (2 << 28) + 0x4_0000,
    )];
    small.chain(pages).chain(wide).collect()
}

fn write(table: &PointerTable, clock: &AtomicU64, writer: u64, rounds: u64) -> Vec<Lived> {
    let tick = || clock.fetch_add(1, Ordering::SeqCst);
    let plots = plots(writer);
    let mut live: HashMap<usize, (PointerEntry, (u64, u64))> = HashMap::new();
    let mut lived = Vec::new();
    let mut random = writer + 1;
    for id in 0..rounds {
        let plot = next(&mut random, plots.len());
        let (base, size) = plots[plot];
        if let Some((entry, insert)) = live.remove(&plot) {
            let before = tick();
            assert_eq!(table.take(entry.base), Some(entry));
            lived.push(Lived {
                entry,
                insert,
                remove: (before, tick()),
            });
            continue;
        }
        // Sizes and starts move, so that an old answer differs from a new one.
        let shift = id % 7;
        let entry = PointerEntry::new(base + shift, size - 2 * shift, id * 2 + writer, id ^ base);
        let before = tick();
        table.insert(entry).unwrap();
        live.insert(plot, (entry, (before, tick())));
    }
    let forever = (u64::MAX, u64::MAX);
    lived.extend(live.into_values().map(|(entry, insert)| Lived {
        entry,
        insert,
        remove: forever,
    }));
    lived
}

/// Asks while the writers write, and a number of times at most. A thread that came too late for that asks
/// some times too: of what is there to stay.
fn read(
    (table, clock, writing): (&PointerTable, &AtomicU64, &AtomicU64),
    reader: u64,
    rounds: u64,
) -> Vec<Told> {
    let plots: Vec<_> = plots(0).into_iter().chain(plots(1)).collect();
    let mut random = reader + 77;
    (0..rounds)
        .take_while(|round| *round < 1000 || writing.load(Ordering::SeqCst) > 0)
        .map(|_| {
            let (base, size) = plots[next(&mut random, plots.len())];
            let address = base + u64::try_from(next(&mut random, 4096)).unwrap() % size;
            let before = clock.fetch_add(1, Ordering::SeqCst);
            let answer = table.lookup(address);
            Told {
                address,
                answer,
                asked: (before, clock.fetch_add(1, Ordering::SeqCst)),
            }
        })
        .collect()
}

fn check(lived: &[Lived], told: &[Told]) {
    let by_id: HashMap<u64, &Lived> = lived.iter().map(|l| (l.entry.allocation, l)).collect();
    assert_eq!(by_id.len(), lived.len());
    // By where they end to be certain, so that few candidates are looked at for each `None`.
    let mut by_page: HashMap<u64, Vec<&Lived>> = HashMap::new();
    for life in lived {
        let plot = plots(life.entry.allocation % 2)
            .into_iter()
            .find(|(base, size)| life.entry.base.wrapping_sub(*base) < *size)
            .unwrap();
        by_page.entry(plot.0).or_default().push(life);
    }
    let starts: BTreeMap<u64, ()> = by_page.keys().map(|base| (*base, ())).collect();
    for told in told {
        match told.answer {
            Some(answer) => {
                let life = by_id[&answer.allocation];
                assert_eq!(answer, life.entry);
                assert!(answer.contains(told.address));
                let could = life.insert.0 < told.asked.1 && life.remove.1 > told.asked.0;
                assert!(could, "a range that did not live was the answer");
            }
            None => {
                let Some((plot, ())) = starts.range(..=told.address).next_back() else {
                    continue;
                };
                let certain = by_page[plot].iter().any(|life| {
                    life.entry.contains(told.address)
                        && life.insert.1 < told.asked.0
                        && life.remove.0 > told.asked.1
                });
                assert!(!certain, "a range that lived throughout was missed");
            }
        }
    }
}

/// A small generator: the tests need spread, not quality.
fn next(state: &mut u64, below: usize) -> usize {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*state >> 33).unwrap() % below
}

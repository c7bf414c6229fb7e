//! Who waits for whom around a link that is being proved.

use super::*;

const SHORT: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_secs(20);
const ENABLED: Link = Link::Unknown { is_enabled: true };

fn pair() -> Pair {
    Pair::of(0, 1)
}

#[test]
fn a_pair_is_the_same_whichever_device_is_named_first() {
    assert_eq!(Pair::of(3, 1), Pair::of(1, 3));
    assert_eq!(Pair::of(3, 1).directions(), [(1, 3), (3, 1)]);
}

#[test]
fn a_link_is_not_proved_while_a_copy_is_on_its_way_and_copies_do_not_wait_for_that() {
    let links = PeerLinks::default();
    let (link, copy) = links.begin_copy(pair(), SHORT);
    assert!(link.allows_copies() && copy.is_some());
    assert!(links.begin_proof(pair(), SHORT, false).is_none());
    // Another link has nothing to do with it.
    assert!(links.begin_proof(Pair::of(0, 2), SHORT, false).is_some());
    thread::scope(|scope| {
        let prover = scope.spawn(|| links.begin_proof(pair(), LONG, false).is_some());
        let (link, second) = links.begin_copy(pair(), LONG);
        if second.is_some() {
            assert_eq!(link, Link::UNTRIED);
        }
        drop((copy, second));
        assert!(prover.join().unwrap());
    });
    assert_eq!(links.begin_copy(pair(), SHORT).0, Link::UNTRIED);
}

#[test]
fn no_copy_begins_while_a_link_is_proved_and_nobody_waits_for_ever() {
    let links = PeerLinks::default();
    let mut proof = links.begin_proof(pair(), SHORT, false).unwrap();
    thread::scope(|scope| {
        let other = scope.spawn(|| links.begin_copy(pair(), SHORT).0);
        assert_eq!(other.join().unwrap(), ENABLED);
    });
    assert!(!ENABLED.allows_copies());
    // Nor by what the prover itself calls, which waits for nothing.
    assert_eq!(links.begin_copy(pair(), LONG).0, ENABLED);
    assert!(links.begin_proof(pair(), LONG, true).is_none());
    thread::scope(|scope| {
        let other = scope.spawn(|| links.begin_copy(pair(), LONG));
        proof.link = Link::Proved;
        drop(proof);
        let (link, copy) = other.join().unwrap();
        assert!(link == Link::Proved && copy.is_none());
    });
    assert!(
        links.begin_proof(pair(), LONG, true).is_none(),
        "it is known"
    );
}

#[test]
fn after_a_proof_that_was_held_up_only_who_ignores_the_pause_tries_again() {
    let links = PeerLinks::default();
    let mut proof = links.begin_proof(pair(), SHORT, false).unwrap();
    proof.pause(LONG);
    drop(proof);
    assert!(links.begin_proof(pair(), SHORT, false).is_none());
    let explained = links.begin_proof(pair(), SHORT, true);
    assert!(explained.is_some());
    drop(explained);
    assert!(links.begin_proof(pair(), SHORT, false).is_some());
}

#[test]
fn an_untrusted_link_is_asked_about_until_the_way_around_it_is_known() {
    let links = PeerLinks::default();
    for (without, allows_copies) in [(WithoutLink::Unknown, false), (WithoutLink::Proved, true)] {
        let mut proof = links.begin_proof(pair(), SHORT, false).unwrap();
        proof.link = Link::Untrusted("nothing arrived".into(), without);
        drop(proof);
        let (link, copy) = links.begin_copy(pair(), SHORT);
        assert_eq!(link.allows_copies(), allows_copies, "{link:?}");
        assert!(copy.is_none());
    }
    assert!(links.begin_proof(pair(), SHORT, true).is_none());
    assert!(!Link::Untrusted("".into(), WithoutLink::Untrusted).allows_copies());
}

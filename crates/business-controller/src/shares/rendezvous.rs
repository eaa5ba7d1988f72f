//! Rendezvous hashing: each share ranks the replicas by a hash of both names. A new replica takes shares from all
//! others, and the shares of one that goes are spread over all others; nothing else moves.

use super::{Share, hash};

/// The score of a replica for a share.
fn score(share: Share, replica: &str) -> (u64, &str) {
    (hash(&[&share.to_string(), replica]), replica)
}

/// How many of the others rank before this replica for a share.
pub fn rank<'a>(share: Share, replica: &str, others: impl IntoIterator<Item = &'a str>) -> u32 {
    let own = score(share, replica);
    let better = others.into_iter().filter(|other| *other != replica && score(share, other) > own).count();
    u32::try_from(better).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn owner(share: Share, replicas: &[String]) -> &str {
        let all = || replicas.iter().map(String::as_str);
        all().find(|replica| rank(share, replica, all()) == 0).unwrap()
    }

    fn shares() -> impl Iterator<Item = Share> {
        std::iter::once(Share::Fleet).chain((0..16).map(Share::Clusters))
    }

    proptest! {
        #[test]
        fn only_what_a_replica_had_moves_when_it_goes(
            names in proptest::collection::hash_set("[a-z]{1,8}", 2..7),
            gone in any::<proptest::sample::Index>(),
        ) {
            let before: Vec<String> = names.into_iter().collect();
            let gone = gone.get(&before).clone();
            let after: Vec<String> = before.iter().filter(|name| **name != gone).cloned().collect();
            for share in shares() {
                let had = owner(share, &before);
                prop_assert!(had == gone || owner(share, &after) == had);
            }
        }
    }

    #[test]
    fn every_replica_has_something_and_each_release_says_the_same() {
        let replicas: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
        let held = |replica: &str| shares().filter(|share| owner(*share, &replicas) == replica).count();
        assert_eq!([held("a"), held("b"), held("c")].iter().sum::<usize>(), 17);
        assert!(["a", "b", "c"].iter().all(|replica| held(replica) > 1));
        assert_eq!(hash(&["fleet", "a"]), 6_769_991_922_010_418_208, "recorded");
    }
}

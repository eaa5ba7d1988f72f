//! The kept inputs, and a few new ones, through every parser.

use fuzz::run::{Pool, feed};
use fuzz::targets::TARGETS;
use fuzz::{corpus, mutate};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// New inputs a target.
const INPUTS: usize = 1_500;

#[test]
fn no_parser_breaks_a_promise() {
    let mut broken = Vec::new();
    for target in TARGETS {
        let mut random = StdRng::seed_from_u64(1);
        let mut pool = Pool::default();
        let kept = corpus::load(target).unwrap();
        let words = target.words.iter().map(|word| word.as_bytes().to_vec());
        let mut inputs: Vec<Vec<u8>> = kept.into_iter().chain(words).collect();
        for number in 0.. {
            let input = match inputs.pop() {
                Some(input) => input,
                None if number > INPUTS => break,
                None => {
                    let base = pool.get(random.random_range(0..65_536));
                    let other = pool.get(random.random_range(0..65_536));
                    mutate::mutated(base, other, target.words, &mut random)
                }
            };
            match feed(target, &input) {
                Ok(outcome) => drop(pool.offer(&input, outcome)),
                Err(why) => {
                    broken.push(format!("{}: {why}: {:?}", target.name, String::from_utf8_lossy(&input)));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_corpus_is_small() {
    let mut bytes = 0;
    for target in TARGETS {
        bytes += corpus::load(target).unwrap().iter().map(Vec::len).sum::<usize>();
    }
    assert!(bytes < 1_000_000, "{bytes} bytes");
}

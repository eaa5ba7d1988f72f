//! Random schemas: every list type and map type, nested.

use meta::schema::{ListType, Schema};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// How deep they nest.
const DEPTH_MAX: usize = 3;
const FIELDS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// The schema of a number: always the same for a seed. `spec` is what varies; a status stands beside it.
pub(crate) fn schema(seed: u64, number: u64) -> Schema {
    let mut random = StdRng::seed_from_u64(seed.wrapping_mul(7919).wrapping_add(number));
    let mut fields = Vec::new();
    for (index, name) in FIELDS.into_iter().enumerate() {
        // Every schema has each sort at the top, so that none is left out by chance.
        let sort = u32::try_from(index).unwrap_or_default() + 2;
        fields.push((name, of_sort(sort, &mut random, DEPTH_MAX).optional()));
    }
    let spec = Schema::object("The spec.", None, fields);
    let status = Schema::object("The status.", None, [("phase", Schema::string("The phase.").optional())]);
    Schema::kind("An object.", "test.Rival", [("spec", spec.optional()), ("status", status.optional())])
}

fn any(random: &mut StdRng, depth: usize) -> Schema {
    let sorts = if depth == 0 { 2 } else { 9 };
    let sort = random.random_range(0..sorts);
    of_sort(sort, random, depth)
}

fn of_sort(sort: u32, random: &mut StdRng, depth: usize) -> Schema {
    let below = depth.saturating_sub(1);
    match sort {
        0 => Schema::string("Text."),
        1 => Schema::integer("A number."),
        2 => {
            let item = keyed(random, &["name"], below);
            Schema::list("By name.", ListType::Map(&["name"]), item)
        }
        3 => Schema::list("A set.", ListType::Set, Schema::string("A member.")),
        4 => Schema::list("One value.", ListType::Atomic, any(random, below)),
        5 => Schema::map("Free keys.", any(random, below)),
        6 => {
            let fields: Vec<_> = FIELDS
                .into_iter()
                .take(random.random_range(1..4))
                .map(|n| (n, any(random, below).optional()))
                .collect();
            Schema::object("A struct.", None, fields)
        }
        7 => {
            let item = keyed(random, &["name", "port"], below);
            Schema::list("By name and port.", ListType::Map(&["name", "port"]), item)
        }
        _ => Schema::list("Numbers.", ListType::Set, Schema::integer("A member.")),
    }
}

fn keyed(random: &mut StdRng, keys: &'static [&'static str], depth: usize) -> Schema {
    let mut fields: Vec<_> = keys
        .iter()
        .map(|key| {
            (
                *key,
                if *key == "port" { Schema::integer("A key.") } else { Schema::string("A key.") }.required(),
            )
        })
        .collect();
    for name in FIELDS.into_iter().take(random.random_range(1..3)) {
        fields.push((name, any(random, depth).optional()));
    }
    Schema::object("An item.", None, fields)
}

use crate::{Outcome, ensure, outcome, shape};
use business_controller::adoption::mapping::{ENTRIES_MAX, MappingEntry, parse};
use std::collections::BTreeSet;

/// Whatever a mapping file holds: what is taken is written again and comes back the same, each place and each name once, and
/// what is wrong is told at a line that is there.
pub(super) fn mapping(input: &[u8]) -> Result<Outcome, String> {
    let text = String::from_utf8_lossy(input);
    let forbidden = ["kube-*".to_owned()];
    match parse(&text, &forbidden) {
        Ok(entries) => {
            ensure(entries.len() <= ENTRIES_MAX, || format!("{} entries", entries.len()))?;
            let places: BTreeSet<_> = entries.iter().map(|e| (&e.cluster, &e.namespace)).collect();
            let names: BTreeSet<_> = entries.iter().map(|e| (&e.project, &e.name)).collect();
            ensure(places.len() == entries.len() && names.len() == entries.len(), || "one twice".to_owned())?;
            let written: Vec<String> = entries.iter().map(MappingEntry::to_line).collect();
            let read =
                parse(&written.join("\n"), &forbidden).map_err(|wrong| format!("{written:?}: {wrong:?}"))?;
            let renumbered =
                entries.iter().zip(1..).map(|(entry, line)| MappingEntry { line, ..entry.clone() });
            ensure(renumbered.eq(read), || format!("{written:?} comes back as something else"))?;
            Ok(outcome((entries.len().min(8), entries.iter().map(|entry| entry.hard.len().min(4)).max())))
        }
        Err(wrong) => {
            let lines = text.lines().count().max(1);
            let is_there = |line: usize| (1..=lines).contains(&line);
            ensure(!wrong.is_empty() && wrong.iter().all(|wrong| is_there(wrong.line)), || {
                format!("{wrong:?}")
            })?;
            Ok(outcome(wrong.iter().map(|wrong| shape(&wrong.why)).collect::<BTreeSet<_>>()))
        }
    }
}

//! One row for each fault.

use super::calls::{Call, CallResult};
use super::fault::Fault;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What a fault did to callers.
#[derive(Debug)]
pub(crate) struct Row {
    fault: &'static str,
    /// From the fault until writes went on for good.
    back: Duration,
    /// The longest time without an acknowledgement.
    silence: Duration,
    /// When it was mended.
    mended: Duration,
    /// Answers by code while it lasted; 0 is none.
    codes: BTreeMap<u16, usize>,
    /// What the primary that was cut off acknowledged.
    accepted: Option<u64>,
}

/// Shorter pauses are normal.
const PAUSE: Duration = Duration::from_millis(1500);

impl Row {
    /// `calls` are all calls, by their end.
    pub(crate) fn of(
        fault: Fault,
        begin: Instant,
        mended: Duration,
        calls: &[Call],
        accepted: Option<u64>,
    ) -> Self {
        let since: Vec<&Call> = calls.iter().filter(|call| call.ended >= begin).collect();
        let mut codes = BTreeMap::new();
        for call in &since {
            *codes.entry(call.code).or_default() += 1;
        }
        let (mut last, mut silence, mut back) = (begin, Duration::ZERO, Duration::ZERO);
        for call in since.iter().filter(|call| matches!(call.result, CallResult::Done(_))) {
            let pause = call.ended.duration_since(last);
            silence = silence.max(pause);
            if pause > PAUSE {
                back = call.ended.duration_since(begin);
            }
            last = call.ended;
        }
        Self { fault: fault.words(), back, silence, mended, codes, accepted }
    }
}

/// All rows, as Markdown.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut lines = vec![
        "| fault | writes go on after | longest pause | mended after | answers meanwhile |".to_owned(),
        "|---|---|---|---|---|".to_owned(),
    ];
    for row in rows {
        let Row { fault, back, silence, mended, codes, accepted } = row;
        let code = |(code, count): (&u16, &usize)| match code {
            0 => format!("no answer: {count}"),
            _ => format!("{code}: {count}"),
        };
        let mut codes = codes.iter().map(code).collect::<Vec<_>>().join(", ");
        if let Some(accepted) = accepted {
            codes = format!("{codes}; the old primary acknowledged {accepted}");
        }
        let seconds = |time: &Duration| format!("{:.1} s", time.as_secs_f64());
        let (back, silence, mended) = (seconds(back), seconds(silence), seconds(mended));
        lines.push(format!("| {fault} | {back} | {silence} | {mended} | {codes} |"));
    }
    lines.join("\n")
}

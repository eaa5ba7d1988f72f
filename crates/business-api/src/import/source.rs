//! The sources of records: a dump or TKE's etcd.

/// The etcd of TKE.
pub mod etcd;

use super::record::{LINE_BYTES_MAX, SourceRecord, UnreadableRecord};
use crate::config::ImportSource;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

/// The most records of an import; TKE's etcd holds far fewer.
const RECORDS_MAX: usize = 1_000_000;

const STANDARD_INPUT: &str = "/dev/stdin";

/// A record, or why it cannot be read.
pub type RecordResult = Result<SourceRecord, UnreadableRecord>;

/// Reads all records. Finding none is an error, so that a wrong prefix is noticed.
pub async fn read(source: &ImportSource) -> Result<Vec<RecordResult>> {
    let prefix = source.prefix.trim_end_matches('/');
    let records = match &source.dump {
        Some(path) => {
            let path = if path == Path::new("-") { Path::new(STANDARD_INPUT) } else { path };
            let file =
                tokio::fs::File::open(path).await.with_context(|| format!("open {}", path.display()))?;
            lines(file, prefix).await.with_context(|| format!("read {}", path.display()))
        }
        None => etcd::read(source, prefix).await.context("read etcd"),
    }?;
    ensure!(!records.is_empty(), "nothing lies below {prefix}/");
    Ok(records)
}

async fn lines(file: impl AsyncRead + Unpin, prefix: &str) -> Result<Vec<RecordResult>> {
    let (mut reader, mut records, mut line) = (BufReader::new(file), Vec::new(), Vec::new());
    let most = u64::try_from(LINE_BYTES_MAX)?.saturating_add(1);
    for number in 1.. {
        line.clear();
        if (&mut reader).take(most).read_until(b'\n', &mut line).await? == 0 {
            break;
        }
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        ensure!(line.len() <= LINE_BYTES_MAX, "line {number} is longer than {LINE_BYTES_MAX} bytes");
        if line.trim_ascii().is_empty() {
            continue;
        }
        ensure!(records.len() < RECORDS_MAX, "it has more than {RECORDS_MAX} records");
        records.push(SourceRecord::of_line(line, number, prefix));
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_of_the_greatest_length_is_read_with_its_end() {
        let dump = |bytes: usize, end: &str| {
            let line = r#"{"key": "/b/projects/p", "value": {}}"#;
            let padding = " ".repeat(bytes - line.len());
            format!("{line}{padding}{end}{line}\n")
        };
        let records = lines(dump(LINE_BYTES_MAX, "\n").as_bytes(), "/b").await.unwrap();
        assert_eq!(records.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true]);
        let refused = lines(dump(LINE_BYTES_MAX + 1, "\n").as_bytes(), "/b").await.unwrap_err();
        assert!(refused.to_string().starts_with("line 1 is longer"), "{refused}");
        assert!(lines(dump(LINE_BYTES_MAX, "").as_bytes(), "/b").await.is_err(), "two in one line");
    }
}

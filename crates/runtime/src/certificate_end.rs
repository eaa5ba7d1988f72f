use crate::Metrics;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Between two looks at a file.
const PERIOD: Duration = Duration::from_mins(1);

/// When a certificate ends, in seconds since 1970, for whoever has to see to it in time. Nothing is told until it is known.
#[derive(Clone, Debug, Default)]
pub struct CertificateEnd(Family<[(&'static str, &'static str); 0], Gauge>);

impl CertificateEnd {
    /// Under a name of its own.
    pub fn register(metrics: &Metrics, name: &str, help: &str) -> Self {
        Self(metrics.register(name, help, Family::default()))
    }

    /// It is known.
    pub fn set(&self, seconds: i64) {
        self.0.get_or_create(&[]).set(seconds);
    }

    /// Looks for ever at a file that somebody else renews, whose end `end_of` reads from its bytes.
    #[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
    pub async fn follow(self, file: PathBuf, end_of: fn(&[u8]) -> Option<i64>) {
        loop {
            self.look(&file, end_of).await;
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// Of a file that cannot be read the last end stays, which is the one of what may be in use.
    async fn look(&self, file: &Path, end_of: fn(&[u8]) -> Option<i64>) {
        match tokio::fs::read(file).await.map(|bytes| end_of(&bytes)) {
            Ok(Some(end)) => self.set(end),
            Ok(None) => tracing::warn!(file = %file.display(), "no certificate is in the file"),
            Err(error) => tracing::warn!(%error, file = %file.display(), "a certificate cannot be read"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(bytes: &[u8]) -> Option<i64> {
        std::str::from_utf8(bytes).ok()?.parse().ok()
    }

    #[tokio::test]
    async fn the_end_is_told_once_it_is_known_and_stays_while_the_file_is_away() {
        let metrics = Metrics::new();
        let end = CertificateEnd::register(&metrics, "certificate_end", "When it ends");
        let file = std::env::temp_dir().join(format!("certificate-end-{}", std::process::id()));
        end.look(&file, number).await;
        assert!(!metrics.encode().contains("certificate_end"), "nothing is known yet");
        for (content, told) in [("12", "12"), ("nothing", "12"), ("34", "34")] {
            std::fs::write(&file, content).unwrap();
            end.look(&file, number).await;
            let text = metrics.encode();
            assert!(text.contains(&format!("\ncertificate_end{{}} {told}\n")), "{text}");
        }
        std::fs::remove_file(&file).unwrap();
        end.look(&file, number).await;
        assert!(metrics.encode().contains("\ncertificate_end{} 34\n"));
    }
}

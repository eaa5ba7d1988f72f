use crate::Metrics;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time between two looks at a file.
const PERIOD: Duration = Duration::from_mins(1);

/// When a certificate ends, in seconds since 1970, for whoever has to renew it in time. The metric has no value until
/// the end is known.
#[derive(Clone, Debug, Default)]
pub struct CertificateEnd(Family<[(&'static str, &'static str); 0], Gauge>);

impl CertificateEnd {
    /// Registers the metric under this name.
    pub fn register(metrics: &Metrics, name: &str, help: &str) -> Self {
        Self(metrics.register(name, help, Family::default()))
    }

    /// Sets the end.
    pub fn set(&self, seconds: i64) {
        self.0.get_or_create(&[]).set(seconds);
    }

    /// Follows a file that somebody else renews, for ever; `end_of` reads the end from its bytes.
    #[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
    pub async fn follow(self, file: PathBuf, end_of: fn(&[u8]) -> Option<i64>) {
        loop {
            self.look(&file, end_of).await;
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// If the file cannot be read, the last end stays: that certificate may be in use.
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

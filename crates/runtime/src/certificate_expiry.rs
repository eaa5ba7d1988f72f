use crate::Metrics;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time between two reads of a file.
const READ_INTERVAL: Duration = Duration::from_mins(1);

/// A metric with the expiry of a certificate in Unix seconds, so that an alert can ask for its renewal in time. The
/// metric has no value until the expiry is known.
#[derive(Clone, Debug, Default)]
pub struct CertificateExpiry(Family<[(&'static str, &'static str); 0], Gauge>);

impl CertificateExpiry {
    /// Registers the metric under this name.
    pub fn register(metrics: &Metrics, name: &str, help: &str) -> Self {
        Self(metrics.register(name, help, Family::default()))
    }

    /// Sets the expiry.
    pub fn set(&self, seconds: i64) {
        self.0.get_or_create(&[]).set(seconds);
    }

    /// Reads the expiry from a file again and again. Others renew the file; `expiry_of` reads the expiry from its
    /// bytes.
    #[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
    pub async fn follow(self, file: PathBuf, expiry_of: fn(&[u8]) -> Option<i64>) {
        loop {
            self.update_from(&file, expiry_of).await;
            tokio::time::sleep(READ_INTERVAL).await;
        }
    }

    /// Reads the expiry once. If the file cannot be read, the last expiry stays: that certificate may still be in use.
    async fn update_from(&self, file: &Path, expiry_of: fn(&[u8]) -> Option<i64>) {
        match tokio::fs::read(file).await.map(|bytes| expiry_of(&bytes)) {
            Ok(Some(expiry)) => self.set(expiry),
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
        let expiry = CertificateExpiry::register(&metrics, "certificate_end", "When it ends");
        let file = std::env::temp_dir().join(format!("certificate-end-{}", std::process::id()));
        expiry.update_from(&file, number).await;
        assert!(!metrics.encode().contains("certificate_end"), "nothing is known yet");
        for (content, told) in [("12", "12"), ("nothing", "12"), ("34", "34")] {
            std::fs::write(&file, content).unwrap();
            expiry.update_from(&file, number).await;
            let text = metrics.encode();
            assert!(text.contains(&format!("\ncertificate_end{{}} {told}\n")), "{text}");
        }
        std::fs::remove_file(&file).unwrap();
        expiry.update_from(&file, number).await;
        assert!(metrics.encode().contains("\ncertificate_end{} 34\n"));
    }
}

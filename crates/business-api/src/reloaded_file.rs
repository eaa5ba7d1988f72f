use anyhow::{Context, Result};
use arc_swap::{ArcSwap, Guard};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const RELOAD: Duration = Duration::from_secs(5);

/// The parsed content of a small file of secrets, read again when the file changes. Clones share it.
pub(crate) struct ReloadedFile<T> {
    file: Arc<Path>,
    parse: fn(&str) -> Result<T>,
    current: Arc<ArcSwap<FileContent<T>>>,
}

/// A file's text, and the value that was parsed from it.
pub(crate) struct FileContent<T> {
    text: String,
    /// The parsed value.
    pub(crate) value: T,
}

impl<T> std::fmt::Debug for ReloadedFile<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReloadedFile").field("file", &self.file).finish_non_exhaustive()
    }
}

impl<T> Clone for ReloadedFile<T> {
    fn clone(&self) -> Self {
        Self { file: Arc::clone(&self.file), parse: self.parse, current: Arc::clone(&self.current) }
    }
}

impl<T: Send + Sync + 'static> ReloadedFile<T> {
    /// Reads the file.
    pub(crate) fn load(file: &Path, parse: fn(&str) -> Result<T>) -> Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        Self::new(file.to_owned(), text, parse).with_context(|| format!("read {}", file.display()))
    }

    fn new(file: PathBuf, text: String, parse: fn(&str) -> Result<T>) -> Result<Self> {
        let value = parse(&text)?;
        let current = Arc::new(ArcSwap::from_pointee(FileContent { text, value }));
        Ok(Self { file: file.into(), parse, current })
    }

    /// The content as it was last read.
    pub(crate) fn current(&self) -> Guard<Arc<FileContent<T>>> {
        self.current.load()
    }

    /// Reads the file again whenever it has changed, for ever.
    #[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
    pub(crate) async fn follow(self) {
        loop {
            tokio::time::sleep(RELOAD).await;
            match tokio::fs::read_to_string(&self.file).await {
                Ok(text) => self.update(text),
                Err(error) => {
                    tracing::warn!(file = %self.file.display(), %error, "it stays as it was");
                }
            }
        }
    }

    /// Replaces the content by the one of a new text. If that cannot be parsed, the content stays.
    pub(crate) fn update(&self, text: String) {
        if self.current.load().text == text {
            return;
        }
        let file = self.file.display();
        match (self.parse)(&text) {
            Ok(value) => {
                tracing::info!(%file, "read again");
                self.current.store(Arc::new(FileContent { text, value }));
            }
            Err(error) => tracing::warn!(%file, "it stays as it was: {error:#}"),
        }
    }

    #[cfg(test)]
    pub(crate) fn of_text(text: &str, parse: fn(&str) -> Result<T>) -> Self {
        Self::new(PathBuf::new(), text.to_owned(), parse).unwrap()
    }
}

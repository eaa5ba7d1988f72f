use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A set of named tasks with one cancellation token.
///
/// If a task returns or panics before the token is cancelled, the whole set is cancelled, so that no program runs on
/// without one of its tasks. Dropping the set aborts all tasks.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    token: CancellationToken,
    set: Arc<Mutex<JoinSet<()>>>,
    failed: Arc<Mutex<Option<String>>>,
}

impl Tasks {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The token that tells every task to end.
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Runs a task for the lifetime of the program. At shutdown it is dropped. A task that has to finish work watches
    /// [`Tasks::token`] instead, and is started with [`Tasks::spawn_draining`].
    pub fn spawn<F>(&self, name: &'static str, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let token = self.token.clone();
        self.spawn_draining(name, async move {
            tokio::select! {
                () = token.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// Runs a task that ends by itself once the token is cancelled.
    pub fn spawn_draining<F>(&self, name: &'static str, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let guard = EndGuard { name, tasks: self.clone() };
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        set.spawn(async move {
            let _guard = guard;
            task.await;
        });
    }

    /// Runs a task like [`Tasks::spawn_draining`] but on its own thread, so that tasks that occupy the runtime's
    /// threads do not delay it.
    pub fn spawn_thread<F>(&self, name: &'static str, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.spawn_draining(name, async move {
            let (running, ended) = oneshot::channel::<()>();
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
                let _running = running;
                match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                    Ok(runtime) => runtime.block_on(task),
                    Err(error) => tracing::error!(%error, name, "a thread has no runtime"),
                }
            });
            match thread {
                // The thread drops `running` when it ends; nothing is ever sent.
                Ok(_detached) => drop(ended.await),
                Err(error) => tracing::error!(%error, name, "a thread could not be started"),
            }
        });
    }

    /// Runs a short task that may end at any time, such as one connection.
    pub fn spawn_transient<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        while set.try_join_next().is_some() {}
        set.spawn(task);
    }

    /// Tells every task to end.
    pub fn cancel(&self) {
        self.token.cancel();
    }

    /// Waits for cancellation and then for the end of all tasks, for `deadline` at most; then aborts the rest.
    /// The error names the first task that ended before cancellation.
    pub async fn join(&self, deadline: Duration) -> Result<(), TaskEnded> {
        self.token.cancelled().await;
        let mut set = std::mem::take(&mut *self.set.lock().unwrap_or_else(PoisonError::into_inner));
        let drained =
            tokio::time::timeout(deadline, async { while set.join_next().await.is_some() {} }).await;
        if drained.is_err() {
            tracing::warn!(tasks = set.len(), "tasks did not end in time and are aborted");
            set.shutdown().await;
        }
        match self.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(task) => Err(TaskEnded(task)),
            None => Ok(()),
        }
    }
}

/// A task ended before cancellation.
#[derive(Debug, thiserror::Error)]
#[error("task {0} ended unexpectedly")]
pub struct TaskEnded(String);

struct EndGuard {
    name: &'static str,
    tasks: Tasks,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        if self.tasks.token.is_cancelled() {
            return;
        }
        tracing::error!(task = self.name, panicked = std::thread::panicking(), "task ended unexpectedly");
        self.tasks
            .failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_with(|| self.name.to_owned());
        self.tasks.token.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_ends_the_set_and_is_named() {
        let tasks = Tasks::new();
        tasks.spawn("steady", std::future::pending());
        tasks.spawn("fragile", async { panic!("on purpose") });
        let error = tasks.join(Duration::from_secs(30)).await.unwrap_err();
        assert_eq!(error.to_string(), "task fragile ended unexpectedly");
    }

    #[tokio::test]
    async fn a_thread_that_panics_ends_the_set_and_one_that_is_told_to_ends_cleanly() {
        let tasks = Tasks::new();
        let token = tasks.token();
        tasks.spawn_thread("steady", async move { token.cancelled().await });
        tasks.cancel();
        tasks.join(Duration::from_secs(30)).await.unwrap();
        let tasks = Tasks::new();
        tasks.spawn_thread("fragile", async { panic!("on purpose") });
        let error = tasks.join(Duration::from_secs(30)).await.unwrap_err();
        assert_eq!(error.to_string(), "task fragile ended unexpectedly");
    }

    #[tokio::test]
    async fn cancelled_tasks_end_cleanly() {
        let tasks = Tasks::new();
        tasks.spawn("steady", std::future::pending());
        tasks.cancel();
        tasks.join(Duration::from_secs(30)).await.unwrap();
    }
}

use crate::Tasks;
use tokio::signal::unix::{SignalKind, signal};

/// Cancels `tasks` at SIGTERM or SIGINT.
pub async fn on_signal(tasks: Tasks) {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("signal handlers cannot be installed");
        return std::future::pending().await;
    };
    let token = tasks.token();
    tokio::select! {
        _ = terminate.recv() => tracing::info!(signal = "SIGTERM", "shutting down"),
        _ = interrupt.recv() => tracing::info!(signal = "SIGINT", "shutting down"),
        () = token.cancelled() => {}
    }
    tasks.cancel();
}

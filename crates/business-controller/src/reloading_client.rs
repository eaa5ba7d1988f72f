//! A client of a kubeconfig that is read again for each use, since others renew the credentials there.

use crate::config;
use crate::directory::kubeconfig::fingerprint;
use crate::error::Error;
use kube::Client;
use kube::config::Kubeconfig;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A client that follows its kubeconfig.
pub struct ReloadingClient {
    kubeconfig: PathBuf,
    made: Mutex<Option<MadeClient>>,
}

/// A client, and the fingerprint of the kubeconfig that it was made from.
#[derive(Clone)]
struct MadeClient {
    client: Client,
    made_from: String,
}

impl std::fmt::Debug for ReloadingClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReloadingClient").field("kubeconfig", &self.kubeconfig).finish_non_exhaustive()
    }
}

impl ReloadingClient {
    /// Uses this kubeconfig; an error if it cannot be used.
    pub async fn open(kubeconfig: PathBuf) -> Result<Self, Error> {
        let client = Self { kubeconfig, made: Mutex::default() };
        let _usable = client.get().await?;
        Ok(client)
    }

    /// The client for what the kubeconfig says now.
    pub async fn get(&self) -> Result<Client, Error> {
        let now = fingerprint(&Kubeconfig::read_from(&self.kubeconfig)?, None);
        let known = self.made().clone();
        if let Some(known) = known.filter(|known| known.made_from == now) {
            return Ok(known.client);
        }
        let client = config::client(Some(&self.kubeconfig)).await?;
        *self.made() = Some(MadeClient { client: client.clone(), made_from: now });
        Ok(client)
    }

    fn made(&self) -> MutexGuard<'_, Option<MadeClient>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

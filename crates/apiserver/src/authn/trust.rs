use super::proxy::Proxy;
use crate::error::Error;
use crate::tls::Authority;
use crate::tls::serving::read;
use arc_swap::{ArcSwap, Guard};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// Where kube-apiserver publishes what aggregated servers must trust.
const NAMESPACE: &str = "kube-system";
const CONFIG_MAP: &str = "extension-apiserver-authentication";
/// How often the ConfigMap is read again while its watch is silent.
const REREAD: Duration = Duration::from_mins(1);
/// How long that may take. The watch waits meanwhile.
const REREAD_DEADLINE: Duration = Duration::from_secs(10);

/// Trust that the program's settings name.
#[derive(Clone, Debug, Default)]
pub struct TrustSettings {
    /// PEM bundle of CAs for client certificates.
    pub client_ca_file: Option<PathBuf>,
    /// A front proxy that replaces the one of the ConfigMap.
    pub proxy: Option<ProxySettings>,
}

/// A front proxy that is configured by hand.
#[derive(Clone, Debug)]
pub struct ProxySettings {
    /// PEM bundle of CAs for the proxy's client certificate.
    pub ca_file: PathBuf,
    /// Common names that its certificate may have; empty for any.
    pub allowed_names: Vec<String>,
}

/// What identities are believed by, at one moment.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    /// Grows with each change: what was verified under another trust is verified again.
    pub(crate) generation: u64,
    pub(crate) clients: Option<Authority>,
    pub(crate) proxy: Option<Proxy>,
}

/// Trust as it is now, from files and from the ConfigMap.
#[derive(Debug)]
pub(crate) struct TrustStore {
    settings: TrustSettings,
    /// The parts that `current` was made of, to notice a change.
    source: Mutex<TrustFiles>,
    current: ArcSwap<Trust>,
    loaded: AtomicBool,
    /// A kube-apiserver publishes trust beyond that of the files.
    awaits_config_map: bool,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct TrustFiles {
    client_file: Vec<u8>,
    proxy_file: Vec<u8>,
    config_map: BTreeMap<String, String>,
}

impl TrustStore {
    /// Reads the files. The ConfigMap comes with [`TrustStore::follow_config_map`].
    pub(crate) async fn load_files(settings: TrustSettings, awaits_config_map: bool) -> Result<Self, Error> {
        let store = Self {
            settings,
            source: Mutex::default(),
            current: ArcSwap::default(),
            loaded: AtomicBool::new(false),
            awaits_config_map,
        };
        store.reload_files().await?;
        Ok(store)
    }

    pub(crate) fn load(&self) -> Guard<Arc<Trust>> {
        self.current.load()
    }

    /// Whether the ConfigMap was read at least once.
    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded.load(Ordering::Acquire)
    }

    /// Whether all trust is loaded: a caller who is not believed now would not be believed a moment later either.
    pub(crate) fn is_complete(&self) -> bool {
        !self.awaits_config_map || self.is_loaded()
    }

    /// Follows the files for ever.
    #[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
    pub(crate) async fn follow_files(self: Arc<Self>, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            if let Err(error) = self.reload_files().await {
                tracing::warn!(%error, "the trusted CAs stay as they are");
            }
        }
    }

    /// Follows the ConfigMap for ever.
    pub(crate) async fn follow_config_map(self: Arc<Self>, client: kube::Client) {
        let api: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
        let mut changes = pin!(watch_object(api.clone(), CONFIG_MAP).default_backoff());
        let mut reread = tokio::time::interval(REREAD);
        loop {
            let found = tokio::select! {
                change = changes.next() => match change {
                    Some(change) => change.map_err(|error| error.to_string()),
                    None => return,
                },
                _ = reread.tick() => match timeout(REREAD_DEADLINE, api.get_opt(CONFIG_MAP)).await {
                    Ok(found) => found.map_err(|error| error.to_string()),
                    Err(_elapsed) => Err("no answer in time".to_owned()),
                },
            };
            match found {
                Ok(Some(map)) => self.take_config_map(map.data.unwrap_or_default()),
                Ok(None) => tracing::warn!("the ConfigMap {NAMESPACE}/{CONFIG_MAP} is missing"),
                Err(error) => tracing::warn!(error, "read the ConfigMap {NAMESPACE}/{CONFIG_MAP}"),
            }
        }
    }

    fn take_config_map(&self, data: BTreeMap<String, String>) {
        match self.change(|source| source.config_map = data) {
            Ok(()) => self.loaded.store(true, Ordering::Release),
            Err(error) => tracing::warn!(%error, "the trusted CAs stay as they are"),
        }
    }

    async fn reload_files(&self) -> Result<(), Error> {
        let client_file = match &self.settings.client_ca_file {
            Some(path) => read(path).await?,
            None => Vec::new(),
        };
        let proxy_file = match &self.settings.proxy {
            Some(proxy) => read(&proxy.ca_file).await?,
            None => Vec::new(),
        };
        self.change(|source| {
            source.client_file = client_file;
            source.proxy_file = proxy_file;
        })
    }

    fn change(&self, edit: impl FnOnce(&mut TrustFiles)) -> Result<(), Error> {
        let mut current = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        let mut source = current.clone();
        edit(&mut source);
        if source == *current {
            return Ok(());
        }
        let generation = self.current.load().generation + 1;
        let trust = source.trust(generation, &self.settings)?;
        tracing::info!(
            generation,
            client_ca = trust.clients.is_some(),
            front_proxy = trust.proxy.is_some(),
            "trusted CAs loaded"
        );
        self.current.store(Arc::new(trust));
        *current = source;
        Ok(())
    }
}

impl TrustFiles {
    /// A missing key turns its authenticator off; it never lets anybody in.
    fn trust(&self, generation: u64, settings: &TrustSettings) -> Result<Trust, Error> {
        let of_map = |key: &str| self.config_map.get(key).map(String::as_str).unwrap_or_default();
        let client_pem = [&self.client_file, b"\n".as_slice(), of_map("client-ca-file").as_bytes()].concat();
        let clients = authority("client CA", &client_pem)?;
        let (proxy_pem, proxy) = if let Some(by_hand) = &settings.proxy {
            let proxy = authority("front proxy CA", &self.proxy_file)?
                .map(|authority| Proxy::with_usual_headers(authority, by_hand.allowed_names.clone()));
            (self.proxy_file.as_slice(), proxy)
        } else {
            let pem = of_map("requestheader-client-ca-file").as_bytes();
            let proxy = authority("front proxy CA", pem)?
                .map(|authority| Proxy::from_config_map(authority, &self.config_map))
                .transpose()?;
            (pem, proxy)
        };
        if let Some(proxy) = &proxy
            && proxy.allows_any_name()
            && share_a_certificate(&client_pem, proxy_pem)
        {
            tracing::warn!(
                "the client CA is also the front proxy's CA and any name is allowed: \
                 whoever holds a client certificate can claim to be anybody"
            );
        }
        Ok(Trust { generation, clients, proxy })
    }
}

fn authority(what: &str, pem: &[u8]) -> Result<Option<Authority>, Error> {
    if pem.trim_ascii().is_empty() {
        return Ok(None);
    }
    Authority::from_pem(what, pem).map(Some)
}

fn share_a_certificate(a: &[u8], b: &[u8]) -> bool {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let certificates = |pem: &[u8]| CertificateDer::pem_slice_iter(pem).flatten().collect::<Vec<_>>();
    let b = certificates(b);
    certificates(a).iter().any(|certificate| b.contains(certificate))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ca(name: &str) -> String {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
    }

    fn config_map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[tokio::test]
    async fn a_missing_key_turns_its_authenticator_off_and_a_broken_one_changes_nothing() {
        let store = TrustStore::load_files(TrustSettings::default(), true).await.unwrap();
        assert!(store.load().clients.is_none() && store.load().proxy.is_none() && !store.is_loaded());

        let (client, proxy) = (ca("client"), ca("proxy"));
        store.take_config_map(config_map(&[("client-ca-file", &client)]));
        assert!(store.load().clients.is_some() && store.load().proxy.is_none() && store.is_loaded());

        store.take_config_map(config_map(&[
            ("client-ca-file", &client),
            ("requestheader-client-ca-file", &proxy),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
        ]));
        assert!(store.load().proxy.is_some());
        let generation = store.load().generation;

        store.take_config_map(config_map(&[("client-ca-file", "-----BEGIN CERTIFICATE-----\nno\n")]));
        assert_eq!(store.load().generation, generation);
        store.take_config_map(config_map(&[
            ("requestheader-client-ca-file", &proxy),
            ("requestheader-username-headers", "X-Remote-User"),
        ]));
        assert_eq!(store.load().generation, generation);
        store.take_config_map(config_map(&[("requestheader-client-ca-file", " ")]));
        assert!(store.load().clients.is_none() && store.load().proxy.is_none());
    }
}

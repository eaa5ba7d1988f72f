use super::proxy::FrontProxy;
use crate::error::Error;
use crate::tls::CaBundle;
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

/// The ConfigMap in which kube-apiserver publishes the CAs that aggregated servers must trust.
const NAMESPACE: &str = "kube-system";
const CONFIG_MAP: &str = "extension-apiserver-authentication";
/// How often the ConfigMap is read again, in case its watch misses a change.
const REREAD_INTERVAL: Duration = Duration::from_mins(1);
/// How long reading it may take. Meanwhile no events of the watch are handled.
const REREAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Trusted CAs from the program's settings.
#[derive(Clone, Debug, Default)]
pub struct TrustSettings {
    /// PEM bundle of CAs for client certificates.
    pub client_ca_file: Option<PathBuf>,
    /// A front proxy that replaces the one of the ConfigMap.
    pub proxy: Option<ProxySettings>,
}

/// A front proxy from the program's settings.
#[derive(Clone, Debug)]
pub struct ProxySettings {
    /// PEM bundle of CAs for the proxy's client certificate.
    pub ca_file: PathBuf,
    /// Common names that its certificate may have; empty for any.
    pub allowed_names: Vec<String>,
}

/// A snapshot of the trusted CAs.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    /// Increases with each change. What was verified under another generation is verified again.
    pub(crate) generation: u64,
    pub(crate) client_ca: Option<CaBundle>,
    pub(crate) proxy: Option<FrontProxy>,
}

/// The current trusted CAs, from files and from the ConfigMap.
#[derive(Debug)]
pub(crate) struct TrustStore {
    settings: TrustSettings,
    /// What `current` was built from, to notice a change.
    source: Mutex<TrustSource>,
    current: ArcSwap<Trust>,
    loaded: AtomicBool,
    /// Whether a kube-apiserver publishes further CAs.
    awaits_config_map: bool,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct TrustSource {
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

    /// Whether all sources are loaded. Before that, a certificate that is not trusted yet may be trusted a moment
    /// later.
    pub(crate) fn is_complete(&self) -> bool {
        !self.awaits_config_map || self.is_loaded()
    }

    /// Reloads the files when they change, for ever.
    #[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
    pub(crate) async fn follow_files(self: Arc<Self>, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            if let Err(error) = self.reload_files().await {
                tracing::warn!(%error, "the trusted CAs stay as they are");
            }
        }
    }

    /// Watches the ConfigMap, for ever.
    pub(crate) async fn follow_config_map(self: Arc<Self>, client: kube::Client) {
        let api: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
        let mut changes = pin!(watch_object(api.clone(), CONFIG_MAP).default_backoff());
        let mut reread = tokio::time::interval(REREAD_INTERVAL);
        loop {
            let found = tokio::select! {
                update = changes.next() => match update {
                    Some(update) => update.map_err(|error| error.to_string()),
                    None => return,
                },
                _ = reread.tick() => match timeout(REREAD_TIMEOUT, api.get_opt(CONFIG_MAP)).await {
                    Ok(found) => found.map_err(|error| error.to_string()),
                    Err(_elapsed) => Err("no answer in time".to_owned()),
                },
            };
            match found {
                Ok(Some(map)) => self.apply_config_map(map.data.unwrap_or_default()),
                Ok(None) => tracing::warn!("the ConfigMap {NAMESPACE}/{CONFIG_MAP} is missing"),
                Err(error) => tracing::warn!(error, "read the ConfigMap {NAMESPACE}/{CONFIG_MAP}"),
            }
        }
    }

    fn apply_config_map(&self, data: BTreeMap<String, String>) {
        match self.update(|source| source.config_map = data) {
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
        self.update(|source| {
            source.client_file = client_file;
            source.proxy_file = proxy_file;
        })
    }

    fn update(&self, edit: impl FnOnce(&mut TrustSource)) -> Result<(), Error> {
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
            client_ca = trust.client_ca.is_some(),
            front_proxy = trust.proxy.is_some(),
            "trusted CAs loaded"
        );
        self.current.store(Arc::new(trust));
        *current = source;
        Ok(())
    }
}

impl TrustSource {
    /// Builds the snapshot. A missing key disables its authenticator.
    fn trust(&self, generation: u64, settings: &TrustSettings) -> Result<Trust, Error> {
        let of_map = |key: &str| self.config_map.get(key).map(String::as_str).unwrap_or_default();
        let client_pem = [&self.client_file, b"\n".as_slice(), of_map("client-ca-file").as_bytes()].concat();
        let client_ca = ca_bundle("client CA", &client_pem)?;
        let (proxy_pem, proxy) = if let Some(settings_proxy) = &settings.proxy {
            let proxy = ca_bundle("front proxy CA", &self.proxy_file)?.map(|ca_bundle| {
                FrontProxy::with_default_headers(ca_bundle, settings_proxy.allowed_names.clone())
            });
            (self.proxy_file.as_slice(), proxy)
        } else {
            let pem = of_map("requestheader-client-ca-file").as_bytes();
            let proxy = ca_bundle("front proxy CA", pem)?
                .map(|ca_bundle| FrontProxy::from_config_map(ca_bundle, &self.config_map))
                .transpose()?;
            (pem, proxy)
        };
        if let Some(proxy) = &proxy
            && proxy.allows_any_name()
            && have_common_certificate(&client_pem, proxy_pem)
        {
            tracing::warn!(
                "the client CA is also the front proxy's CA and any name is allowed: \
                 whoever holds a client certificate can claim to be anybody"
            );
        }
        Ok(Trust { generation, client_ca, proxy })
    }
}

fn ca_bundle(what: &str, pem: &[u8]) -> Result<Option<CaBundle>, Error> {
    if pem.trim_ascii().is_empty() {
        return Ok(None);
    }
    CaBundle::from_pem(what, pem).map(Some)
}

fn have_common_certificate(a: &[u8], b: &[u8]) -> bool {
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
        assert!(store.load().client_ca.is_none() && store.load().proxy.is_none() && !store.is_loaded());

        let (client, proxy) = (ca("client"), ca("proxy"));
        store.apply_config_map(config_map(&[("client-ca-file", &client)]));
        assert!(store.load().client_ca.is_some() && store.load().proxy.is_none() && store.is_loaded());

        store.apply_config_map(config_map(&[
            ("client-ca-file", &client),
            ("requestheader-client-ca-file", &proxy),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
        ]));
        assert!(store.load().proxy.is_some());
        let generation = store.load().generation;

        store.apply_config_map(config_map(&[("client-ca-file", "-----BEGIN CERTIFICATE-----\nno\n")]));
        assert_eq!(store.load().generation, generation);
        store.apply_config_map(config_map(&[
            ("requestheader-client-ca-file", &proxy),
            ("requestheader-username-headers", "X-Remote-User"),
        ]));
        assert_eq!(store.load().generation, generation);
        store.apply_config_map(config_map(&[("requestheader-client-ca-file", " ")]));
        assert!(store.load().client_ca.is_none() && store.load().proxy.is_none());
    }
}

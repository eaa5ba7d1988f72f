//! Client configuration from a kubeconfig, with the same proxy that kubectl uses.
//!
//! kube's own loader is not used because of the proxy: it matches `NO_PROXY` against the address of the proxy, even of
//! one that the kubeconfig names, and it fails if an entry of `NO_PROXY` is empty.

/// The proxy for a server.
mod proxy;

pub use proxy::{environment_proxy, is_loopback};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Uri;
use kube::Config;
use kube::config::{AuthInfo, Cluster, Context, ExecAuthCluster, Kubeconfig, KubeconfigError, LoadDataError};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use std::io;
use std::path::PathBuf;

/// The source in errors about CA certificates that are in the kubeconfig itself.
const CA_DATA_FIELD: &str = "certificate-authority-data";

/// The client configuration for a context; for the current context if `context` is `None`.
pub async fn config(kubeconfig: &Kubeconfig, context: Option<&str>) -> Result<Config, KubeconfigError> {
    let name =
        context.or(kubeconfig.current_context.as_deref()).ok_or(KubeconfigError::CurrentContextNotSet)?;
    let context =
        kubeconfig.contexts.iter().find(|one| one.name == name).and_then(|one| one.context.as_ref());
    let context = context.ok_or_else(|| KubeconfigError::LoadContext(name.to_owned()))?;
    let cluster = kubeconfig.clusters.iter().find(|one| one.name == context.cluster);
    let cluster = cluster.and_then(|one| one.cluster.as_ref());
    let cluster = cluster.ok_or_else(|| KubeconfigError::LoadClusterOfContext(context.cluster.clone()))?;
    let server = cluster.server.as_deref().ok_or(KubeconfigError::MissingClusterUrl)?;
    let mut config = Config::new(server.parse::<Uri>().map_err(KubeconfigError::ParseClusterUrl)?);
    if let Some(namespace) = &context.namespace {
        config.default_namespace.clone_from(namespace);
    }
    config.root_cert = ca_certificates(cluster).await.map_err(KubeconfigError::LoadCertificateAuthority)?;
    // kube reads this file again every minute, since a program may outlive its certificates.
    config.root_cert_file = ca_file(cluster).map(PathBuf::from);
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or_default();
    config.disable_compression = cluster.disable_compression.unwrap_or_default();
    config.tls_server_name.clone_from(&cluster.tls_server_name);
    config.auth_info = prefer_token_file(user(kubeconfig, context, cluster)?).await;
    config.proxy_url = proxy::proxy_url(cluster.proxy_url.as_deref(), &config.cluster_url)?;
    Ok(config)
}

/// The credentials of a context's user; none if the kubeconfig does not list the user, as in client-go.
fn user(kubeconfig: &Kubeconfig, context: &Context, cluster: &Cluster) -> Result<AuthInfo, KubeconfigError> {
    let listed = kubeconfig.auth_infos.iter().find(|one| Some(&one.name) == context.user.as_ref());
    let mut user = listed.and_then(|one| one.auth_info.clone()).unwrap_or_default();
    if let Some(exec) = &mut user.exec
        && exec.provide_cluster_info
    {
        exec.cluster = Some(ExecAuthCluster::try_from(cluster)?);
    }
    Ok(user)
}

/// The credentials without their token if a file has one, too. As in client-go, that of the file counts while it can be
/// read: somebody renews it. kube alone would take the other one.
async fn prefer_token_file(mut user: AuthInfo) -> AuthInfo {
    let Some(path) = user.token_file.as_deref().filter(|_| user.token.is_some()) else { return user };
    let has_token = tokio::fs::read_to_string(path).await.is_ok_and(|token| !token.trim().is_empty());
    if has_token {
        user.token = None;
    }
    user
}

/// The file with the CA certificates, unless the kubeconfig itself contains them.
fn ca_file(cluster: &Cluster) -> Option<&str> {
    let has_no_data = cluster.certificate_authority_data.is_none();
    cluster.certificate_authority.as_deref().filter(|_| has_no_data)
}

/// The CA certificates, each as DER.
async fn ca_certificates(cluster: &Cluster) -> Result<Option<Vec<Vec<u8>>>, LoadDataError> {
    let (text, source) = match (&cluster.certificate_authority_data, &cluster.certificate_authority) {
        (Some(data), _) => {
            (BASE64_STANDARD.decode(data).map_err(LoadDataError::DecodeBase64)?, CA_DATA_FIELD)
        }
        (None, Some(path)) => {
            let read = tokio::fs::read(path).await;
            (read.map_err(|error| LoadDataError::ReadFile(error, path.into()))?, path.as_str())
        }
        (None, None) => return Ok(None),
    };
    let bad = |error: pem::Error| {
        LoadDataError::ReadFile(io::Error::new(io::ErrorKind::InvalidData, error), source.into())
    };
    let found = CertificateDer::pem_slice_iter(&text).map(|one| one.map(|der| der.to_vec()));
    found.collect::<Result<Vec<Vec<u8>>, _>>().map(Some).map_err(bad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::config::KubeConfigOptions;

    const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n";

    fn file(cluster: &str) -> Kubeconfig {
        let text = format!(
            "
apiVersion: v1
kind: Config
clusters:
- name: c
  cluster: {cluster}
users:
- name: u
  user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, command: plugin, provideClusterInfo: true}}, as: jane}}
contexts:
- name: east
  context: {{cluster: c, user: u, namespace: web}}
- name: nobody
  context: {{cluster: c, user: absent}}
- name: nowhere
  context: {{cluster: absent}}
current-context: east
"
        );
        Kubeconfig::from_yaml(&text).unwrap()
    }

    #[tokio::test]
    async fn all_but_the_proxy_is_as_kube_reads_it() {
        let data = BASE64_STANDARD.encode(format!("of our own\n{AUTHORITY}{AUTHORITY}"));
        let file = file(&format!(
            "{{server: 'https://c:6443', certificate-authority-data: {data}, tls-server-name: inner, proxy-url: 'http://p:1', \
             insecure-skip-tls-verify: true, disable-compression: true}}"
        ));
        for context in [None, Some("nobody")] {
            let ours = config(&file, context).await.unwrap();
            assert_eq!(ours.root_cert, Some(vec![b"a".to_vec(), b"a".to_vec()]));
            let options = KubeConfigOptions { context: context.map(str::to_owned), ..Default::default() };
            let mut theirs = Config::from_custom_kubeconfig(file.clone(), &options).await.unwrap();
            theirs.proxy_url.clone_from(&ours.proxy_url);
            assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
        }
    }

    #[tokio::test]
    async fn authorities_in_a_file_are_read_there_again() {
        let path = std::env::temp_dir().join(format!("kubeconfig-authority-{}", std::process::id()));
        std::fs::write(&path, AUTHORITY).unwrap();
        let named = format!("certificate-authority: {}", path.display());
        let data = BASE64_STANDARD.encode(AUTHORITY);
        for (cluster, kept) in [
            (format!("{{server: 'https://c', {named}}}"), Some(path.clone())),
            (format!("{{server: 'https://c', {named}, certificate-authority-data: {data}}}"), None),
        ] {
            let read = config(&file(&cluster), None).await.unwrap();
            assert_eq!(read.root_cert, Some(vec![b"a".to_vec()]));
            assert_eq!(read.root_cert_file, kept, "{cluster}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[tokio::test]
    async fn the_token_of_a_file_counts_while_it_can_be_read() {
        let path = std::env::temp_dir().join(format!("kubeconfig-token-{}", std::process::id()));
        let text = format!(
            "
clusters: [{{name: c, cluster: {{server: 'https://c'}}}}]
users: [{{name: u, user: {{token: old, tokenFile: {}}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
",
            path.display()
        );
        let file = Kubeconfig::from_yaml(&text).unwrap();
        for (content, counts) in [(None, false), (Some("\n"), false), (Some("new\n"), true)] {
            if let Some(content) = content {
                std::fs::write(&path, content).unwrap();
            }
            let user = config(&file, None).await.unwrap().auth_info;
            assert_eq!((user.token.is_none(), user.token_file.is_some()), (counts, true), "{content:?}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[tokio::test]
    async fn what_is_missing_is_named() {
        let why =
            async |cluster: &str, context| config(&file(cluster), context).await.unwrap_err().to_string();
        for (cluster, context, part) in [
            ("{server: 'https://c'}", "absent", "absent"),
            ("{server: 'https://c'}", "nowhere", "absent"),
            ("{}", "east", "cluster url is missing"),
            ("{server: 'https://c', certificate-authority: /none/ca}", "east", "/none/ca"),
            ("{server: 'https://c', certificate-authority-data: '-'}", "east", "base64"),
            ("{server: 'https://c', proxy-url: 'http://p q'}", "east", "proxy url"),
        ] {
            let why = why(cluster, Some(context)).await;
            assert!(why.contains(part), "{why}");
        }
        let cut = BASE64_STANDARD.encode("-----BEGIN CERTIFICATE-----\nYQ==\n");
        let cut = why(&format!("{{server: 'https://c', certificate-authority-data: {cut}}}"), None).await;
        assert!(cut.contains(CA_DATA_FIELD), "{cut}");
    }
}

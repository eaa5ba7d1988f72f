use super::*;
use http::Method;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::sync::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio_rustls::TlsAcceptor;

/// What the cluster is called where its agent is.
const NAME: &str = "member-7.tunnel";
const TOKEN: &str = "Bearer secret";

/// What a cluster does with a call.
#[derive(Clone, Copy)]
enum Manner {
    Answers,
    /// It takes the call, and says nothing.
    Silent,
    /// It never comes to the end of what it says.
    Endless,
}

/// A cluster that says its version to those who have a token, and who called it.
struct FakeCluster {
    port: u16,
    authority: Vec<u8>,
    heard: Arc<Mutex<Vec<String>>>,
}

impl FakeCluster {
    async fn start() -> Self {
        Self::with(Manner::Answers).await
    }

    async fn with(manner: Manner) -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![NAME.to_owned()]).unwrap().self_signed(&key).unwrap();
        let der = CertificateDer::from(certificate.der().to_vec());
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_no_client_auth().with_single_cert(vec![der.clone()], key.into());
        let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, heard) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(Vec::new())));
        let told = Arc::clone(&heard);
        tokio::spawn(async move {
            let mut silent = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(stream) = acceptor.accept(stream).await else { continue };
                match manner {
                    Manner::Answers => drop(tokio::spawn(serve(stream, Arc::clone(&told)))),
                    Manner::Endless => drop(tokio::spawn(pour(stream))),
                    Manner::Silent => {
                        told.lock().unwrap().push("it is silent".to_owned());
                        silent.push(stream);
                    }
                }
            }
        });
        Self { port, authority: der.to_vec(), heard }
    }

    /// Past the tunnel.
    fn straight(&self) -> kube::Config {
        let mut config = self.config("tunnel://member-7");
        config.cluster_url = format!("https://127.0.0.1:{}", self.port).parse().unwrap();
        (config.tls_server_name, config.proxy_url) = (Some(NAME.to_owned()), None);
        config
    }

    fn config(&self, proxy: &str) -> kube::Config {
        let mut config = kube::Config::new(format!("https://{NAME}:{}", self.port).parse().unwrap());
        config.root_cert = Some(vec![self.authority.clone()]);
        config.auth_info.token = Some("secret".to_owned().into());
        config.proxy_url = Some(proxy.parse().unwrap());
        config
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, heard: Arc<Mutex<Vec<String>>>) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let token = request.headers().get("authorization").and_then(|value| value.to_str().ok());
        heard.lock().unwrap().push(format!("{} {}", request.uri().path(), token.unwrap_or_default()));
        let mut version = serde_json::json!({"major": "1", "minor": "36", "gitVersion": "v1.36.3"});
        for field in ["gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"] {
            version[field] = "".into();
        }
        std::future::ready(Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from(
            version.to_string(),
        )))))
    });
    drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await);
}

async fn pour(mut stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
    let mut asked = [0; 4096];
    drop(stream.read(&mut asked).await);
    let mut said = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n").await;
    while said.is_ok() {
        said = stream.write_all(&[b' '; 4096]).await;
    }
}

/// Whoever asks for an address gets the cluster, as by an agent that knows the name; another name has no agent.
async fn relay(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, port: u16) {
    let answer = service_fn(move |request: Request<Incoming>| async move {
        let known = request.method() == Method::CONNECT && request.uri().host() == Some(NAME);
        if known {
            tokio::spawn(async move {
                let mut asked = TokioIo::new(hyper::upgrade::on(request).await.unwrap());
                let mut cluster = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                drop(copy_bidirectional(&mut asked, &mut cluster).await);
            });
        }
        let status = if known { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
        Ok::<_, std::convert::Infallible>(
            Response::builder().status(status).body(Full::<Bytes>::default()).unwrap(),
        )
    });
    let serving = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
    drop(serving.with_upgrades().await);
}

/// A socket in a directory of its own, gone with it.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("dial-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("s")
    }

    fn dialer(&self) -> Dialer {
        Dialer::new(Some(self.socket()))
    }

    /// Whoever dials the socket comes to this port.
    fn leads_to(&self, port: u16) {
        let listener = UnixListener::bind(self.socket()).unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(relay(stream, port));
            }
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[tokio::test]
async fn a_cluster_is_reached_through_the_tunnel_and_by_its_own_certificate() {
    let (cluster, place) = (FakeCluster::start().await, Place::new("reached"));
    place.leads_to(cluster.port);
    let client = place.dialer().client(cluster.config("tunnel://member-7")).unwrap();
    assert_eq!(client.apiserver_version().await.unwrap().git_version, "v1.36.3");
    assert_eq!(*cluster.heard.lock().unwrap(), [format!("/version {TOKEN}")]);

    let mut nobody = cluster.config("tunnel://member-8");
    nobody.cluster_url = "https://member-8.tunnel:443".parse().unwrap();
    let refused = place.dialer().client(nobody).unwrap().apiserver_version().await.unwrap_err();
    assert!(chain(&refused).contains("cannot reach the cluster through the tunnel"), "{}", chain(&refused));

    let mut other = cluster.config("tunnel://member-7");
    other.root_cert = Some(vec![FakeCluster::start().await.authority]);
    let refused = place.dialer().client(other).unwrap().apiserver_version().await.unwrap_err();
    assert!(chain(&refused).contains("certificate"), "{}", chain(&refused));
    assert_eq!(cluster.heard.lock().unwrap().len(), 1, "nothing is said to a cluster of another authority");
}

#[tokio::test]
async fn a_kubeconfig_may_name_a_proxy() {
    let cluster = FakeCluster::start().await;
    let (listener, port) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), cluster.port);
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(relay(stream, port));
        }
    });
    let client = Dialer::default().client(cluster.config(&proxy)).unwrap();
    assert_eq!(client.apiserver_version().await.unwrap().git_version, "v1.36.3");
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_that_does_not_answer_is_given_up() {
    let place = Place::new("silent");
    let listener = UnixListener::bind(place.socket()).unwrap();
    let mut config = kube::Config::new(format!("https://{NAME}").parse().unwrap());
    config.proxy_url = Some("tunnel://member-7".parse().unwrap());
    let silent = place.dialer().client(config).unwrap();
    let error = silent.apiserver_version().await.unwrap_err();
    assert!(chain(&error).contains("no connection through the tunnel within 4 s"), "{}", chain(&error));
    drop(listener);
}

#[tokio::test]
async fn without_a_socket_a_cluster_behind_the_tunnel_cannot_be_used() {
    let mut config = kube::Config::new(format!("https://{NAME}").parse().unwrap());
    config.proxy_url = Some("tunnel://member-7".parse().unwrap());
    let error = Dialer::default().client(config).err().unwrap();
    assert!(error.text().contains("--tunnel-socket"), "{}", error.text());
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_never_answered_is_given_up() {
    let (cluster, place) = (FakeCluster::with(Manner::Silent).await, Place::new("hanging"));
    place.leads_to(cluster.port);
    for config in [cluster.straight(), cluster.config("tunnel://member-7")] {
        let client = place.dialer().client(config).unwrap();
        let listed = client.list_api_groups();
        let error = tokio::time::timeout(SILENCE_MAX * 2, listed).await.unwrap().unwrap_err();
        assert!(chain(&error).contains("timed out"), "{}", chain(&error));
    }
    assert_eq!(cluster.heard.lock().unwrap().len(), 2, "both were connected");
}

#[tokio::test]
async fn an_answer_without_end_is_given_up() {
    let (cluster, place) = (FakeCluster::with(Manner::Endless).await, Place::new("endless"));
    place.leads_to(cluster.port);
    for config in [cluster.straight(), cluster.config("tunnel://member-7")] {
        let client = place.dialer().client(config).unwrap();
        let asked = tokio::time::timeout(Duration::from_secs(30), client.apiserver_version());
        let error = asked.await.unwrap().unwrap_err();
        assert!(chain(&error).contains("may be 72 MiB at most"), "{}", chain(&error));
    }
}

//! A Kubernetes control plane of real parts: etcd, kube-apiserver and the controllers of kube-controller-manager.

use crate::kubeconfig::{Kubeconfig, certificate};
use crate::kubectl::Kubectl;
use crate::layout::{self, Layout};
use crate::manifests::NAMESPACE;
use crate::pki::{CertificateSubject, Pki, Use};
use crate::supervisor::{Spec, Supervisor};
use crate::wait::Progress;
use anyhow::{Context, Result};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

const READY: Duration = Duration::from_mins(4);
/// The group that the operator of a local control plane belongs to.
const OPERATORS: &str = "business:operators";
const AUDIT_POLICY: &str = "audit-policy.json";

/// The one etcd of all local control planes; each has its own prefix.
pub fn etcd(layout: &Layout, port: u16, peer_port: u16) -> Result<Spec> {
    etcd_named("etcd", layout, port, peer_port)
}

/// An etcd of this name, with data of its own; who shows the certificate `etcd-client` is let in.
pub fn etcd_named(name: &str, layout: &Layout, port: u16, peer_port: u16) -> Result<Spec> {
    let pki = Pki::open(&layout.path("pki"))?;
    pki.authority("etcd-ca")?;
    let names = ["127.0.0.1", "localhost"];
    let server = CertificateSubject { user: "etcd", groups: &[], names: &names, usage: Use::Both };
    pki.issue("etcd-ca", "etcd", &server)?;
    pki.issue("etcd-ca", "etcd-client", &CertificateSubject::client("kube-apiserver", &[]))?;
    let client = format!("https://127.0.0.1:{port}");
    let peer = format!("https://127.0.0.1:{peer_port}");
    let file = |path: PathBuf| path.to_string_lossy().into_owned();
    let args = [
        ("name", "local".to_owned()),
        ("data-dir", file(layout.path(name))),
        ("listen-client-urls", client.clone()),
        ("advertise-client-urls", client),
        ("listen-peer-urls", peer.clone()),
        ("initial-advertise-peer-urls", peer.clone()),
        ("initial-cluster", format!("local={peer}")),
        ("cert-file", file(pki.cert("etcd"))),
        ("key-file", file(pki.key("etcd"))),
        ("trusted-ca-file", file(pki.cert("etcd-ca"))),
        ("client-cert-auth", "true".to_owned()),
        ("peer-cert-file", file(pki.cert("etcd"))),
        ("peer-key-file", file(pki.key("etcd"))),
        ("peer-trusted-ca-file", file(pki.cert("etcd-ca"))),
        ("peer-client-cert-auth", "true".to_owned()),
        ("quota-backend-bytes", (4_u64 << 30).to_string()),
        ("auto-compaction-retention", "10m".to_owned()),
        ("logger", "zap".to_owned()),
        ("log-level", "warn".to_owned()),
    ];
    let program = layout::bin().join("etcd");
    Ok(Spec::new(name, &program).args(args.iter().map(|(key, value)| format!("--{key}={value}"))))
}

/// One control plane.
#[derive(Clone, Debug)]
pub struct ControlPlane {
    /// The name of the cluster: `spec.clusterName` of what runs in it.
    pub name: String,
    pub port: u16,
    layout: Layout,
    pki: Pki,
    /// Whose tokens it believes.
    authentication_config: Option<PathBuf>,
    /// It notes what the controller writes.
    audited: bool,
}

impl ControlPlane {
    /// Makes its authorities, certificates and kubeconfigs.
    pub fn prepare(
        layout: &Layout,
        name: &str,
        port: u16,
        authentication_config: Option<PathBuf>,
    ) -> Result<Self> {
        let pki = Pki::open(&layout.path("clusters").join(name).join("pki"))?;
        let this = Self {
            name: name.to_owned(),
            port,
            layout: layout.clone(),
            pki,
            authentication_config,
            audited: false,
        };
        this.certificates()?;
        let kubeconfig = |user: &str, path: &Path| -> Result<()> {
            let user = certificate(&this.pki, user)?;
            Kubeconfig::default().context(name, &this.server(), &this.pki.cert("ca"), &user)?.write(path)
        };
        kubeconfig("admin", &this.admin())?;
        kubeconfig("operator", &this.operator())?;
        kubeconfig("controllers", &this.file("controllers.kubeconfig"))?;
        Ok(this)
    }

    /// The same with an audit log of what the controller writes.
    pub fn audited(mut self) -> Result<Self> {
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [
                {
                    "level": "Metadata",
                    "users": [format!("system:serviceaccount:{NAMESPACE}:business-member")],
                    "verbs": ["create", "update", "patch", "delete"],
                },
                {"level": "None"},
            ],
        });
        std::fs::write(self.file(AUDIT_POLICY), policy.to_string())?;
        self.audited = true;
        Ok(self)
    }

    /// Where that is.
    pub fn audit_log(layout: &Layout, name: &str) -> PathBuf {
        layout.path("clusters").join(name).join("audit.jsonl")
    }

    pub fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The kubeconfig of `system:masters`: only to set things up.
    pub fn admin(&self) -> PathBuf {
        self.file("admin.kubeconfig")
    }

    /// The kubeconfig of the person in front of the machine, a cluster administrator by RBAC.
    pub fn operator(&self) -> PathBuf {
        self.file("operator.kubeconfig")
    }

    /// The authority of its client certificates.
    pub fn client_ca(&self) -> PathBuf {
        self.pki.cert("ca")
    }

    pub fn process(&self) -> String {
        format!("kube-apiserver-{}", self.name)
    }

    pub fn wait(&self, supervisor: &Supervisor, kubectl: &Kubectl) -> Result<()> {
        let kubectl = kubectl.with_kubeconfig(&self.admin());
        supervisor.wait(&self.process(), READY, || {
            Ok(match kubectl.run(&["get", "--raw", "/readyz", "--request-timeout=5s"]) {
                Ok(_) => Progress::Done(()),
                Err(error) => Progress::Pending(error.to_string()),
            })
        })?;
        kubectl.apply(&operators()).map(drop)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.layout.path("clusters").join(&self.name).join(name)
    }

    fn certificates(&self) -> Result<()> {
        let pki = &self.pki;
        pki.authority("ca")?;
        pki.authority("front-proxy-ca")?;
        pki.key_pair("service-accounts", &rcgen::PKCS_ECDSA_P256_SHA256)?;
        let names = [
            "127.0.0.1",
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "10.0.0.1",
        ];
        pki.issue("ca", "apiserver", &CertificateSubject::server(&names))?;
        pki.issue(
            "front-proxy-ca",
            "front-proxy-client",
            &CertificateSubject::client("front-proxy-client", &[]),
        )?;
        pki.issue("ca", "admin", &CertificateSubject::client("xtask", &["system:masters"]))?;
        pki.issue("ca", "operator", &CertificateSubject::client("operator", &[OPERATORS]))?;
        pki.issue("ca", "controllers", &CertificateSubject::client("system:kube-controller-manager", &[]))
    }

    /// Its kube-apiserver.
    pub fn apiserver(&self) -> Result<Spec> {
        let etcd = Pki::open(&self.layout.path("pki"))?;
        let file = |path: PathBuf| path.to_string_lossy().into_owned();
        let pki = &self.pki;
        let etcd_port = crate::state::InstanceState::load(&self.layout.path("state.json"))?;
        let etcd_port = etcd_port.ports.get("etcd").copied().context("etcd has no port")?;
        let args = [
            ("etcd-servers", format!("https://127.0.0.1:{etcd_port}")),
            ("etcd-prefix", format!("/{}", self.name)),
            ("etcd-cafile", file(etcd.cert("etcd-ca"))),
            ("etcd-certfile", file(etcd.cert("etcd-client"))),
            ("etcd-keyfile", file(etcd.key("etcd-client"))),
            ("bind-address", "127.0.0.1".to_owned()),
            ("secure-port", self.port.to_string()),
            ("tls-cert-file", file(pki.cert("apiserver"))),
            ("tls-private-key-file", file(pki.key("apiserver"))),
            ("client-ca-file", file(pki.cert("ca"))),
            ("requestheader-client-ca-file", file(pki.cert("front-proxy-ca"))),
            ("requestheader-allowed-names", "front-proxy-client".to_owned()),
            ("requestheader-username-headers", "X-Remote-User".to_owned()),
            ("requestheader-uid-headers", "X-Remote-Uid".to_owned()),
            ("requestheader-group-headers", "X-Remote-Group".to_owned()),
            ("requestheader-extra-headers-prefix", "X-Remote-Extra-".to_owned()),
            ("proxy-client-cert-file", file(pki.cert("front-proxy-client"))),
            ("proxy-client-key-file", file(pki.key("front-proxy-client"))),
            ("service-account-issuer", "https://kubernetes.default.svc".to_owned()),
            ("service-account-key-file", file(pki.public("service-accounts"))),
            ("service-account-signing-key-file", file(pki.key("service-accounts"))),
            ("authorization-mode", "Node,RBAC".to_owned()),
            ("service-cluster-ip-range", "10.0.0.0/24".to_owned()),
            ("endpoint-reconciler-type", "none".to_owned()),
            ("disable-admission-plugins", "ServiceAccount".to_owned()),
            ("profiling", "false".to_owned()),
        ];
        let believed =
            self.authentication_config.clone().map(|config| ("authentication-config", file(config)));
        let audit = [
            ("audit-policy-file", file(self.file(AUDIT_POLICY))),
            ("audit-log-path", file(Self::audit_log(&self.layout, &self.name))),
        ];
        let audit = audit.into_iter().filter(|_| self.audited);
        let args =
            args.into_iter().chain(believed).chain(audit).map(|(key, value)| format!("--{key}={value}"));
        Ok(Spec::new(&self.process(), &layout::bin().join("kube-apiserver")).args(args))
    }

    /// Its controllers, which need the kube-apiserver.
    pub fn controllers(&self) -> Spec {
        let file = |path: PathBuf| path.to_string_lossy().into_owned();
        let args = [
            ("kubeconfig", file(self.file("controllers.kubeconfig"))),
            ("service-account-private-key-file", file(self.pki.key("service-accounts"))),
            ("root-ca-file", file(self.pki.cert("ca"))),
            ("cluster-signing-cert-file", file(self.pki.cert("ca"))),
            ("cluster-signing-key-file", file(self.pki.key("ca"))),
        ];
        let program = layout::bin().join("kube-controller-manager");
        let name = format!("kube-controller-manager-{}", self.name);
        Spec::new(&name, &program).args(args.iter().map(|(key, value)| format!("--{key}={value}")))
    }
}

fn operators() -> String {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "business:operators"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": OPERATORS}],
    })
    .to_string()
}

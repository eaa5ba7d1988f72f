//! Users for tests: any name and groups, at business-api and in the clusters.

use crate::kubeconfig::{Kubeconfig, token};
use crate::kubectl::Kubectl;
use crate::pki::{self, Pki};
use crate::platform::Instance;
use anyhow::{Context, Result};

impl Instance {
    /// kubectl of somebody of a tenant who is in some groups, directly at business-api.
    pub fn person(&self, name: &str, tenant: Option<&str>, groups: &[&str]) -> Result<Kubectl> {
        let api = self.apis.first().context("no replica")?;
        let ca = Pki::open(&self.layout.path("pki"))?.cert("serving-ca");
        let file = self.layout.path(&format!("home/{name}.kubeconfig"));
        let token = token(&self.issuer.token(name, tenant, groups)?);
        let server = format!("https://{}:{}", api.host, api.port);
        Kubeconfig::default().context(name, &server, &ca, &token)?.write(&file)?;
        Ok(self.kubectl.with_kubeconfig(&file))
    }

    /// kubectl in the cluster of a namespace, with the certificate that its holder is answered.
    pub fn entered_by(&self, person: &Kubectl, project: &str, namespace: &str) -> Result<Kubectl> {
        let text = person.run(&["get", "--raw", &certificate(project, namespace, "?format=kubeconfig")])?;
        let file = person.kubeconfig().with_extension(namespace);
        pki::secret(&file, &text)?;
        Ok(self.kubectl.with_kubeconfig(&file))
    }
}

/// Where business-api answers certificates for a namespace.
pub fn certificate(project: &str, namespace: &str, query: &str) -> String {
    format!("/apis/business.tkestack.io/v1/namespaces/{project}/namespaces/{namespace}/certificate{query}")
}

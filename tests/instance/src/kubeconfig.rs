//! Kubeconfig files with one or several contexts.

use crate::pki::{Pki, secret};
use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::path::Path;

/// A kubeconfig being put together; the first context is the current one.
#[derive(Debug, Default)]
pub struct Kubeconfig {
    clusters: Vec<Value>,
    users: Vec<Value>,
    contexts: Vec<Value>,
}

impl Kubeconfig {
    /// Adds a context `name` whose server has a certificate of the authority in `ca`.
    pub fn context(mut self, name: &str, server: &str, ca: &Path, user: &Value) -> Result<Self> {
        let ca = STANDARD.encode(std::fs::read(ca).with_context(|| format!("read {}", ca.display()))?);
        let cluster = json!({"server": server, "certificate-authority-data": ca});
        self.clusters.push(json!({"name": name, "cluster": cluster}));
        self.users.push(json!({"name": name, "user": user}));
        self.contexts.push(json!({"name": name, "context": {"cluster": name, "user": name}}));
        Ok(self)
    }

    /// Adds a context taken from the current one of another kubeconfig, with another user.
    pub fn context_like(mut self, name: &str, other: &Value, user: &Value) -> Result<Self> {
        let cluster = current_cluster(other).context("the kubeconfig has no current context")?;
        self.clusters.push(json!({"name": name, "cluster": cluster}));
        self.users.push(json!({"name": name, "user": user}));
        self.contexts.push(json!({"name": name, "context": {"cluster": name, "user": name}}));
        Ok(self)
    }

    /// Adds a context `name` whose server speaks plain HTTP.
    #[must_use]
    pub fn plain_context(mut self, name: &str, server: &str, user: &Value) -> Self {
        self.clusters.push(json!({"name": name, "cluster": {"server": server}}));
        self.users.push(json!({"name": name, "user": user}));
        self.contexts.push(json!({"name": name, "context": {"cluster": name, "user": name}}));
        self
    }

    pub fn write(self, path: &Path) -> Result<()> {
        let current = self.contexts.first().and_then(|context| context.get("name")).cloned();
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": self.clusters,
            "users": self.users,
            "contexts": self.contexts,
            "current-context": current,
        });
        secret(path, &serde_yaml_ng::to_string(&config)?)
    }
}

/// The user of a context: a client certificate.
pub fn certificate(pki: &Pki, name: &str) -> Result<Value> {
    Ok(json!({
        "client-certificate-data": STANDARD.encode(std::fs::read(pki.cert(name))?),
        "client-key-data": STANDARD.encode(std::fs::read(pki.key(name))?),
    }))
}

/// The user of a context: a bearer token.
pub fn token(token: &str) -> Value {
    json!({"token": token})
}

/// The user of a context: whoever a program has logged in.
pub fn credential_plugin(program: &Path, args: &[String]) -> Value {
    json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": program,
        "args": args,
        "interactiveMode": "Never",
    }})
}

/// The `cluster` part of the current context, its files read into it.
fn current_cluster(config: &Value) -> Option<Value> {
    let named = |list: &str, name: &str| {
        let found =
            config.get(list)?.as_array()?.iter().find(|entry| entry.get("name") == Some(&name.into()));
        found.cloned()
    };
    let context = named("contexts", config.get("current-context")?.as_str()?)?;
    let cluster = context.get("context")?.get("cluster")?.as_str()?.to_owned();
    named("clusters", &cluster)?.get("cluster").cloned()
}

/// The address of the current context's server.
pub fn server(config: &Value) -> Option<String> {
    Some(current_cluster(config)?.get("server")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_of_the_current_context_is_found() {
        let config = json!({
            "current-context": "b",
            "contexts": [{"name": "b", "context": {"cluster": "two", "user": "u"}}],
            "clusters": [
                {"name": "one", "cluster": {"server": "https://one"}},
                {"name": "two", "cluster": {"server": "https://two"}},
            ],
        });
        assert_eq!(server(&config).as_deref(), Some("https://two"));
    }
}

use anyhow::{Context, Result, ensure};
use instance::Instance;
use serde_json::{Value, json};
use std::path::PathBuf;

/// What lists the clusters for the controller.
pub(super) struct Directory {
    file: PathBuf,
    whole: String,
}

impl Directory {
    pub(super) fn of(instance: &Instance) -> Result<Self> {
        let file = instance.members_kubeconfig();
        let whole = std::fs::read_to_string(&file)?;
        Ok(Self { file, whole })
    }

    pub(super) fn strike_out(&self, cluster: &str) -> Result<()> {
        self.change(|config| {
            let contexts = config.get_mut("contexts").and_then(Value::as_array_mut).context("no contexts")?;
            let before = contexts.len();
            contexts.retain(|context| context.get("name") != Some(&json!(cluster)));
            ensure!(contexts.len() + 1 == before, "{cluster} is not listed");
            Ok(())
        })
    }

    /// The cluster is entered by this token.
    pub(super) fn enter_by(&self, token: &str, cluster: &str) -> Result<()> {
        self.change(|config| enter_by(config, token, cluster))
    }

    /// The cluster is reached through this proxy, and entered by this token.
    pub(super) fn enter_through(&self, proxy: &str, token: &str, cluster: &str) -> Result<()> {
        self.change(|config| {
            reach_by(config, proxy, cluster)?;
            enter_by(config, token, cluster)
        })
    }

    pub(super) fn put_back(&self) -> Result<()> {
        self.write(&self.whole)
    }

    /// At once: nobody reads half of it.
    fn write(&self, text: &str) -> Result<()> {
        let beside = self.file.with_extension("new");
        std::fs::write(&beside, text)?;
        Ok(std::fs::rename(beside, &self.file)?)
    }

    /// From the whole, whatever was changed before.
    fn change(&self, change: impl FnOnce(&mut Value) -> Result<()>) -> Result<()> {
        let mut config: Value = serde_yaml_ng::from_str(&self.whole)?;
        change(&mut config)?;
        self.write(&serde_yaml_ng::to_string(&config)?)
    }
}

fn reach_by(config: &mut Value, proxy: &str, cluster: &str) -> Result<()> {
    let named = |list: &str, name: &str| {
        let all = config.get(list).and_then(Value::as_array).context("not a kubeconfig")?;
        all.iter().position(|one| one.get("name") == Some(&json!(name))).context("not listed")
    };
    let context = named("contexts", cluster)?;
    let of = config.pointer(&format!("/contexts/{context}/context/cluster")).and_then(Value::as_str);
    let index = named("clusters", of.context("no cluster")?)?;
    let found = config.pointer_mut(&format!("/clusters/{index}/cluster")).and_then(Value::as_object_mut);
    found.context("no cluster")?.insert("proxy-url".to_owned(), json!(proxy));
    Ok(())
}

fn enter_by(config: &mut Value, token: &str, cluster: &str) -> Result<()> {
    let array = |config: &mut Value, list: &str| {
        config.get_mut(list).and_then(Value::as_array_mut).map(std::mem::take).context("not a kubeconfig")
    };
    let (mut contexts, mut users) = (array(config, "contexts")?, array(config, "users")?);
    let context = contexts.iter_mut().find(|one| one.get("name") == Some(&json!(cluster)));
    let user = context.and_then(|one| one.pointer_mut("/context/user")).context("not listed")?;
    *user = json!("by-token");
    users.push(json!({"name": "by-token", "user": {"token": token}}));
    (config["contexts"], config["users"]) = (json!(contexts), json!(users));
    Ok(())
}

//! Restores the instance after a step that failed, so that later steps find what they would find after a
//! success. A step that succeeds restores everything itself: that is part of what it tests.

use anyhow::{Context, Result};
use instance::identity::{OPERATORS, Provider};
use instance::supervisor::Spec;
use instance::wait::{self, Progress};
use instance::{Instance, manifests, platform, programs};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Every object of the platform belongs to one of these, and is deleted with it.
const KINDS: &str = "projects.business.tkestack.io,tenants.business.tkestack.io,\
                     namespacetemplates.business.tkestack.io,platforms.business.tkestack.io,\
                     configmaps.business.tkestack.io";
const RESTORED: Duration = Duration::from_mins(4);

/// An object of the platform, or a namespace of a member cluster, as `kubectl get -o name` prints it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    /// The cluster of a namespace.
    cluster: Option<String>,
    name: String,
}

/// The state before the first step.
pub(super) struct Baseline {
    processes: Vec<Spec>,
    /// Files that steps rewrite, and their contents.
    files: Vec<(PathBuf, String)>,
    /// The spec of each `MemberCluster`.
    clusters: Vec<(String, Value)>,
    names: BTreeSet<Name>,
}

impl Baseline {
    pub(super) fn of(instance: &Instance) -> Result<Self> {
        let mut files = vec![instance.members_kubeconfig()];
        files.extend(instance.provider.as_ref().map(Provider::authentication_config));
        let files = files.into_iter().map(|file| {
            let text = std::fs::read_to_string(&file)?;
            Ok((file, text))
        });
        let clusters = instance.clusters.iter().map(|name| {
            let object = instance.kubectl.json(&["get", "membercluster", name])?;
            Ok((name.clone(), object.get("spec").cloned().context("no spec")?))
        });
        Ok(Self {
            processes: instance.supervisor.specs(),
            files: files.collect::<Result<_>>()?,
            clusters: clusters.collect::<Result<_>>()?,
            names: existing(instance)?,
        })
    }

    /// Restores processes, files and clusters, and deletes what the step has made. Something that cannot be deleted in
    /// time is reported once and then kept.
    pub(super) fn restore(&mut self, instance: &Instance) -> Result<()> {
        instance.supervisor.restore(&self.processes)?;
        for (file, text) in &self.files {
            restore_file(file, text)?;
        }
        for api in &instance.apis {
            api.wait(&instance.supervisor)?;
        }
        platform::apiservice_available(&instance.kubectl)?;
        for (name, port) in &instance.controller_admin_ports {
            programs::ready(&instance.supervisor, name, *port)?;
        }
        wait::until("the clusters are as before", RESTORED, || {
            Ok(match self.restore_clusters(instance) {
                Ok(()) => Progress::Done(()),
                Err(error) => Progress::Pending(format!("{error:#}")),
            })
        })?;
        let mut left = BTreeSet::new();
        let deleted = wait::until("what the step has made is gone", RESTORED, || {
            let now = match existing(instance) {
                Ok(now) => now,
                Err(error) => return Ok(Progress::Pending(format!("{error:#}"))),
            };
            left = now.difference(&self.names).cloned().collect();
            if left.is_empty() {
                return Ok(Progress::Done(()));
            }
            delete(instance, &left)?;
            Ok(Progress::Pending(format!("{left:?}")))
        });
        self.names.append(&mut left);
        deleted
    }

    /// Restores the `MemberCluster`s, and in the clusters what the controller needs and what no namespace holds.
    fn restore_clusters(&self, instance: &Instance) -> Result<()> {
        let k = &instance.kubectl;
        for (name, spec) in &self.clusters {
            let object = k.json(&["get", "membercluster", name])?;
            if object.get("spec") != Some(spec) {
                let patch = json!([{"op": "replace", "path": "/spec", "value": spec}]).to_string();
                k.run(&["patch", "membercluster", name, "--type=json", "-p", &patch])?;
            }
            let credentials = format!("cluster-{name}");
            k.run(&["delete", "secret", &credentials, "-n", "tke-business-members", "--ignore-not-found"])?;
            let member = instance.break_glass(name);
            manifests::apply_member(&member)?;
            let tunnel = ["delete", "deployment,secret", "business-tunnel", "-n", "tke-business"];
            member.run(&[&tunnel[..], &["--ignore-not-found"]].concat())?;
            member.run(&["delete", "nodes", "--all"])?;
            member.run(&["delete", "pods", "--all", "-n", "default", "--force", "--grace-period=0"])?;
        }
        k.run(&["delete", "clusterrolebinding", OPERATORS, "--ignore-not-found"]).map(drop)
    }
}

fn restore_file(file: &Path, text: &str) -> Result<()> {
    if std::fs::read_to_string(file)? == text {
        return Ok(());
    }
    let restored = file.with_extension("restored");
    std::fs::write(&restored, text)?;
    Ok(std::fs::rename(restored, file)?)
}

fn existing(instance: &Instance) -> Result<BTreeSet<Name>> {
    let objects = instance.kubectl.run(&["get", KINDS, "-o", "name"])?;
    let mut names: BTreeSet<Name> =
        objects.lines().map(|name| Name { cluster: None, name: name.to_owned() }).collect();
    for cluster in &instance.clusters {
        let namespaces = instance.member(cluster).run(&["get", "namespaces", "-o", "name"])?;
        let named = |name: &str| Name { cluster: Some(cluster.clone()), name: name.to_owned() };
        names.extend(namespaces.lines().map(named));
    }
    Ok(names)
}

/// Asks once for the deletion. Some are refused until others are gone, so that the caller asks again.
fn delete(instance: &Instance, left: &BTreeSet<Name>) -> Result<()> {
    // Otherwise they wait until the last token for the registry has expired.
    let abandon = ["annotate", "imn,rcg", "--all", "-A", "--overwrite"];
    let reason = ["business.tkestack.io/abandon=acceptance"];
    instance.kubectl.output(&[&abandon[..], &reason].concat(), None)?;
    let of = |cluster: Option<&str>| -> Vec<&str> {
        left.iter().filter(|one| one.cluster.as_deref() == cluster).map(|one| one.name.as_str()).collect()
    };
    let members = instance.clusters.iter().map(|name| (instance.break_glass(name), of(Some(name.as_str()))));
    let all = std::iter::once((instance.kubectl.clone(), of(None))).chain(members);
    for (kubectl, names) in all.filter(|(_, names)| !names.is_empty()) {
        let delete = ["delete", "--wait=false", "--ignore-not-found"];
        kubectl.output(&[&delete[..], names.as_slice()].concat(), None)?;
    }
    Ok(())
}

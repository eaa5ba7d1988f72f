//! Reads the audit logs of all clusters while they are written.

use super::tenures::{MemberWrite, Tenure, tenures};
use anyhow::{Context, Result};
use instance::Instance;
use instance::fleet::Fleet;
use meta::time::parse_micro;
use simulated::audit::{Event, MADE_AT, Tail};
use std::collections::BTreeMap;

/// Where kube-apiserver says which token somebody came with.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// What was written to every cluster.
#[derive(Debug)]
pub(crate) struct AuditLogs {
    tails: Vec<(String, Tail)>,
    /// Controllers by their credentials in real clusters.
    credentials: BTreeMap<String, String>,
    writes: BTreeMap<String, Vec<MemberWrite>>,
}

impl AuditLogs {
    pub(crate) fn open(instance: &Instance, fleet: &Fleet) -> Result<Self> {
        let clusters: Vec<&String> = instance.clusters.iter().chain(&fleet.clusters).collect();
        let tail = |name: &&String| ((*name).clone(), Tail::new(fleet.audit_log(name)));
        let mut credentials = BTreeMap::new();
        for (controller, _) in &instance.controller_admin_ports {
            credentials.extend(fleet.credentials(controller)?);
        }
        Ok(Self { tails: clusters.iter().map(tail).collect(), credentials, writes: BTreeMap::new() })
    }

    /// Reads what is new.
    pub(crate) fn read_on(&mut self) -> Result<()> {
        for (cluster, tail) in &mut self.tails {
            let news = tail.new_events()?;
            let writes = self.writes.entry(cluster.clone()).or_default();
            for event in news {
                writes.push(read(&event, &self.credentials).with_context(|| format!("{event:?}"))?);
            }
        }
        Ok(())
    }

    /// By cluster.
    pub(crate) fn writes(&self) -> &BTreeMap<String, Vec<MemberWrite>> {
        &self.writes
    }

    /// Who wrote to each cluster last.
    pub(crate) fn owners(&self) -> BTreeMap<String, String> {
        let owner = |(cluster, writes): (&String, &Vec<MemberWrite>)| {
            let last = tenures(writes).pop()?;
            Some((cluster.clone(), last.writer().to_owned()))
        };
        self.writes.iter().filter_map(owner).collect()
    }

    /// The tenures of a cluster.
    pub(crate) fn tenures(&self, cluster: &str) -> Vec<Tenure<'_>> {
        self.writes.get(cluster).map(|writes| tenures(writes)).unwrap_or_default()
    }
}

fn read(event: &Event, credentials: &BTreeMap<String, String>) -> Option<MemberWrite> {
    let known = event.user.extra.get(CREDENTIAL).and_then(|ids| credentials.get(ids.first()?));
    let about = event.object_ref.as_ref()?;
    let code = event.response_status.as_ref()?.code;
    let made_at = event.annotations.get(MADE_AT);
    Some(MemberWrite {
        writer: known.unwrap_or(&event.user.username).clone(),
        what: format!("{} {} {}/{}", event.verb, about.resource, about.namespace, about.name),
        begun: parse_micro(&event.request_received_timestamp).ok()?,
        ended: parse_micro(&event.stage_timestamp).ok()?,
        code,
        made: made_at.is_some() || (200..300).contains(&code),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tenures::{Takeover, judge};
    use super::*;

    const LEASE: &str = "business-controller-00";

    /// As kube-apiserver writes it, for a token of each of two controllers.
    const REAL: &str = r#"
{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"1","stage":"ResponseComplete","requestURI":"/api/v1/namespaces?timeout=4s","verb":"create","user":{"username":"system:serviceaccount:tke-business:business-member","uid":"u","groups":["system:serviceaccounts"],"extra":{"authentication.kubernetes.io/credential-id":["JTI=one"]}},"sourceIPs":["127.0.0.1"],"userAgent":"kube","objectRef":{"resource":"namespaces","name":"web","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":201},"requestReceivedTimestamp":"2026-01-01T00:00:00.000000Z","stageTimestamp":"2026-01-01T00:00:00.010000Z","annotations":{"authorization.k8s.io/decision":"allow"}}
{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"2","stage":"ResponseComplete","verb":"patch","user":{"username":"system:serviceaccount:tke-business:business-member","extra":{"authentication.kubernetes.io/credential-id":["JTI=two"]}},"objectRef":{"resource":"resourcequotas","namespace":"web","name":"web","apiVersion":"v1"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-01T00:00:20.000000Z","stageTimestamp":"2026-01-01T00:00:20.010000Z"}
{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"3","stage":"ResponseComplete","verb":"patch","user":{"username":"system:serviceaccount:tke-business:business-member","extra":{"authentication.kubernetes.io/credential-id":["JTI=one"]}},"objectRef":{"resource":"resourcequotas","namespace":"web","name":"web","apiVersion":"v1"},"responseStatus":{"code":409},"requestReceivedTimestamp":"2026-01-01T00:00:21.000000Z","stageTimestamp":"2026-01-01T00:00:21.010000Z"}
"#;

    /// As a simulated cluster writes it: a write that the former holder sent in time is made when the next one is at work.
    const SIMULATED: &str = r#"
{"auditID":"0","stage":"ResponseComplete","verb":"patch","user":{"username":"one"},"objectRef":{"resource":"namespaces","name":"web"},"responseStatus":{"code":504},"requestReceivedTimestamp":"2026-01-01T00:00:04.000000Z","stageTimestamp":"2026-01-01T00:00:21.000000Z","annotations":{"simulated/made-at":"2026-01-01T00:00:20.500000Z"}}
{"auditID":"1","stage":"ResponseComplete","verb":"patch","user":{"username":"two"},"objectRef":{"resource":"namespaces","name":"web"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-01T00:00:20.000000Z","stageTimestamp":"2026-01-01T00:00:20.010000Z"}
"#;

    fn writes(lines: &str) -> Vec<MemberWrite> {
        let credentials =
            [("JTI=one", "one"), ("JTI=two", "two")].map(|(id, name)| (id.to_owned(), name.to_owned()));
        let events = lines.trim().lines().map(|line| serde_json::from_str(line).unwrap());
        events.map(|event| read(&event, &credentials.clone().into()).unwrap()).collect()
    }

    fn takeovers() -> [Takeover; 2] {
        [("one", "2025-12-31T00:00:00.000000Z"), ("two", "2026-01-01T00:00:19.000000Z")].map(
            |(writer, at)| Takeover {
                lease: LEASE.to_owned(),
                writer: writer.to_owned(),
                at: parse_micro(at).unwrap(),
            },
        )
    }

    #[test]
    fn what_kube_apiserver_has_refused_to_a_former_holder_is_no_write_of_his() {
        let writes = writes(REAL);
        assert_eq!(judge(&writes, LEASE, &takeovers()), Vec::<String>::new());
        let mut accepted = writes;
        accepted[2].made = true;
        let problems = judge(&accepted, LEASE, &takeovers());
        assert_eq!(problems, ["patch resourcequotas web/web of one: it did not hold business-controller-00"]);
    }

    #[test]
    fn a_late_write_that_overlaps_is_found_although_its_writer_was_told_nothing() {
        let problems = judge(&writes(SIMULATED), LEASE, &takeovers());
        assert_eq!(
            problems,
            [
                "patch namespaces /web of one ended 1000 ms after patch namespaces /web of two had begun",
                "patch namespaces /web of one: it did not hold business-controller-00",
            ]
        );
    }
}

use crate::{Outcome, ensure, outcome};
use business_api::import::candidate::ConvertSettings;
use business_api::import::plan::{Plan, plan};
use business_api::import::record::SourceRecord;
use business_api::kinds::KINDS;
use business_types::account::PROJECT;
use meta::object::Object;
use store::import::ExistingObject;

const PREFIX: &str = "/tke/business";

/// Whatever a dump holds: what is planned can be stored and read back, scopes come before what pays them, and what was
/// imported is not imported again.
pub(super) fn dump(input: &[u8]) -> Result<Outcome, String> {
    let first = planned(input, &[]);
    let mut present = Vec::new();
    let mut scopes = std::collections::BTreeSet::new();
    for object in &first.objects {
        let body = &object.state.body;
        let read = Object::from_stored(body.as_bytes(), 7).map_err(|error| format!("{body}: {error}"))?;
        ensure(*read.name() == *object.key.name, || format!("{body} has another name"))?;
        // A tenant's scope is there without an object.
        if let Some(scope) = object.state.account.pays.as_ref().filter(|scope| scope.kind == PROJECT) {
            ensure(scopes.contains(scope), || format!("{scope} is paid before it is there"))?;
        }
        scopes.extend(object.state.account.grants.as_ref().map(|grants| grants.scope.clone()));
        present.push(ExistingObject { key: object.key.clone(), uid: object.uid, body: body.clone() });
    }
    let again = planned(input, &present);
    ensure(again.objects.is_empty() && again.others == 0, || "a second import would write".to_owned())?;
    let findings = first.findings.iter().map(|finding| format!("{:?}", finding.rule));
    Ok(outcome((first.objects.len().min(8), findings.collect::<std::collections::BTreeSet<_>>())))
}

fn planned(input: &[u8], present: &[ExistingObject]) -> Plan {
    let settings = ConvertSettings { forbidden: vec!["kube-*".to_owned()] };
    let lines = input.split(|byte| *byte == b'\n').zip(1..).filter(|(line, _)| !line.trim_ascii().is_empty());
    let records = lines.map(|(line, number)| SourceRecord::of_line(line, number, PREFIX));
    plan(KINDS, &settings, records, present, &[])
}

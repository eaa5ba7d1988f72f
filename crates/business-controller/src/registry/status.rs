//! Computes the status of an image namespace or chart group (pure), and writes it if it differs.

use super::backend::Measured;
use super::content::HasContent;
use super::kind::{Registered, RegisteredView};
use crate::context::Context;
use crate::error::Error;
use crate::status::write_status;
use business_types::condition::{
    self, FALSE, PROVISIONED, READY, REGISTRY_REACHABLE, TERMINATING, TRUE, UNKNOWN, WITHIN_QUOTA, reason,
};
use business_types::registry::{RegistryBackend, RegistryKind, RegistryRecord, STORAGE, UNTAGGED_MAX};
use business_types::{Condition, RegistryPhase, RegistryStatus};
use meta::quantity::{Format, NANOS_PER_UNIT, Quantity};

/// What a pass has observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryObservation {
    NoRegistry,
    Unreachable(String),
    /// The object cannot have the place.
    Refused(String),
    /// The object has just got the place.
    Provided {
        record: RegistryRecord,
        /// Whether the object was imported as locked.
        came_locked: bool,
    },
    Present {
        record: RegistryRecord,
        locked: bool,
        measured: Measurement,
        /// The mark of the last change that the registry had reported before the measurement.
        mark: Option<String>,
    },
}

/// The measurement of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measurement {
    NotDue,
    /// The registry does not tell sizes.
    Unsupported,
    /// The content cannot be measured, and why.
    Unmeasurable(String),
    Measured(Measured),
}

/// The next status, from an observation of this object or an earlier version of it. `now` is RFC 3339.
pub fn next<K: RegistryKind>(
    object: &RegisteredView<K>,
    observation: RegistryObservation,
    now: &str,
) -> RegistryStatus {
    let mut status = object.status.clone();
    let generation = object.generation;
    let is_seen =
        !matches!(observation, RegistryObservation::NoRegistry | RegistryObservation::Unreachable(_));
    // One without a generation was imported. It keeps its claim to what the registry has until that was looked at.
    if is_seen || status.observed_generation.is_some() {
        status.observed_generation = Some(generation);
    }
    let writer = StatusWriter { generation, now };
    let unmeasurable = unmeasurable(&status, &observation);
    match observation {
        RegistryObservation::NoRegistry => {
            writer.set_condition(
                &mut status,
                READY,
                FALSE,
                reason::NO_REGISTRY,
                "the controller has no registry",
            );
        }
        RegistryObservation::Unreachable(why) => {
            writer.set_condition(&mut status, REGISTRY_REACHABLE, FALSE, reason::UNREACHABLE, &why);
            writer.set_condition(&mut status, READY, UNKNOWN, reason::UNREACHABLE, "");
        }
        RegistryObservation::Refused(why) => {
            writer.set_condition(&mut status, REGISTRY_REACHABLE, TRUE, reason::REACHABLE, "");
            writer.set_condition(&mut status, PROVISIONED, FALSE, reason::REGISTRY_CONFLICT, &why);
            writer.set_condition(&mut status, READY, FALSE, reason::REGISTRY_CONFLICT, &why);
            writer.set_phase(&mut status, RegistryPhase::Failed, Some((reason::REGISTRY_CONFLICT, &why)));
        }
        RegistryObservation::Provided { record, came_locked } => {
            // TKE's registry keeps locks itself.
            if came_locked && record.backend == RegistryBackend::Oci {
                status.locked = Some(true);
            }
            let locked = came_locked && record.backend == RegistryBackend::Tke;
            writer.set_present(&mut status, record, locked);
        }
        RegistryObservation::Present { record, locked, measured, mark } => {
            if matches!(measured, Measurement::Measured(_) | Measurement::Unsupported) {
                status.measured_change = mark;
            }
            if let Measurement::Measured(Measured { bytes, untagged }) = measured {
                status.used.insert(STORAGE.to_owned(), quantity(bytes));
                status.untagged = untagged.iter().take(UNTAGGED_MAX).map(ToString::to_string).collect();
            }
            writer.set_present(&mut status, record, locked);
        }
    }
    if status.registry.is_some() {
        let (is, why, message) = match unmeasurable {
            Some(message) => (UNKNOWN, reason::CANNOT_BE_MEASURED, message),
            None => within_quota(object.spec.storage(), status.used.get(STORAGE).copied()),
        };
        writer.set_condition(&mut status, WITHIN_QUOTA, is, why, &message);
    }
    status
}

/// Why the content cannot be measured, until it was measured.
fn unmeasurable(status: &RegistryStatus, observation: &RegistryObservation) -> Option<String> {
    match observation {
        RegistryObservation::Present { measured: Measurement::Unmeasurable(why), .. } => Some(why.clone()),
        RegistryObservation::Present {
            measured: Measurement::Measured(_) | Measurement::Unsupported,
            ..
        } => None,
        _ => status.unmeasurable_reason().map(str::to_owned),
    }
}

/// Writes conditions and the phase into a status.
#[derive(Clone, Copy)]
struct StatusWriter<'a> {
    generation: i64,
    now: &'a str,
}

impl StatusWriter<'_> {
    fn set_condition(self, status: &mut RegistryStatus, type_: &str, is: &str, why: &str, message: &str) {
        let condition = Condition::new(type_, is, why, message).at(self.generation);
        condition::set(&mut status.conditions, condition, self.now);
    }

    /// The object has the place.
    fn set_present(self, status: &mut RegistryStatus, record: RegistryRecord, locked: bool) {
        status.registry = Some(record);
        self.set_condition(status, REGISTRY_REACHABLE, TRUE, reason::REACHABLE, "");
        self.set_condition(status, PROVISIONED, TRUE, reason::PROVISIONED, "");
        self.set_condition(status, READY, TRUE, reason::READY, "");
        let (phase, why) = if status.is_locked() {
            (RegistryPhase::Locked, Some((reason::LOCKED, "locked by an operator")))
        } else if locked {
            (RegistryPhase::Locked, Some((reason::LOCKED_IN_REGISTRY, "locked in the registry")))
        } else {
            (RegistryPhase::Available, None)
        };
        self.set_phase(status, phase, why);
    }

    fn set_phase(self, status: &mut RegistryStatus, phase: RegistryPhase, why: Option<(&str, &str)>) {
        if status.phase != phase {
            status.phase = phase;
            status.last_transition_time = Some(self.now.to_owned());
        }
        let (reason, message) = why.unwrap_or_default();
        reason.clone_into(&mut status.reason);
        message.clone_into(&mut status.message);
    }
}

/// The condition for the used storage: value, reason and message.
fn within_quota(hard: Option<Quantity>, used: Option<Quantity>) -> (&'static str, &'static str, String) {
    match (hard, used) {
        (Some(hard), Some(used)) if used > hard => {
            let message =
                format!("{used} bytes are kept, of {hard} that may be: nothing can be pushed until less is");
            (FALSE, reason::USED_ABOVE_HARD, message)
        }
        (Some(hard), Some(used)) if used == hard => {
            (TRUE, reason::USED_UP, "as much is kept as may be: nothing can be pushed".to_owned())
        }
        (Some(_), None) => (UNKNOWN, reason::NOT_MEASURED, String::new()),
        (Some(_), Some(_)) | (None, _) => (TRUE, reason::WITHIN_QUOTA, String::new()),
    }
}

fn quantity(bytes: u64) -> Quantity {
    Quantity::from_nanos(i128::from(bytes).saturating_mul(NANOS_PER_UNIT), Format::BinarySi)
}

/// The status of an object that is being deleted, with the reason why it still exists.
pub fn deleting_status<K: RegistryKind>(
    object: &RegisteredView<K>,
    why: &str,
    message: &str,
    now: &str,
) -> RegistryStatus {
    let mut status = object.status.clone();
    status.observed_generation = Some(object.generation);
    why.clone_into(&mut status.reason);
    message.clone_into(&mut status.message);
    let at = |condition: Condition| condition.at(object.generation);
    condition::set(&mut status.conditions, at(Condition::new(TERMINATING, TRUE, why, message)), now);
    condition::set(&mut status.conditions, at(Condition::new(READY, FALSE, reason::DELETING, "")), now);
    status
}

/// Writes the status if it differs. Returns the object as it is after the write.
pub async fn write<K: RegistryKind>(
    cx: &Context,
    object: &RegisteredView<K>,
    next: &RegistryStatus,
) -> Result<Option<RegisteredView<K>>, Error>
where
    Registered<K>: HasContent,
{
    write_status(cx, object, &object.status, next).await
}

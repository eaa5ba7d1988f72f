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
    let unmeasurable = unmeasurable(&object.status, &observation);
    let mut builder = StatusBuilder { status: object.status.clone(), generation: object.generation, now };
    let is_seen =
        !matches!(observation, RegistryObservation::NoRegistry | RegistryObservation::Unreachable(_));
    // One without a generation was imported. It keeps its claim to what the registry has until that was looked at.
    if is_seen || builder.status.observed_generation.is_some() {
        builder.status.observed_generation = Some(object.generation);
    }
    match observation {
        RegistryObservation::NoRegistry => {
            builder.set(READY, FALSE, reason::NO_REGISTRY, "the controller has no registry");
        }
        RegistryObservation::Unreachable(why) => {
            builder.set(REGISTRY_REACHABLE, FALSE, reason::UNREACHABLE, &why);
            builder.set(READY, UNKNOWN, reason::UNREACHABLE, "");
        }
        RegistryObservation::Refused(why) => {
            builder.set(REGISTRY_REACHABLE, TRUE, reason::REACHABLE, "");
            builder.set(PROVISIONED, FALSE, reason::REGISTRY_CONFLICT, &why);
            builder.set(READY, FALSE, reason::REGISTRY_CONFLICT, &why);
            builder.move_to(RegistryPhase::Failed, reason::REGISTRY_CONFLICT, &why);
        }
        RegistryObservation::Provided { record, came_locked } => {
            // TKE's registry keeps locks itself.
            if came_locked && record.backend == RegistryBackend::Oci {
                builder.status.locked = Some(true);
            }
            let locked = came_locked && record.backend == RegistryBackend::Tke;
            builder.present(record, locked);
        }
        RegistryObservation::Present { record, locked, measured, mark } => {
            if matches!(measured, Measurement::Measured(_) | Measurement::Unsupported) {
                builder.status.measured_change = mark;
            }
            if let Measurement::Measured(Measured { bytes, untagged }) = measured {
                builder.status.used.insert(STORAGE.to_owned(), quantity(bytes));
                let untagged = untagged.iter().take(UNTAGGED_MAX);
                builder.status.untagged = untagged.map(ToString::to_string).collect();
            }
            builder.present(record, locked);
        }
    }
    if builder.status.registry.is_some() {
        let within = match unmeasurable {
            Some(why) => Condition::new(WITHIN_QUOTA, UNKNOWN, reason::CANNOT_BE_MEASURED, why),
            None => within_quota(object.spec.storage(), builder.status.used.get(STORAGE).copied()),
        };
        builder.set_condition(within);
    }
    builder.status
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

struct StatusBuilder<'a> {
    status: RegistryStatus,
    generation: i64,
    now: &'a str,
}

impl StatusBuilder<'_> {
    fn set(&mut self, type_: &str, value: &str, why: &str, message: &str) {
        self.set_condition(Condition::new(type_, value, why, message));
    }

    fn set_condition(&mut self, condition: Condition) {
        condition::set(&mut self.status.conditions, condition.at(self.generation), self.now);
    }

    /// The object has the place. `locked` says whether it is locked in the registry itself.
    fn present(&mut self, record: RegistryRecord, locked: bool) {
        self.status.registry = Some(record);
        self.set(REGISTRY_REACHABLE, TRUE, reason::REACHABLE, "");
        self.set(PROVISIONED, TRUE, reason::PROVISIONED, "");
        self.set(READY, TRUE, reason::READY, "");
        if self.status.is_locked() {
            self.move_to(RegistryPhase::Locked, reason::LOCKED, "locked by an operator");
        } else if locked {
            self.move_to(RegistryPhase::Locked, reason::LOCKED_IN_REGISTRY, "locked in the registry");
        } else {
            self.move_to(RegistryPhase::Available, "", "");
        }
    }

    fn move_to(&mut self, phase: RegistryPhase, why: &str, message: &str) {
        if self.status.phase != phase {
            self.status.phase = phase;
            self.status.last_transition_time = Some(self.now.to_owned());
        }
        why.clone_into(&mut self.status.reason);
        message.clone_into(&mut self.status.message);
    }
}

/// The condition for the used storage.
fn within_quota(hard: Option<Quantity>, used: Option<Quantity>) -> Condition {
    let within = |value, why, message: String| Condition::new(WITHIN_QUOTA, value, why, message);
    match (hard, used) {
        (Some(hard), Some(used)) if used > hard => {
            let message =
                format!("{used} bytes are kept, of {hard} that may be: nothing can be pushed until less is");
            within(FALSE, reason::USED_ABOVE_HARD, message)
        }
        (Some(hard), Some(used)) if used == hard => {
            let message = "as much is kept as may be: nothing can be pushed";
            within(TRUE, reason::USED_UP, message.to_owned())
        }
        (Some(_), None) => within(UNKNOWN, reason::NOT_MEASURED, String::new()),
        (Some(_), Some(_)) | (None, _) => within(TRUE, reason::WITHIN_QUOTA, String::new()),
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

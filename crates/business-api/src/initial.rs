use crate::kind_ids::PLATFORM;
use anyhow::{Result, ensure};
use business_types::names::{API_VERSION, PLATFORM_DEFAULT, PLATFORM_KIND};
use business_types::{ChargedPlatform, PlatformSpec, account, platform};
use meta::object::Object;
use runtime::{Backoff, Clock};
use serde_json::json;
use std::time::Duration;
use store::model::{Change, Growth, NewState, Write};
use store::{Access, Error, Key, Store};
use uuid::Uuid;

const RETRY_FLOOR: Duration = Duration::from_millis(200);
const RETRY_CEILING: Duration = Duration::from_secs(5);

/// The Platform that names the first administrator.
#[derive(Clone, Debug)]
pub struct InitialPlatform {
    spec: PlatformSpec,
}

impl InitialPlatform {
    /// Fails for a spec that the API would refuse, too.
    pub fn new(spec: PlatformSpec) -> Result<Self> {
        let errors = platform::platform(&spec);
        ensure!(
            errors.is_empty(),
            "--initial-administrator-tenant, --initial-administrator-user: {errors:?}"
        );
        Ok(Self { spec })
    }

    /// Creates the Platform as soon as the database answers. An object of this name stays as it is, so that one of
    /// several replicas creates it.
    pub async fn create(self, store: Store, clock: Clock) {
        let access = Access::internal(PLATFORM_DEFAULT);
        let mut backoff = Backoff::new(RETRY_FLOOR, RETRY_CEILING);
        loop {
            let created = match self.write(&clock) {
                Ok(write) => store.write(&access, write).await,
                Err(error) => Err(Error::Corrupt(format!("{PLATFORM_DEFAULT}: {error}"))),
            };
            match created {
                Ok(revision) => tracing::info!(%revision, "made {PLATFORM_DEFAULT}"),
                Err(Error::AlreadyExists { .. }) => tracing::debug!("{PLATFORM_DEFAULT} is there"),
                Err(error) => {
                    tracing::warn!(%error, "{PLATFORM_DEFAULT} cannot be made yet");
                    backoff.wait().await;
                    continue;
                }
            }
            // A task that ends would end the program.
            return std::future::pending().await;
        }
    }

    fn write(&self, clock: &Clock) -> Result<Write, serde_json::Error> {
        let uid = Uuid::new_v4();
        let created = meta::time::rfc3339(clock.unix_seconds());
        let metadata =
            json!({"name": PLATFORM_DEFAULT, "uid": uid, "creationTimestamp": created, "generation": 1});
        let mut object = Object::default();
        object.set(&["apiVersion"], json!(API_VERSION));
        object.set(&["kind"], json!(PLATFORM_KIND));
        object.set(&["metadata"], metadata);
        object.set(&["spec"], serde_json::to_value(&self.spec)?);
        let state = NewState { account: account::of::<ChargedPlatform>(&object)?, body: object.to_stored() };
        let key = Key::new(PLATFORM, "", PLATFORM_DEFAULT);
        Ok(Write { key, uid, change: Change::Create(state), growth: Growth::Free, hold: None })
    }
}

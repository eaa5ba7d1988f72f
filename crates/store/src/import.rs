//! The import of objects from another system. They are stored as they are, whatever the limits. Growth is held from the
//! first object on until an audit has compared the member clusters with the objects.

use crate::audit::require_operator;
use crate::connect::{has_code, unavailable};
use crate::model::{Key, KindId, NewState};
use crate::repair::LedgerChanges;
use crate::store::Store;
use crate::{Access, Error, functions};
use sqlx::AssertSqlSafe;
use sqlx::PgConnection;
use uuid::Uuid;

/// Why growth is held while objects are imported. `apply_batch` and `hold_amounts` have the same text.
pub const IMPORTING: &str = "an import is under way";
/// Why growth is held afterwards, until an audit has compared the member clusters with the objects.
pub const IMPORTED: &str = "objects were imported";

/// An object to import.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Its key.
    pub key: Key,
    /// The uid that it has in the other system.
    pub uid: Uuid,
    /// Its state.
    pub state: NewState,
}

/// An object that the store has before an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingObject {
    /// Its key.
    pub key: Key,
    /// Its uid.
    pub uid: Uuid,
    /// Its body as it is stored.
    pub body: String,
}

struct ImportedRow {
    kind: i16,
    namespace: String,
    name: String,
    uid: Uuid,
    body: String,
}

crate::row::columns!(ImportedRow { kind, namespace, name, uid, body });

impl Store {
    /// Waits for the writes under way: the server may still run a statement of an import that was killed.
    pub async fn until_written(&self, access: &Access) -> Result<(), Error> {
        require_operator(access)?;
        sqlx::query("SELECT v FROM rev ORDER BY v DESC LIMIT 1 FOR SHARE")
            .execute(&mut self.operator_connection().await?)
            .await
            .map_err(unavailable)?;
        Ok(())
    }

    /// The objects of all kinds that the database has now, before an import.
    pub async fn existing_objects(&self, access: &Access) -> Result<Vec<ExistingObject>, Error> {
        require_operator(access)?;
        let query = "SELECT kind, namespace, name, uid, body FROM objects ORDER BY kind, namespace, name";
        let stored: Vec<ImportedRow> = sqlx::query_as(query)
            .fetch_all(&mut self.operator_connection().await?)
            .await
            .map_err(unavailable)?;
        let present = stored.into_iter().map(|ImportedRow { kind, namespace, name, uid, body }| {
            ExistingObject { key: Key::new(KindId(kind), &namespace, &name), uid, body }
        });
        Ok(present.collect())
    }

    /// Holds growth for an import. False if it is held for another reason already.
    pub async fn begin_import(&self, access: &Access) -> Result<bool, Error> {
        require_operator(access)?;
        let query = "UPDATE rev SET held = true, held_reason = $1 \
             WHERE v >= (SELECT max(v) FROM rev) AND (NOT held OR held_reason IN ($1, $2))";
        let done = sqlx::query(query)
            .bind(IMPORTING)
            .bind(IMPORTED)
            .execute(&mut self.operator_connection().await?)
            .await
            .map_err(unavailable)?;
        Ok(done.rows_affected() == 1)
    }

    /// Stores objects with what they cost and grant: all of them or none. A scope must come before the objects that pay
    /// it, or together with them. A row that is above its limit afterwards gets a ceiling. [`Error::AlreadyExists`] if
    /// a key or a place is taken, [`Error::Corrupt`] if growth is not held.
    pub async fn import(&self, access: &Access, objects: &[Imported]) -> Result<(), Error> {
        require_operator(access)?;
        let held =
            insert(self, &mut self.operator_connection().await?, objects).await.map_err(
                |error| match error {
                    error if has_code(&error, "23505") => Error::AlreadyExists { deleting: false },
                    error => unavailable(error),
                },
            )?;
        if held {
            tracing::info!(actor = access.actor(), objects = objects.len(), "imported");
            return Ok(());
        }
        Err(Error::Corrupt("objects are imported only while growth is held for it".to_owned()))
    }

    /// Ends an import that is complete. Growth is held until an audit has compared everything. A new epoch begins, so
    /// that all watchers list the objects again, and no earlier comparison counts.
    pub async fn finish_import(&self, access: &Access) -> Result<(), Error> {
        require_operator(access)?;
        let query = "WITH moved AS ( \
               UPDATE rev SET epoch = gen_random_uuid(), held = true, held_reason = $1 \
               WHERE v >= (SELECT max(v) FROM rev) RETURNING v, epoch) \
             UPDATE compaction SET compacted = greatest(compacted, moved.v), epoch = moved.epoch, epoch_start = moved.v \
             FROM moved WHERE compaction.id = 1";
        sqlx::query(query)
            .bind(IMPORTED)
            .execute(&mut self.operator_connection().await?)
            .await
            .map_err(unavailable)?;
        tracing::warn!(actor = access.actor(), "the import is whole; growth waits for the audit");
        Ok(())
    }
}

async fn insert(
    store: &Store,
    connection: &mut PgConnection,
    objects: &[Imported],
) -> Result<bool, sqlx::Error> {
    let query = format!(
        "SELECT {}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, \
         $18::text[]::numeric[], $19, $20, $21, $22::text[]::numeric[], $23, $24, $25::text[]::numeric[], $26, $27, $28)",
        functions::name("import_objects")
    );
    let query = sqlx::query(AssertSqlSafe(query))
        .bind(store.scope_roles().kinds())
        .bind(store.scope_roles().required())
        .bind(each(objects, |object| object.key.kind.0))
        .bind(each(objects, |object| &*object.key.namespace))
        .bind(each(objects, |object| &*object.key.name))
        .bind(each(objects, |object| object.uid))
        .bind(each(objects, |object| object.state.account.tenant.as_str()))
        .bind(each(objects, |object| object.state.account.pays.as_ref().map(|scope| scope.kind.0)))
        .bind(each(objects, |object| object.state.account.pays.as_ref().map(|scope| scope.name.as_str())))
        .bind(each(objects, |object| object.state.account.deleting))
        .bind(each(objects, |object| object.state.account.locked))
        .bind(each(objects, |object| object.state.body.as_str()));
    let accounts = objects.iter().map(|object| (object.uid, &object.state.account));
    let row = LedgerChanges::from_accounts(accounts).bind(query).fetch_one(connection).await?;
    sqlx::Row::try_get(&row, 0)
}

fn each<'a, T>(objects: &'a [Imported], of: impl Fn(&'a Imported) -> T) -> Vec<T> {
    objects.iter().map(of).collect()
}

//! Objects that come from another system: they are stored as they are, whatever the limits. Growth is held from the
//! first one until both sides were compared.

use crate::audit::operator;
use crate::connect::{has_code, unavailable};
use crate::model::{Key, KindId, NewState};
use crate::repair::Changes;
use crate::store::Store;
use crate::{Access, Error, functions};
use sqlx::AssertSqlSafe;
use sqlx::PgConnection;
use uuid::Uuid;

/// Why growth is held while objects are imported. `apply_batch` and `hold_amounts` know it, too.
pub const IMPORTING: &str = "an import is under way";
/// Why growth is held afterwards, until an audit has compared the member clusters with the objects.
pub const IMPORTED: &str = "objects were imported";

/// An object to import.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Where it goes.
    pub key: Key,
    /// Its identity, as it was.
    pub uid: Uuid,
    /// Its state.
    pub state: NewState,
}

/// An object that is there already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    /// Where it is.
    pub key: Key,
    /// Its identity.
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
    /// Waits for the writes under way: the server may still be at work on what a killed import has begun.
    pub async fn until_written(&self, access: &Access) -> Result<(), Error> {
        operator(access)?;
        sqlx::query("SELECT v FROM rev ORDER BY v DESC LIMIT 1 FOR SHARE")
            .execute(&mut self.operate().await?)
            .await
            .map_err(unavailable)?;
        Ok(())
    }

    /// The objects that are there before an import, of all kinds, as the database has them now.
    pub async fn present(&self, access: &Access) -> Result<Vec<Present>, Error> {
        operator(access)?;
        let query = "SELECT kind, namespace, name, uid, body FROM objects ORDER BY kind, namespace, name";
        let stored: Vec<ImportedRow> =
            sqlx::query_as(query).fetch_all(&mut self.operate().await?).await.map_err(unavailable)?;
        let present = stored.into_iter().map(|ImportedRow { kind, namespace, name, uid, body }| Present {
            key: Key::new(KindId(kind), &namespace, &name),
            uid,
            body,
        });
        Ok(present.collect())
    }

    /// Holds growth for an import. False when it is held for another reason already.
    pub async fn begin_import(&self, access: &Access) -> Result<bool, Error> {
        operator(access)?;
        let query = "UPDATE rev SET held = true, held_reason = $1 \
             WHERE v >= (SELECT max(v) FROM rev) AND (NOT held OR held_reason IN ($1, $2))";
        let done = sqlx::query(query)
            .bind(IMPORTING)
            .bind(IMPORTED)
            .execute(&mut self.operate().await?)
            .await
            .map_err(unavailable)?;
        Ok(done.rows_affected() == 1)
    }

    /// Stores objects, and what they cost and grant: all of them or none. A scope comes before, or with, the objects
    /// that pay it. A row that is above its limit afterwards gets a ceiling. [`Error::AlreadyExists`] when a key or a
    /// place is taken.
    pub async fn import(&self, access: &Access, objects: &[Imported]) -> Result<(), Error> {
        operator(access)?;
        let held = insert(self, &mut self.operate().await?, objects).await.map_err(|error| match error {
            error if has_code(&error, "23505") => Error::AlreadyExists { deleting: false },
            error => unavailable(error),
        })?;
        if held {
            tracing::info!(actor = access.actor(), objects = objects.len(), "imported");
            return Ok(());
        }
        Err(Error::Corrupt("objects are imported only while growth is held for it".to_owned()))
    }

    /// Ends an import that is whole: growth goes on when an audit has compared everything. A new epoch begins, so
    /// that everybody who follows the objects lists them anew, and no earlier comparison counts.
    pub async fn finish_import(&self, access: &Access) -> Result<(), Error> {
        operator(access)?;
        let query = "WITH moved AS ( \
               UPDATE rev SET epoch = gen_random_uuid(), held = true, held_reason = $1 \
               WHERE v >= (SELECT max(v) FROM rev) RETURNING v) \
             UPDATE compaction SET compacted = greatest(compacted, moved.v) FROM moved WHERE compaction.id = 1";
        sqlx::query(query).bind(IMPORTED).execute(&mut self.operate().await?).await.map_err(unavailable)?;
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
    let row = Changes::of_accounts(accounts).bind(query).fetch_one(connection).await?;
    sqlx::Row::try_get(&row, 0)
}

fn each<'a, T>(objects: &'a [Imported], of: impl Fn(&'a Imported) -> T) -> Vec<T> {
    objects.iter().map(of).collect()
}

//! Rows of PostgreSQL as structs, without a macro that compiles a second `sqlx` for the compiler.

/// The fields of a struct are the columns of the same names.
macro_rules! columns {
    ($row:ident { $($column:ident),+ $(,)? }) => {
        impl sqlx::FromRow<'_, sqlx::postgres::PgRow> for $row {
            fn from_row(row: &sqlx::postgres::PgRow) -> Result<Self, sqlx::Error> {
                use sqlx::Row as _;
                Ok(Self { $($column: row.try_get(stringify!($column))?),+ })
            }
        }
    };
}

pub(crate) use columns;

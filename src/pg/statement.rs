//! Statements whose plans are kept for the life of the backend, run through SPI.
//!
//! pgrx's own `update` takes a transaction id even where nothing is written, and its `select` may
//! run on an old snapshot. A duplicate must cost neither, so statements are run here: writable
//! (every statement sees what is committed when it begins), and without a transaction id until
//! something is really written.

use std::cell::Cell;
use std::ffi::CString;
use std::ops::RangeInclusive;
use std::ptr;

use pgrx::{FromDatum, IntoDatum, JsonB, PgSqlErrorCode, Uuid, pg_sys};

use crate::pg::error::raise;
use crate::pg::moment::Moment;

/// A statement, prepared on first use in each backend and kept.
pub struct Statement {
    text: &'static str,
    argument_types: &'static [pg_sys::Oid],
    plan: Cell<pg_sys::SPIPlanPtr>,
}

impl Statement {
    /// The statement with this text, whose parameters have these types.
    pub const fn new(text: &'static str, argument_types: &'static [pg_sys::Oid]) -> Self {
        Statement { text, argument_types, plan: Cell::new(ptr::null_mut()) }
    }

    /// Runs it inside [`as_owner`](crate::pg::caller::as_owner); errors of PostgreSQL go through unchanged.
    pub fn run(&self, arguments: &[Option<pg_sys::Datum>]) -> Rows {
        execute(self.plan(), self.text, self.parameters(arguments))
    }

    /// Runs it read-only on what is committed now, also where the transaction keeps an older
    /// snapshot: configuration is never read as it once was.
    pub fn run_latest(&self, arguments: &[Option<pg_sys::Datum>]) -> Rows {
        let (mut values, nulls) = self.parameters(arguments);
        // SAFETY: as in `run`; SPI copies the snapshot before it uses it.
        let status = unsafe {
            pg_sys::SPI_execute_snapshot(
                self.plan(),
                values.as_mut_ptr(),
                nulls.as_ptr().cast(),
                pg_sys::GetLatestSnapshot(),
                ptr::null_mut(),
                true,
                false,
                0,
            )
        };
        check(status, self.text);
        Rows::of_last_execution()
    }

    fn parameters(&self, arguments: &[Option<pg_sys::Datum>]) -> Parameters {
        assert_eq!(arguments.len(), self.argument_types.len(), "arguments of: {}", self.text);
        parameters(arguments)
    }

    fn plan(&self) -> pg_sys::SPIPlanPtr {
        kept(&self.plan, || prepare(self.text, self.argument_types))
    }
}

/// One row for a [`RowStatement`]: a value per column.
pub type RowOf<const N: usize> = [Option<pg_sys::Datum>; N];

/// A statement over any number of rows, which its text calls `{rows}` and names `n`.
///
/// A few rows come as parameters of their own, which costs no more than a statement written for
/// them; many come as an array per column. They are worked off in their order.
pub struct RowStatement<const N: usize> {
    text: &'static str,
    columns: [(&'static str, pg_sys::Oid); N],
    /// The plans for 1, 2, ... rows.
    few: [Cell<pg_sys::SPIPlanPtr>; FEW],
    many: Cell<pg_sys::SPIPlanPtr>,
}

/// Up to so many rows have a plan of their own: as many references as a payment usually has.
const FEW: usize = 4;

impl<const N: usize> RowStatement<N> {
    /// The statement with this text over rows of these columns.
    pub const fn new(text: &'static str, columns: [(&'static str, pg_sys::Oid); N]) -> Self {
        let few = [const { Cell::new(ptr::null_mut()) }; FEW];
        RowStatement { text, columns, few, many: Cell::new(ptr::null_mut()) }
    }

    /// Runs it as [`Statement::run`] does; over no row it does nothing.
    pub fn run(&self, rows: &[RowOf<N>]) -> Rows {
        match rows.len() {
            0 => Rows { table: ptr::null_mut(), count: 0 },
            count @ 1..=FEW => {
                let plan = kept(&self.few[count - 1], || self.prepare_few(count));
                execute(plan, self.text, parameters(rows.as_flattened()))
            }
            _ => {
                let arrays: RowOf<N> = std::array::from_fn(|column| Some(self.array(rows, column)));
                execute(kept(&self.many, || self.prepare_many()), self.text, parameters(&arrays))
            }
        }
    }

    fn prepare_few(&self, count: usize) -> pg_sys::SPIPlanPtr {
        let types = self.columns.map(|column| column.1).repeat(count);
        let row = |index: usize| format!("({})", placeholders(index * N + 1..=(index + 1) * N));
        let rows: Vec<String> = (0..count).map(row).collect();
        prepare(&self.text_over(&format!("(VALUES {})", rows.join(", "))), &types)
    }

    fn prepare_many(&self) -> pg_sys::SPIPlanPtr {
        // SAFETY: a look-up in the system caches.
        let types = self.columns.map(|column| unsafe { pg_sys::get_array_type(column.1) });
        prepare(&self.text_over(&format!("unnest({})", placeholders(1..=N))), &types)
    }

    fn text_over(&self, rows: &str) -> String {
        let names = self.columns.map(|column| column.0).join(", ");
        self.text.replace("{rows}", &format!("{rows} AS n ({names})"))
    }

    /// One column of all rows, as an array.
    fn array(&self, rows: &[RowOf<N>], column: usize) -> pg_sys::Datum {
        let element = self.columns[column].1;
        let (mut values, mut nulls): (Vec<_>, Vec<_>) = rows
            .iter()
            .map(|row| (row[column].unwrap_or(pg_sys::Datum::from(0)), row[column].is_none()))
            .unzip();
        let (mut length, mut by_value, mut align) = (0, false, 0);
        // SAFETY: values and nulls have one entry per element; their Datums are of the element's type.
        unsafe {
            pg_sys::get_typlenbyvalalign(element, &mut length, &mut by_value, &mut align);
            pg_sys::Datum::from(pg_sys::construct_md_array(
                values.as_mut_ptr(),
                nulls.as_mut_ptr(),
                1,
                &mut i32::try_from(rows.len()).expect("fewer rows than an array holds"),
                &mut 1,
                element,
                length.into(),
                by_value,
                align,
            ))
        }
    }
}

fn placeholders(numbers: RangeInclusive<usize>) -> String {
    numbers.map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
}

type Parameters = (Vec<pg_sys::Datum>, Vec<i8>);

fn parameters(arguments: &[Option<pg_sys::Datum>]) -> Parameters {
    arguments
        .iter()
        .map(|argument| match argument {
            Some(datum) => (*datum, b' ' as i8),
            None => (pg_sys::Datum::from(0), b'n' as i8),
        })
        .unzip()
}

/// The plan of this cell, made on first use.
fn kept(plan: &Cell<pg_sys::SPIPlanPtr>, prepare: impl FnOnce() -> pg_sys::SPIPlanPtr) -> pg_sys::SPIPlanPtr {
    if plan.get().is_null() {
        plan.set(prepare());
    }
    plan.get()
}

fn prepare(text: &str, argument_types: &[pg_sys::Oid]) -> pg_sys::SPIPlanPtr {
    let c_text = CString::new(text).expect("a statement has no NUL");
    let mut types = argument_types.to_vec();
    // SAFETY: text and types live until the call returns; the plan is kept, so never freed.
    unsafe {
        let plan = pg_sys::SPI_prepare_cursor(
            c_text.as_ptr(),
            types.len() as i32,
            types.as_mut_ptr(),
            pg_sys::CURSOR_OPT_GENERIC_PLAN as i32,
        );
        if plan.is_null() {
            check(pg_sys::SPI_result, text);
        }
        check(pg_sys::SPI_keepplan(plan), text);
        plan
    }
}

fn execute(plan: pg_sys::SPIPlanPtr, text: &str, (mut values, nulls): Parameters) -> Rows {
    // SAFETY: values and nulls have one entry per parameter of the plan, and live until the call returns.
    let status =
        unsafe { pg_sys::SPI_execute_plan(plan, values.as_mut_ptr(), nulls.as_ptr().cast(), false, 0) };
    check(status, text);
    Rows::of_last_execution()
}

fn check(status: i32, text: &str) {
    if status < 0 {
        raise(
            PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
            format!("SPI refused a statement with status {status}"),
            text,
            "This is a fault of payment_idem; please report it.",
        )
    }
}

/// The rows that a statement returned; freed when dropped.
pub struct Rows {
    table: *mut pg_sys::SPITupleTable,
    count: usize,
}

impl Rows {
    fn of_last_execution() -> Self {
        // SAFETY: variables that the execution just made has set.
        unsafe { Rows { table: pg_sys::SPI_tuptable, count: pg_sys::SPI_processed as usize } }
    }

    /// How many rows were returned or, without RETURNING, written.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether that is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The first row, where there is one.
    pub fn first(&self) -> Option<Row<'_>> {
        self.iter().next()
    }

    /// Every row.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        let count = if self.table.is_null() { 0 } else { self.count };
        (0..count).map(|index| Row { rows: self, index })
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        // While an error unwinds, PostgreSQL cleans up by itself.
        if !self.table.is_null() && !std::thread::panicking() {
            // SAFETY: the table is ours alone, and no value borrowed from it is left.
            unsafe { pg_sys::SPI_freetuptable(self.table) }
        }
    }
}

/// One row.
pub struct Row<'rows> {
    rows: &'rows Rows,
    index: usize,
}

impl Row<'_> {
    /// The value of a column, counted from 1; `None` for NULL.
    pub fn get<T: Owned>(&self, column: i32) -> Option<T> {
        let mut is_null = false;
        // SAFETY: the row exists; SPI answers an unknown column with NULL.
        unsafe {
            let table = &*self.rows.table;
            let tuple = *table.vals.add(self.index);
            let datum = pg_sys::SPI_getbinval(tuple, table.tupdesc, column, &mut is_null);
            T::from_polymorphic_datum(datum, is_null, pg_sys::SPI_gettypeid(table.tupdesc, column))
        }
    }

    /// The value of a column that is never NULL.
    pub fn value<T: Owned>(&self, column: i32) -> T {
        self.get(column).unwrap_or_else(|| panic!("column {column} of a statement of ours is NULL"))
    }
}

/// A value that owns its data, and so outlives the rows that it was read from.
pub trait Owned: FromDatum {}

impl Owned for bool {}
impl Owned for i16 {}
impl Owned for i32 {}
impl Owned for i64 {}
impl Owned for String {}
impl Owned for Vec<u8> {}
impl Owned for JsonB {}
impl Owned for Moment {}
impl Owned for Uuid {}
impl Owned for pg_sys::Oid {}

/// A value as the argument of a statement.
pub fn arg(value: impl IntoDatum) -> Option<pg_sys::Datum> {
    value.into_datum()
}

/// Declares a kept statement: `statement!(FIND, "SELECT …", [UUIDOID, TEXTOID]);`
macro_rules! statement {
    ($(#[$doc:meta])* $name:ident, $text:expr, [$($type:ident),* $(,)?]) => {
        thread_local! {
            $(#[$doc])*
            static $name: crate::pg::statement::Statement =
                const { crate::pg::statement::Statement::new($text, &[$(pgrx::pg_sys::$type),*]) };
        }
    };
}
pub(crate) use statement;

/// Declares a kept statement over rows: `row_statement!(APPEND, "INSERT INTO … SELECT … FROM {rows}", [(tenant, UUIDOID)]);`
macro_rules! row_statement {
    ($(#[$doc:meta])* $name:ident, $text:expr, [$(($column:ident, $type:ident)),* $(,)?]) => {
        thread_local! {
            $(#[$doc])*
            static $name: crate::pg::statement::RowStatement<{ [$(stringify!($column)),*].len() }> =
                const { crate::pg::statement::RowStatement::new(
                    $text, [$((stringify!($column), pgrx::pg_sys::$type)),*]) };
        }
    };
}
pub(crate) use row_statement;

/// Runs a kept statement with its arguments: `run!(FIND, tenant, source)`.
macro_rules! run {
    ($name:ident $(, $argument:expr)* $(,)?) => {
        $name.with(|statement| statement.run(&[$(crate::pg::statement::arg($argument)),*]))
    };
}
pub(crate) use run;

/// Runs a kept statement on what is committed now: see [`Statement::run_latest`].
macro_rules! run_latest {
    ($name:ident $(, $argument:expr)* $(,)?) => {
        $name.with(|statement| statement.run_latest(&[$(crate::pg::statement::arg($argument)),*]))
    };
}
pub(crate) use run_latest;

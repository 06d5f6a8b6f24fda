//! Errors that the caller of a function gets: a SQLSTATE, what is wrong, and what to do.
//!
//! Only what the *caller* gets wrong is raised. What a *sender* can cause is answered as a row.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode};

/// Raises an ERROR with all its parts; the call ends here.
pub fn raise(
    code: PgSqlErrorCode,
    message: impl Into<String>,
    detail: impl Into<String>,
    hint: impl Into<String>,
) -> ! {
    ErrorReport::new(code, message.into(), "payment_idem")
        .set_detail(detail.into())
        .set_hint(hint.into())
        .report(PgLogLevel::ERROR);
    unreachable!("an ERROR does not return")
}

/// The value of an argument that may not be NULL; raises 22004.
pub fn required<T>(argument: Option<T>, name: &str) -> T {
    argument.unwrap_or_else(|| {
        raise(
            PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            format!("argument \"{name}\" must not be NULL"),
            "A NULL would make the call look like a success that did nothing.",
            format!("Pass a value for \"{name}\"."),
        )
    })
}

/// Raises 22023: an argument has a value that cannot be used.
pub fn invalid(argument: &str, detail: impl Into<String>, hint: impl Into<String>) -> ! {
    raise(
        PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
        format!("invalid value for argument \"{argument}\""),
        detail,
        hint,
    )
}

/// What a rule of the domain says, as the sentence that a DETAIL is.
pub fn sentence(fault: &impl ToString) -> String {
    let clause = fault.to_string();
    let mut letters = clause.chars();
    letters.next().map(|first| format!("{}{}.", first.to_uppercase(), letters.as_str())).unwrap_or_default()
}

/// Raises 42710: the object exists with other facts.
pub fn exists_differently(what: &str, detail: impl Into<String>, hint: impl Into<String>) -> ! {
    raise(
        PgSqlErrorCode::ERRCODE_DUPLICATE_OBJECT,
        format!("{what} exists already, with other facts"),
        detail,
        hint,
    )
}

/// Raises 27000: a trigger of the user's own changed what a statement of ours was to write.
pub fn write_prevented(what: &str) -> ! {
    raise(
        PgSqlErrorCode::ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION,
        format!("{what} was not written as decided"),
        "A trigger or rule on a payment_idem table suppressed or changed the write; the event is not recorded.",
        "Drop the trigger, or let it return the row unchanged. The delivery can then be sent again.",
    )
}

/// Raises 40001: nothing is wrong, but the transaction has to be run again.
pub fn serialization_failure(detail: &str) -> ! {
    raise(
        PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
        "could not serialize access due to a concurrent change",
        detail,
        "Retry the transaction.",
    )
}

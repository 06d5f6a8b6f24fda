//! A `jsonb` argument as text.

use std::ffi::CStr;

use pgrx::{AnyElement, direct_function_call, pg_sys};

/// The text of a jsonb value. pgrx's own JsonB panics on what serde_json cannot hold, such as 1e400
/// or 300 nested arrays, and a sender may cause either.
pub fn text(jsonb: AnyElement) -> String {
    // SAFETY: the argument is declared jsonb in SQL; jsonb_out never returns NULL for a value.
    let text: &CStr =
        unsafe { direct_function_call(pg_sys::jsonb_out, &[Some(jsonb.datum())]) }.expect("jsonb has a text");
    text.to_string_lossy().into_owned()
}

//! A `jsonb` argument as text.

use std::ffi::CStr;

use pgrx::callconv::{Arg, ArgAbi};
use pgrx::datum::{Datum, UnboxDatum};
use pgrx::{direct_function_call, impl_sql_translatable, pg_sys};

/// The text of a jsonb value. pgrx's own JsonB panics on what serde_json cannot hold, such as 1e400
/// or 300 nested arrays, and a sender may cause either.
pub struct JsonText(pub String);

impl_sql_translatable!(JsonText, "jsonb");

impl JsonText {
    /// # Safety
    /// The datum is a jsonb.
    unsafe fn of(datum: pg_sys::Datum) -> Self {
        // SAFETY: as the caller vouches; jsonb_out never returns NULL for a value.
        let text: &CStr =
            unsafe { direct_function_call(pg_sys::jsonb_out, &[Some(datum)]) }.expect("jsonb has a text");
        JsonText(text.to_string_lossy().into_owned())
    }
}

// SAFETY: the text is a copy, so nothing outlives the datum that it was made from.
unsafe impl UnboxDatum for JsonText {
    type As<'src> = JsonText;

    unsafe fn unbox<'src>(datum: Datum<'src>) -> Self::As<'src>
    where
        Self: 'src,
    {
        // SAFETY: the argument is declared jsonb in SQL.
        unsafe { JsonText::of(datum.sans_lifetime()) }
    }
}

// SAFETY: as above; a NULL goes to Option<JsonText> and does not come here.
unsafe impl<'fcx> ArgAbi<'fcx> for JsonText {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: the argument is declared jsonb in SQL.
        unsafe { arg.unbox_arg_using_from_datum::<JsonText>() }.expect("a NULL argument is an Option")
    }
}

impl pgrx::FromDatum for JsonText {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Self> {
        // SAFETY: as above.
        (!is_null).then(|| unsafe { JsonText::of(datum) })
    }
}

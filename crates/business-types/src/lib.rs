//! business-types

//! Loading, validating, scaling and importing labelled datasets.

//! Tables, plots and files made from stored episodes.

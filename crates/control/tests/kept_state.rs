//! Daemons whose state is kept while things go wrong. A test program of its own: it looks at the locks of state folders,
//! which a daemon of another test holds for a moment while it forks. So its tests run one after another.

mod crash_points;
mod exactly_once;
mod failing_files;
mod kept_daemon;
mod kept_links;

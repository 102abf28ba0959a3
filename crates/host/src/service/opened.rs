//! A service's socket before there is anybody to serve it.

use super::aside::Desk;
use super::{Handler, Reviewer, Service, StartError, serve};
use crate::doors::Doors;
use crate::engine::EngineHandle;
use endpoint::seqpacket::Packets;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The doors of a service that was killed are processes of their own, which end a moment after it.
const DOORS_END: Duration = Duration::from_secs(1);

/// A socket that listens, whose connections wait until somebody serves them ([`Opened::serve`]).
///
/// The doors are processes that share this one's memory as it was: every page of it that is written to later is copied by whoever
/// writes, in the engine's rounds too. So they are opened while there is little memory: before a network has circuits.
#[derive(Debug)]
pub struct Opened {
    path: PathBuf,
    doors: Option<Doors>,
}

impl Opened {
    /// Listens at `path`, over a stale socket file of a service that died. One that still listens is given a second to end.
    ///
    /// # Errors
    /// Another service is there, or the path cannot be made.
    pub fn at(path: &Path) -> Result<Self, StartError> {
        let system = |source| StartError::System { path: path.to_path_buf(), source };
        let begun = Instant::now();
        loop {
            match Packets::connect(path) {
                Ok(_) if begun.elapsed() < DOORS_END => std::thread::sleep(DOORS_END / 50),
                Ok(_) => return Err(StartError::Running(path.to_path_buf())),
                Err(Errno::CONNREFUSED) => break rustix::fs::unlink(path).map_err(system)?,
                Err(_) => break,
            }
        }
        crate::sys::raise_descriptors();
        let listener = Packets::listen(path).map_err(system)?;
        let mut opened = Opened { path: path.to_path_buf(), doors: None };
        opened.doors = Some(Doors::open(listener).map_err(system)?);
        Ok(opened)
    }

    /// Serves connections, those that have come before too.
    ///
    /// # Errors
    /// The system has no descriptors or no thread.
    pub fn serve(
        mut self,
        engine: &EngineHandle,
        handler: Arc<dyn Handler>,
        max_connections: usize,
    ) -> Result<Service, StartError> {
        let system = |source| StartError::System { path: self.path.clone(), source };
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(system)?;
        let thread_stop = stop.try_clone().map_err(|_| system(Errno::MFILE))?;
        let again = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(system)?;
        let reviewer = Reviewer(Arc::new(again));
        let (again, engine) = (reviewer.0.clone(), engine.named("service"));
        let doors = self.doors.take().ok_or_else(|| system(Errno::BADF))?;
        let desk = Desk::new(handler.clone()).map_err(system)?;
        let thread = std::thread::Builder::new()
            .name("service".into())
            .spawn(move || {
                crate::panics::essential("service", || {
                    serve(doors, [&thread_stop, &again], &engine, (&*handler, &desk), max_connections)
                });
            })
            .map_err(|_| StartError::System { path: self.path.clone(), source: Errno::AGAIN })?;
        Ok(Service { path: std::mem::take(&mut self.path), stop, reviewer, thread: Some(thread) })
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // A service that has begun removes its socket itself.
        if !self.path.as_os_str().is_empty() {
            let _ = rustix::fs::unlink(&self.path);
        }
    }
}

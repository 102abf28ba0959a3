//! The virtual adapters of a running network, each on a thread of its own, at the link that is its cable. A cable may
//! be pulled and plugged in elsewhere: the adapter, and the guest that drives it, live on meanwhile and see a loss of
//! signal. So does one in whose place another one is put, until that change is done or undone.
//!
//! Adapters are made, get their places and are dropped by who asks for that; the engine's thread moves cables.

use crate::config::Served;
use crate::folder;
use crate::kinds::ServedAdapter;
use anyhow::{Context as _, Result};
use endpoint::socket_path::SocketPath;
use host::HostInterface;
use host::engine::Core;
use net::external::External;
use net::topology::Fabric;
use net::{End, LinkId, Network};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An adapter and where its cells go: a link of the network, or a loose one.
#[derive(Debug)]
struct Plugged {
    served: Served,
    link: LinkId,
    place: SocketPath,
    /// Another one of its name has its cable. It goes once the change is done.
    replaced: bool,
}

/// What is put at a link.
pub enum Plug {
    /// The adapter that there is.
    Standing,
    /// A new one.
    New(ServedAdapter),
}

/// Why an adapter cannot be put at a link.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Its cable is elsewhere.
    #[error("an adapter has one line: the cable of {0} is in {1}")]
    InUse(String, String),
    /// The link is inside.
    #[error("the link has no outside end")]
    Inside,
    /// A thread that has heard its socket hears it until it is closed: in another shard it is made anew.
    #[error("the adapter has to be made anew there")]
    Anew,
}

/// All adapters. The engine's thread asks; nothing here waits for it.
#[derive(Debug, Default)]
pub struct Adapters(Mutex<Vec<Plugged>>);

impl Adapters {
    fn all(&self) -> MutexGuard<'_, Vec<Plugged>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes an adapter, if it is not there already or is to be made `anew`. Where the socket of one that is there is
    /// to be, it is beside that until [`Adapters::settle`].
    ///
    /// # Errors
    /// Its socket cannot be made, or is in a folder that others may change.
    pub fn make(&self, served: &Served, anew: bool) -> Result<Plug> {
        let (stands, ours) = {
            let all = self.all();
            let any = |is: &dyn Fn(&Served) -> bool| all.iter().any(|plugged| is(&plugged.served));
            (any(&|other| other == served), any(&|other| other.socket == served.socket))
        };
        if stands && !anew {
            return Ok(Plug::Standing);
        }
        let made = || {
            folder::check_of(&served.socket, "choose another place for the adapter's socket")?;
            served.card.serve(&served.socket, ours)
        };
        let made = made().with_context(|| format!("adapter {}", served.name))?;
        Ok(Plug::New(made))
    }

    /// Pulls the cable, if an adapter is at this link: the link can be removed then, the adapter stays.
    pub fn unplug(&self, network: &mut Network, link: LinkId) {
        if let Some(plugged) = self.all().iter_mut().find(|plugged| plugged.link == link)
            && let Some(server) = network.detach(link)
        {
            let shard = network.shards_of(link).map_or(0, |[shard, _]| shard);
            plugged.link = network.hang(server, shard);
        }
    }

    /// Whether an adapter can be put at a link.
    ///
    /// # Errors
    /// Why not.
    pub fn check(
        &self,
        network: &Network,
        fabric: &Fabric<HostInterface>,
        served: &Served,
        link: LinkId,
        plug: &Plug,
    ) -> Result<(), Refused> {
        let all = self.all();
        let of_name = all.iter().filter(|plugged| plugged.served.name == served.name && plugged.link != link);
        if let Some(other) = of_name.filter_map(|plugged| fabric.link_name(plugged.link)).next() {
            return Err(Refused::InUse(served.name.clone(), other));
        }
        if !network.link_info(link).is_some_and(|info| info.ends.contains(&End::External)) {
            return Err(Refused::Inside);
        }
        match plug {
            Plug::Standing if standing(&all, network, served, link).is_none() => Err(Refused::Anew),
            _ => Ok(()),
        }
    }

    /// Puts at a link, where nothing is, an adapter that can be there ([`Adapters::check`]). Others of its name are
    /// replaced by it.
    pub fn plug(&self, network: &mut Network, served: &Served, link: LinkId, plug: Plug) {
        let mut all = self.all();
        match plug {
            Plug::New(ServedAdapter { external, place }) => {
                network.attach(link, external);
                all.push(Plugged { served: served.clone(), link, place, replaced: false });
            }
            Plug::Standing => {
                let Some(plugged) = standing(&all, network, served, link).and_then(|place| all.get_mut(place)) else {
                    return;
                };
                if let Some(server) = network.detach(plugged.link) {
                    network.remove_link(plugged.link);
                    network.attach(link, server);
                    plugged.link = link;
                }
            }
        }
        let of_name = all.iter_mut().filter(|plugged| plugged.served.name == served.name);
        of_name.for_each(|plugged| plugged.replaced = plugged.link != link);
    }

    /// Whether adapters wait for a change to be done that has put others in their places.
    pub fn any_replaced(&self) -> bool {
        self.all().iter().any(|plugged| plugged.replaced)
    }

    /// A change is done: the sockets of new adapters take their places.
    ///
    /// # Errors
    /// The system refuses it; the others have theirs.
    pub fn settle(&self) -> Result<()> {
        // The engine's thread takes the lock, too: the file system is not asked meanwhile.
        let places: Vec<(LinkId, SocketPath)> = {
            let all = self.all();
            all.iter().filter(|p| !p.replaced).map(|p| (p.link, p.place.clone())).collect()
        };
        let mut refused = Ok(());
        for (link, mut place) in places {
            match place.take() {
                Ok(()) => self.all().iter_mut().filter(|p| p.link == link).for_each(|p| p.place = place.clone()),
                Err(e) => refused = Err(e).with_context(|| format!("the socket {}", place.path().display())),
            }
        }
        refused
    }

    /// Ends the adapters that were replaced or are wanted no more. Gives them, to be dropped elsewhere.
    pub fn keep(&self, network: &mut Network, wanted: impl Fn(&Served) -> bool) -> Vec<Box<dyn External>> {
        let mut ended = Vec::new();
        self.all().retain(|plugged| {
            let stays = wanted(&plugged.served) && !plugged.replaced;
            if !stays {
                ended.extend(network.detach(plugged.link));
                if network.link_info(plugged.link).is_some_and(|link| link.ends.contains(&End::Nowhere)) {
                    network.remove_link(plugged.link);
                }
            }
            stays
        });
        ended
    }

    /// Hands each to `f`, with the link that it is at and what serves it.
    pub fn for_each(&self, core: &Core, mut f: impl FnMut(&Served, LinkId, &dyn External)) {
        for Plugged { served, link, .. } in self.all().iter().filter(|plugged| !plugged.replaced) {
            if let Some((_, server)) = core.network.externals().find(|(id, _)| id == link) {
                f(served, *link, server);
            }
        }
    }
}

/// The adapter that is as it is described, and that the shard of a link can have.
fn standing(all: &[Plugged], network: &Network, served: &Served, link: LinkId) -> Option<usize> {
    let shard = network.shards_of(link);
    all.iter().position(|plugged| plugged.served == *served && network.shards_of(plugged.link) == shard)
}

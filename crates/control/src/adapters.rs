//! The virtual adapters of a running network, each on a thread of its own, at the link that is its cable. A cable may be pulled and plugged in
//! elsewhere: the adapter, and the guest that drives it, live on meanwhile and see a loss of signal.

use crate::config::Served;
use adapter::vfio::apart::Apart;
use adapter::vfio::server::Server;
use anyhow::{Context as _, Result, anyhow, bail};
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
}

/// All adapters. The engine's thread asks; nothing here waits for it.
#[derive(Debug, Default)]
pub struct Adapters(Mutex<Vec<Plugged>>);

impl Adapters {
    fn all(&self) -> MutexGuard<'_, Vec<Plugged>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Puts an adapter at a link: the one that is there, if nothing but its cable has changed, or a new one.
    ///
    /// # Errors
    /// Its socket cannot be made; or its cable is in another link.
    pub fn plug(
        &self,
        network: &mut Network,
        fabric: &Fabric<HostInterface>,
        served: &Served,
        link: LinkId,
    ) -> Result<()> {
        let mut all = self.all();
        let old = all.iter().position(|plugged| plugged.served.name == served.name).map(|place| all.swap_remove(place));
        let server = match old {
            Some(old) if old.link != link && fabric.link_name(old.link).is_some() => {
                let name = fabric.link_name(old.link).unwrap_or_default();
                all.push(old);
                bail!("an adapter has one line: the cable of {} is in {name}", served.name);
            }
            Some(old) => {
                // A thread that has heard its socket hears it until it is closed: in another shard it is made anew.
                let same_shard = network.shards_of(old.link) == network.shards_of(link);
                let server = network.detach(old.link);
                if old.link != link {
                    network.remove_link(old.link);
                }
                server.filter(|_| same_shard && old.served == *served)
            }
            None => None,
        };
        let server: Box<dyn External> = match server {
            Some(server) => server,
            None => {
                let server = Server::listen(&served.socket, served.config);
                let server = server.with_context(|| format!("adapter {}", served.name))?;
                Box::new(Apart::start(server).with_context(|| format!("adapter {}", served.name))?)
            }
        };
        if !network.attach(link, server) {
            return Err(anyhow!("the link has no outside end"));
        }
        all.push(Plugged { served: served.clone(), link });
        Ok(())
    }

    /// Ends the adapters that are wanted no more.
    pub fn keep(&self, network: &mut Network, wanted: impl Fn(&Served) -> bool) {
        self.all().retain(|plugged| {
            let stays = wanted(&plugged.served);
            if !stays {
                network.detach(plugged.link);
                if network.link_info(plugged.link).is_some_and(|link| link.ends.contains(&End::Nowhere)) {
                    network.remove_link(plugged.link);
                }
            }
            stays
        });
    }

    /// Hands each to `f`, with the link that it is at and what serves it.
    pub fn for_each(&self, core: &Core, mut f: impl FnMut(&Served, LinkId, &dyn External)) {
        for Plugged { served, link } in self.all().iter() {
            if let Some((_, server)) = core.network.externals().find(|(id, _)| id == link) {
                f(served, *link, server);
            }
        }
    }
}

//! What runs on circuits: IP over ATM, ARP, OAM, reliable transfer.

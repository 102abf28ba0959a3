//! Segmentation and reassembly: cells from SDUs and SDUs from cells.

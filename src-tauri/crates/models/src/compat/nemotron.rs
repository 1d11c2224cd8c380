//! Nemotron 3 with experts: other names of the projections around the experts, no key of their width, and the tensors of layers that
//! predict further tokens.

use super::layout::{Layout, Marker};
use super::step::{Place, Step};

pub(super) const NEMOTRON3: Layout = Layout {
    model: "Nemotron 3",
    architectures: &["nemotron_h_moe"],
    markers: &[Marker::TensorSuffix(".ffn_latent_in.weight"), Marker::TensorPrefix(&["mtp."])],
    steps: &[
        Step::Rename(Place::End, ".ffn_latent_in.weight", ".ffn_latent_down.weight"),
        Step::Rename(Place::End, ".ffn_latent_out.weight", ".ffn_latent_up.weight"),
        Step::Skip(&["mtp."]),
    ],
    tower: &[],
};

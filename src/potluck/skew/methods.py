"""The table behind the advice: each method, the skew it is made for, the reason, the reference."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

Kind = Literal["label", "unbiased", "quantity", "feature", "mixed", "groups"]


class Method(NamedTuple):
    """A method, its name in a configuration, and what it is made for."""

    title: str
    algorithm: str
    kinds: tuple[Kind, ...]
    reason: str
    reference: str


_TABLE: tuple[Method, ...] = (
    Method(
        "FedAvg", "fedavg", (),
        "weighs clients by their rows, which is right when they differ by chance only",
        "McMahan et al., AISTATS 2017",
    ),
    Method(
        "FedDisco", "feddisco", ("label", "unbiased"),
        "takes weight from clients whose class shares lie far from the overall ones",
        "Ye et al., ICML 2023",
    ),
    Method(
        "FedRoD", "fedrod", ("label",),
        "trains the shared head with a balanced softmax and keeps a personal head for each client",
        "Chen and Chao, ICLR 2022",
    ),
    Method(
        "SCAFFOLD", "scaffold", ("label",),
        "corrects every local step by control variates, so that clients do not drift to their own classes",
        "Karimireddy et al., ICML 2020",
    ),
    Method(
        "FedEP", "fedep", ("label", "unbiased"),
        "weighs clients by how far their label mixture is from the pooled one; direction = inverse favours near ones",
        "Guan, thesis, University of Zurich, 2024",
    ),
    Method(
        "FedProx", "fedprox", ("label", "quantity"),
        "holds local models near the global one, also where clients do different amounts of work",
        "Li et al., MLSys 2020",
    ),
    Method(
        "FedAvgM", "fedavgm", ("label",),
        "damps the oscillation of skewed updates by momentum on the server",
        "Hsu, Qi and Brown, 2019",
    ),
    Method(
        "FedLoss", "fedloss", ("mixed", "quantity", "label"),
        "weighs clients by their validation loss, whatever kind of skew raises it, not by their rows",
        "Tagarakis, diploma thesis, NTUA, 2023",
    ),
    Method(
        "FedMedian", "fedmedian", ("quantity",),
        "takes the median of each weight, so that no client counts more for its size",
        "Yin et al., ICML 2018",
    ),
    Method(
        "FedBN", "fedbn", ("feature",),
        "keeps each client's normalisation layers, which absorb differences of its inputs",
        "Li et al., ICLR 2021",
    ),
    Method(
        "FedDisk", "feddisk", ("feature", "mixed"),
        "weighs every row by an estimated density ratio, which brings each client nearer to the whole",
        "Nguyen, Wu and Chang, IEEE Transactions on Artificial Intelligence",
    ),
    Method(
        "FedPCL", "fedpcl", ("feature", "groups"),
        "shares class prototypes instead of weights, so that clients may see a class differently",
        "Tan et al., NeurIPS 2022",
    ),
    Method(
        "FedDisco-VAE", "feddisco-vae", ("unbiased", "mixed", "feature"),
        "measures the discrepancy in the latent space of an autoencoder, from inputs instead of labels",
        "poster on FedDisco with a beta-VAE, Delft, 2024",
    ),
    Method(
        "FedEx", "fedex", ("groups",),
        "sorts the clients into clusters by their first updates and trains a model for each",
        "Miles et al., report, University of Michigan",
    ),
)  # fmt: skip

METHODS: Mapping[str, Method] = MappingProxyType({method.algorithm: method for method in _TABLE})

NEED_CLASSES = frozenset({"feddisco", "fedex", "fedpcl", "fedrod"})
"""Methods that refuse real targets."""

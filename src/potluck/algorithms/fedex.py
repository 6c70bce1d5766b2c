"""FedEx: sort clients by a first update, train one expert per cluster, and gate the experts by their confidence.

Miles, Khan, Baranger, Miller, Saxena and Kulshrestha, "FedEx: an exploration of clustering clients in federated
learning", University of Michigan, 2024.

    warm-up:   all clients train once from w0; spectral clustering of the affinities max(0, cos(w_k - w0, w_l - w0))
    experts:   federated averaging inside each cluster, ceil(C |c|) clients a round
    layer:     p = argmax_j sum_i w_ij m_j^(i);  w_ip <- (w_ip t + m_p^(i) / sum_l m_p^(l)) / (t + 1);  t <- t + 1

Deviations, each with the published behaviour as an option: updates are compared and not whole weights
(`similarity_on`), negative cosines count as zero (`affinity_map`), k-means and not discretisation (`assign`), experts
start from the warm mean (`expert_init`), losses are taken on logits (`loss_head`). The warm-up sees the rows that
training sees (the published code's sees IID ones), answers weigh by rows and not by batches, and every expert has
its rounds (no stop at convergence). Ours: `gate = "learned"`, a gate that looks at labels; `clusters = "auto"`; and
`similarity_on = "first_layer"`, which tells inputs apart where whole updates tell classes apart.
Wire: the model down and up, in the warm-up and in training; for use on a device, all experts once. The layer's
weights change with every prediction, so that copies on devices drift apart. State: none at clients (`learned`: what
the experts say about the validation rows).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from potluck.algorithms.fedavg import Rounds
from potluck.average import Average, TrainOn, crossing
from potluck.core import Algorithm
from potluck.errors import BadInputError
from potluck.learn import Fit
from potluck.model import Model
from potluck.parts.clusters import Assign, EmptyPolicy
from potluck.parts.double_softmax import LossHead
from potluck.parts.experts import ExpertInit, Experts
from potluck.parts.gate import Clock, Gate, Rule, Start
from potluck.parts.learned_gate import LearnedGate
from potluck.parts.similarity import AffinityMap
from potluck.parts.warm_up import Count, SimilarityOn, Sorting, WarmUp
from potluck.roles import ByRows, Objective, Plain, Replace, Server, Weigh

REFUSAL = "its clusters need one place that hears every client; take a star, or a rotating host"


def fedex(
    rounds: Rounds = 10,
    fit: Fit = Fit(),
    clusters: Count = 3,
    similarity_on: SimilarityOn = "delta",
    affinity_map: AffinityMap = "relu",
    assign: Assign = "kmeans",
    empty_policy: EmptyPolicy = "reduce",
    expert_init: ExpertInit = "warm",
    gate: Rule | Literal["learned"] = "online",
    w_init: Start = "uniform",
    t_mode: Clock = "global",
    orders: Annotated[int, Field(ge=1)] = 5,
    gate_rounds: Rounds = 50,
    gate_fit: Fit = Fit(lr=1.0, batch="all"),
    loss_head: LossHead = "logits",
    weigh: Weigh = ByRows(),
    objective: Objective = Plain(),
    server: Server = Replace(),
    bn_buffers: Literal["average", "pooled"] = "average",
    train_on: TrainOn = "train",
) -> Algorithm:
    """FedEx, an expert for each cluster of clients behind an online gate (Miles et al., 2024)."""
    if gate == "learned" and train_on != "train":
        raise BadInputError("algorithm.train_on: the gate learns from the validation rows; train on others")
    average = Average(rounds, fit, weigh, objective, server, bn_buffers=bn_buffers, train_on=train_on)
    plain = Average(1, fit, bn_buffers=bn_buffers, train_on=train_on, stream="warmup")
    sorting = Sorting(clusters, similarity_on, affinity_map, assign, empty_policy)
    before = WarmUp(plain, sorting, loss_head)
    rule: Rule = "online" if gate == "learned" else gate
    experts = Experts(average, expert_init, Gate(rule, w_init, t_mode), orders, loss_head, rounds)
    algorithm = Algorithm(
        (*weigh.before(), before, experts),
        "fedex",
        topologies=frozenset({"star", "rotating"}),
        refusal=REFUSAL,
    )
    if gate != "learned":
        return algorithm
    return replace(algorithm, stages=(*algorithm.stages, LearnedGate(gate_rounds, gate_fit, loss_head)))


def wire(model: Model) -> tuple[int, int]:
    """Return the bytes of one client's training round, down and up."""
    return crossing(model)

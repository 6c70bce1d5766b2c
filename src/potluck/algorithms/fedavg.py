"""FedAvg: average the clients' models, weighted by their numbers of rows.

McMahan, Moore, Ramage, Hampson and Agüera y Arcas, "Communication-efficient learning of deep networks from
decentralized data", AISTATS 2017.

    w_{t+1} = sum_{k in S_t} (n_k / n_S) w_k,      w_k = local descent from w_t on client k's rows

Deviations: none. The number of participants is rounded half up (the paper's max(C K, 1) is not whole).
Wire: the model down and up, batch-norm statistics included. State: none.
"""

from __future__ import annotations

from potluck.average import Rounds as Rounds
from potluck.average import TrainOn, averaging, crossing
from potluck.combine import NormBuffers
from potluck.core import Algorithm
from potluck.learn import Fit
from potluck.model import Model
from potluck.roles import ByRows, Everything, Objective, Plain, Replace, Server, Share, Weigh


def fedavg(
    rounds: Rounds = 10,
    fit: Fit = Fit(),
    weigh: Weigh = ByRows(),
    objective: Objective = Plain(),
    server: Server = Replace(),
    share: Share = Everything(),
    bn_buffers: NormBuffers = "average",
    train_on: TrainOn = "train",
) -> Algorithm:
    """Federated averaging (McMahan et al., AISTATS 2017); the other choices of averaging can be exchanged."""
    return averaging("fedavg", rounds, fit, weigh, objective, server, share, bn_buffers, train_on)


def wire(model: Model) -> tuple[int, int]:
    """Return the bytes of one client's training round, down and up."""
    return crossing(model)

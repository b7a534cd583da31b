"""KeOps: reductions over all pairs without a tensor of them, compiled for each formula; on PyTorch's tensors."""
import pykeops
import torch
from pykeops.torch import Genred

import inputs
from array_library import ArrayLibrary
from worker import Unsupported


def reduction(score, aliases, value_dim):
    """softmax over j of the score, weighing "value"."""
    return Genred(score, [*aliases, f"value = Vj({value_dim})"], reduction_op="SumSoftMaxWeight", axis=1,
                  formula2="value")


def gaussian(case, given):
    size, width = given["query"].shape[-1], given["value"].shape[-1]
    attend = reduction("-inverse * SqDist(query, key)",
                       ["inverse = Pm(1)", f"query = Vi({size})", f"key = Vj({size})"], width)
    inverse = torch.full([1] * (given["query"].ndim - 1), 0.5 / case.sigma**2)
    arguments = given["query"], given["key"], given["value"]
    return lambda: attend(inverse, *arguments)


def additive(case, given):
    units = case.hidden_units
    # There is no tanh among its functions: 1 - 2 / (1 + e^2x).
    attend = reduction("(vector | (IntCst(1) - IntCst(2) * Inv(IntCst(1) + Exp(IntCst(2) * (query + key)))))",
                       [f"vector = Pm({units})", f"query = Vi({units})", f"key = Vj({units})"], case.value_dim)
    if case.score == "concat":
        query_weight, key_weight = given["weight"].split([case.query_dim, case.key_dim], 1)
    else:
        query_weight, key_weight = given["query_weight"], given["key_weight"]
    query, value, vector = given["query"], given["value"], given["score_vector"][None, None]
    prepared = given["key"] @ key_weight.T if case.prepared_keys else None

    def run():
        keys = given["key"] @ key_weight.T if prepared is None else prepared
        return attend(vector, query @ query_weight.T, keys, value)

    return run


class KeOps(ArrayLibrary):
    name, version, types = "keops", pykeops.__version__, ["f32"]
    untried = dict.fromkeys(("bf16", "f16"), "float32 and float64 only on processors")

    def __init__(self, threads):
        torch.set_num_threads(threads)
        self._mode = torch.no_grad()
        self._mode.__enter__()

    def ways(self, case):
        if case.operation not in (*inputs.SCORES, "kernel_regression"):
            raise Unsupported("not a formula over pairs of a query and a key")
        score = case.get("score", "gaussian")
        if score == "bilinear" or case.get("valid_lens"):
            raise Unsupported("valid lengths are not compared" if score != "bilinear" else "a dot product: not compared")
        given = {name: torch.from_numpy(array) for name, array in inputs.make(case).items()}
        return {"SumSoftMaxWeight": lambda: (gaussian if score == "gaussian" else additive)(case, given)}

    def output(self, result, case):
        return result.reshape(inputs.output_shape(case)).numpy()


def make(threads):
    return KeOps(int(threads))

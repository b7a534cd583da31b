"""A case of fovea_bench: what is computed, of which sizes. Standard library only."""
import dataclasses

# The largest error that passes, of a sampled output row relative to its largest magnitude (reference.error_of). The types' own rounding is
# 6e-8, 4e-3 and 5e-4; long sums and roundings in between (of projections, of scores before their exponential) multiply it.
TOLERANCES = {"f32": 1e-4, "bf16": 8e-2, "f16": 1e-2}

BACKWARD = ("backward", "backward_additive", "backward_gaussian", "backward_bilinear")
# What is measured against peers; the other operations have none, or are part of these.
OPERATIONS = ("sdpa", "additive", "additive_padded", "additive_step", "concat", "gaussian", "bilinear",
              "kernel_regression", "masked_softmax", "matmul", "matmul_packed", "linear", "multi_head", "multi_head_training",
              "exp", "tanh", "layer_norm", *BACKWARD)


@dataclasses.dataclass(frozen=True)
class Case:
    """Parameters of the operation can be read as attributes: case.batch, case.causal."""

    operation: str
    model: str
    dtype: str
    bound: str
    flops: float
    bytes: float
    elements: float
    parameters: dict

    @property
    def name(self):
        return f"{self.operation}/{self.dtype}/{self.model}"

    @property
    def tolerance(self):
        return TOLERANCES[self.dtype]

    def __getattr__(self, name):
        try:
            return self.parameters[name]
        except KeyError:
            raise AttributeError(name) from None

    def get(self, name, default=None):
        return self.parameters.get(name, default)

    def of_type(self, dtype):
        return dataclasses.replace(self, dtype=dtype)

    def to_json(self):
        return dataclasses.asdict(self)


def from_json(fields):
    return Case(**{field.name: fields[field.name] for field in dataclasses.fields(Case)})

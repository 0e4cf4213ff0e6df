"""The user's own optimizer, such as one that holds its state in 8 bits."""

from __future__ import annotations

from torch import nn
from torch.optim import Optimizer

from bench.errors import BenchError
from bench.sweep.fields import OptimizerSpec
from bench.workload.user_code import call, first_name, load_function


def own_optimizer(spec: OptimizerSpec, model: nn.Module) -> Optimizer:
    """Let the user's function or class make the optimizer: `function(parameters, lr=..., **args)`.

    A function whose first argument is called `model` gets the model instead of its trainable parameters, to treat them
    by their names. The learning rate of each group is then scheduled as that of ours.

    Raises:
        BenchError: It cannot be imported or called, or returns something else than one optimizer of this model.
    """
    assert spec.factory is not None, "the trial is checked"
    what = f"optimizer.factory = {spec.factory}"
    function = load_function(spec.factory, "optimizer.factory")
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    given = model if first_name(function) == "model" else parameters
    made = call(function, what, (given,), {"lr": spec.lr, **(spec.args or {})})
    if not isinstance(made, Optimizer):
        raise BenchError(
            f"{what} returned {type(made).__name__}, not a torch.optim.Optimizer. For several in one, write a class "
            "that derives from it and steps them all."
        )
    own = {id(parameter) for parameter in model.parameters()}
    stepped = [parameter for group in made.param_groups for parameter in group["params"]]
    if not stepped or any(id(parameter) not in own for parameter in stepped):
        raise BenchError(f"{what} does not step the parameters that it was given. Hand them on to the optimizer.")
    return made

"""`bench recommend`: the configuration for a long run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from bench.cli.options import pool_option, results_argument, terminal_width, where_option


class Count(click.ParamType[int]):
    """Take a positive whole number, also as 300e9."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the number exactly."""
        try:
            number = float(value) if not isinstance(value, int) else value
            exact = int(value) if str(value).lstrip("+-").isdigit() else int(number)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a number.", param, ctx)
        if math.isinf(number):
            self.fail(f"{value!r} is too large.", param, ctx)
        if exact != number and not str(value).isdigit():
            self.fail(f"{value!r} is not a whole number.", param, ctx)
        if exact < 1:
            self.fail(f"{value!r} is less than 1.", param, ctx)
        return exact


class Finite(click.FloatRange):
    """Take a number in a range, not nan and not infinite."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the number; a range alone lets nan pass."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


@click.command()
@results_argument
@click.option(
    "--global-batch-size",
    type=Count(),
    metavar="G",
    help="Sequences per update over all ranks, exactly: another global batch is another training run.  "
    "[default: the only one in RESULTS]",
)
@click.option("--gpus", type=Count(), metavar="N", help="Most ranks to use.  [default: as many as were measured]")
@click.option(
    "--run-tokens",
    type=Count(),
    metavar="T",
    default="1e9",
    show_default=True,
    help="Valid tokens of the long run, all ranks, such as 300e9; padding does not count.",
)
@click.option("--price-per-gpu-hour", type=Finite(min=0), metavar="P", help="Price of one GPU for an hour.")
@click.option(
    "--headroom",
    type=Finite(min=0, max=1, max_open=True),
    default=0.05,
    show_default=True,
    help="Share of the device's memory that must stay free on the worst rank.",
)
@click.option(
    "--accept-unproven",
    is_flag=True,
    help="Also consider what is not proven or not known to fit; the answer says so.",
)
@where_option
@pool_option
@click.option(
    "--format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Text for people, or one JSON object in base units (except hours).",
)
def recommend(
    results: tuple[Path, ...],
    global_batch_size: int | None,
    gpus: int | None,
    run_tokens: int,
    price_per_gpu_hour: float | None,
    headroom: float,
    accept_unproven: bool,
    where: tuple[str, ...],
    pool: bool,
    format: str,
) -> None:
    """Recommend the configuration for a long run.

    Considers the configurations in RESULTS with exactly the global batch asked for that passed their accumulation proof
    and fit with room to spare. Recommends the fastest [valid tokens/s, all ranks]; of those that cannot be told apart,
    the one with the least memory. Where nothing is proven or known to fit, the fastest of the rest, and the first line
    says so.

    Configurations that train something else (other data, learning rate, weight type ...) are no alternatives: where
    RESULTS hold several training problems it exits with 2 and gives the --where of each.

    Says how long T tokens take [hours, GPU-hours, updates, price, joules] and how sure that is, what comes second, why
    each other configuration lost, and how to reproduce the choice. docs/deciding.md explains the rules.

    \b
    Example:
      bench recommend results/a100-gpt2-124m --global-batch-size 512 --gpus 8 --run-tokens 300e9
    """
    from bench.decide.recommend import Question
    from bench.decide.recommend import recommend as choose
    from bench.decide.recommend_output import recommendation_json, recommendation_text
    from bench.report.launches import load_launches

    question = Question(global_batch_size, gpus, run_tokens, price_per_gpu_hour, headroom, accept_unproven)
    result = choose(load_launches(results, where, pool), question)
    text = (
        recommendation_json(result, results)
        if format == "json"
        else recommendation_text(result, terminal_width(), results)
    )
    click.echo(text, nl=False)

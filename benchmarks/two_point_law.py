"""How often the two-point law's interval holds a count that was left out: `python -m benchmarks.two_point_law FOLDER`.

FOLDER holds a sweep over accumulation_steps with several rounds and everything else equal, such as

    base: {model: {preset: gpt2-tiny}, data: {corpus: stdlib, rows: packed}, seq_len: 64}
    axes: {micro_batch_size: [2, 4], accumulation_steps: [1, 2, 3, 4, 6, 8, 12, 16]}
    measure: {preset: quick, rounds: 3}

Goal: 95 % of held-out launches inside the 95 % interval, to within what so few launches can tell.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench.report.launches import load_launches
from bench.report.law import fit_laws, mean_update_s
from bench.report.points import Row


def held_out(rows: list[Row]) -> list[tuple[int, bool, float]]:
    """Leave every count out in turn; give count, whether each of its launches is inside, and the relative error."""
    found = []
    for whole in fit_laws(rows):
        group = [row for row in rows if row["micro_batch_size"] == whole.row["micro_batch_size"]]
        for count in whole.steps:
            for law in fit_laws([row for row in group if row["accumulation_steps"] != count]):
                predicted = law.predict(count)
                for row in group:
                    seconds = mean_update_s(row)
                    if row["accumulation_steps"] != count or seconds is None or predicted.update_s_low is None:
                        continue
                    is_inside = predicted.update_s_low <= seconds <= (predicted.update_s_high or 0)
                    found.append((count, is_inside, predicted.update_s / seconds - 1))
    return found


def main() -> None:
    """Print the law of each group, the errors by count and the share inside."""
    rows = load_launches([Path(sys.argv[1])])
    for law in fit_laws(rows):
        print(f"micro-batch {law.row['micro_batch_size']}: {law.sentence()}; fails: {'; '.join(law.failures) or 'no'}")
    found = held_out(rows)
    for count in sorted({count for count, *_ in found}):
        errors = [f"{100 * error:+.1f} %" for steps, _, error in found if steps == count]
        print(f"A = {count:>3} held out: predicted / measured - 1 = {', '.join(errors)}")
    inside = sum(is_inside for _, is_inside, _ in found)
    print(f"{inside} of {len(found)} held-out launches inside the 95 % interval")


if __name__ == "__main__":
    main()

"""One loop over all micro-batches with a counter; the last window ends with the data."""

from torch.nn import functional


def step(model, optimizer, micro_batches, accumulation_steps, schedule):
    optimizer.zero_grad()
    for index, (inputs, targets) in enumerate(micro_batches):
        first = index - index % accumulation_steps
        window = micro_batches[first : first + accumulation_steps]
        units = sum(int((each != -100).sum()) for _, each in window)
        logits = model(inputs)
        losses = functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
        loss = losses.sum() / max(units, 1)
        loss.backward()
        is_last = index + 1 == len(micro_batches)
        if (index + 1) % accumulation_steps == 0 or is_last:
            if units > 0:
                optimizer.step()
                schedule.step()
            optimizer.zero_grad()

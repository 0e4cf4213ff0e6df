"""The loss written out from logarithms, gradients added up beside `.grad`."""

import torch


def step(model, optimizer, micro_batches):
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    totals = [torch.zeros_like(parameter) for parameter in parameters]
    units = 0
    for inputs, targets in micro_batches:
        counted = targets != -100
        logarithms = torch.log_softmax(model(inputs), dim=-1)
        picked = logarithms.gather(2, targets.clamp(min=0).unsqueeze(2)).squeeze(2)
        loss = -(picked * counted).sum()
        gradients = torch.autograd.grad(loss, parameters)
        for total, gradient in zip(totals, gradients, strict=True):
            total += gradient
        units += int(counted.sum())
    for parameter, total in zip(parameters, totals, strict=True):
        parameter.grad = total / max(units, 1)
    if units:
        optimizer.step()

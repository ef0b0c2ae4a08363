"""What one of several worker processes on a machine may use: a GPU in turn, or its share of the cores."""

import os


def worker_environment(slot: int, workers: int, device: str) -> dict[str, str]:
    """Return a worker's environment variables: one of the GPUs, in turn; without any, its share of the cores.

    What the user has set (`OMP_NUM_THREADS`, a device such as `cuda:1`) stays.
    """
    import torch

    variables = dict(os.environ)
    if workers == 1 or device.startswith("cuda:"):
        return variables
    count = torch.cuda.device_count() if device != "cpu" else 0
    if count:
        seen = [name for name in variables.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
        every = seen or [str(number) for number in range(count)]
        variables["CUDA_VISIBLE_DEVICES"] = every[slot % count]
    else:
        variables.setdefault("OMP_NUM_THREADS", str(max(1, cores() // workers)))
    return variables


def cores() -> int:
    """Count the cores that this process may use: fewer than the machine has where a scheduler says so."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

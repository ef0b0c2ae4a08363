"""Checks of annotated shapes, each made once for every kind of call.

What jaxtyping finds of a call follows from the types, shapes and dtypes of what goes in and of what comes out. To find
it takes longer than most functions do, and a search or a loop asks the same again and again: so what was found right
once, in this process, is not looked at twice. A function that is never called is never prepared for it either.
"""

import collections
import functools
import inspect
import threading
from dataclasses import is_dataclass
from types import FunctionType

import jaxtyping
import numpy as np
import torch

SHORT = 20
"""Texts up to here may be one of a few that an annotation allows."""


def kind(value):
    """Return all that an annotation can tell of a value; of lists and dictionaries the first entry stands for all.

    Of a named tuple it tells the class alone.
    """
    cls = value.__class__
    if cls not in _tells:
        _tells[cls] = next(
            (tell for base, tell in TELLS if issubclass(cls, base) and not hasattr(cls, "_fields")), None
        )
    tell = _tells[cls]
    return cls if tell is None else tell(cls, value)


TELLS = (
    (torch.Tensor, lambda cls, value: (cls, value.shape, value.dtype)),
    (tuple, lambda cls, value: (cls, *map(kind, value))),
    (np.ndarray, lambda cls, value: (cls, value.shape, value.dtype.str)),
    (list, lambda cls, value: (cls, kind(value[0]) if value else None)),
    (dict, lambda cls, value: (cls, *map(kind, next(iter(value.items()), ())))),
    (str, lambda cls, value: value if len(value) <= SHORT else cls),
)
_tells = {}


def jaxtyped(function=None, *, typechecker):
    """Take the place of `jaxtyping.jaxtyped` where its import hook puts it."""
    if function is None:
        return functools.partial(jaxtyped, typechecker=typechecker)
    if isinstance(function, classmethod | staticmethod):
        return type(function)(jaxtyped(function.__func__, typechecker=typechecker))
    if isinstance(function, property):
        parts = (function.fget, function.fset, function.fdel)
        return property(*(part and jaxtyped(part, typechecker=typechecker) for part in parts))
    if inspect.isclass(function):
        if is_dataclass(function) and "__init__" in vars(function):
            function.__init__ = jaxtyped(function.__init__, typechecker=typechecker)
        return function
    if inspect.isgeneratorfunction(function):
        return original(function, typechecker=typechecker)
    return _checked_once(function, typechecker)


original, _config = jaxtyping.jaxtyped, jaxtyping.config
_found = threading.local()
_known = collections.defaultdict(dict)
"""By function, kinds of what came out by kinds of what went in; a function within another is made again and again."""


def _checked_once(function, typechecker):
    known = _known[function.__module__, function.__qualname__, function.__code__]

    def run(*args, **kwargs):
        """Run the function, or only tell what came out where that is to be checked alone."""
        return _found.outputs.pop() if getattr(_found, "outputs", None) else function(*args, **kwargs)

    @functools.cache
    def checked():
        # Annotations in quotes are looked up among the names of the function's own module.
        body = FunctionType(
            run.__code__, {**function.__globals__, "_found": _found}, run.__name__, None, run.__closure__
        )
        return original(functools.update_wrapper(body, function), typechecker=typechecker)

    @functools.wraps(function)
    def call(*args, **kwargs):
        __tracebackhide__ = True
        if _config.jaxtyping_disable:
            return function(*args, **kwargs)
        given = tuple(map(kind, args))
        if kwargs:
            given = given, tuple(kwargs), tuple(map(kind, kwargs.values()))
        outputs = known.get(given)
        if outputs is None:
            out = checked()(*args, **kwargs)
            known[given] = {kind(out)}
            return out
        out = function(*args, **kwargs)
        if (came := kind(out)) not in outputs:
            _found.outputs = [out]
            try:
                checked()(*args, **kwargs)
            finally:
                _found.outputs = None
            outputs.add(came)
        return out

    return call


def install(modules):
    """Check the shapes of all that is annotated in these modules, once they are imported."""
    jaxtyping.jaxtyped = jaxtyped
    jaxtyping.install_import_hook(modules, "beartype.beartype")

"""The end of a namespace: what only it held goes at once.

Functions of a namespace refer to it, and it to them, so it would stay until Python's next full collection, which
looks at all objects of all modules. What that does is done here for the one namespace: count the references
within, and see who has others.
"""

import collections
import gc
import sys
import types

# A namespace with more references than this is left to a full collection, which is then hardly slower.
_MOST = 20_000
_CODE = (types.FunctionType, types.ModuleType, type)
_SUSPENDED = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
# Modules may do anything when an attribute of theirs is asked for.
_vars = types.ModuleType.__dict__["__dict__"].__get__


def _end(parts):
    """Gives back what a namespace holds, unless somebody else holds what needs it.

    `parts` is a list with its dictionary, to which nobody here refers otherwise; it is emptied.
    """
    inner = _trace(parts)
    if inner is None:
        parts.clear()
        gc.collect()
        return
    if _is_held(parts, inner):
        parts.clear()
        return
    names = parts[0]
    # Functions go last, and only where nothing that is left calls them at its own end.
    calls = any(_calls_at_its_end(part, names) for part in parts)
    parts.clear()
    for name in [name for name, value in [*names.items()] if not issubclass(type(value), _CODE)]:
        names.pop(name, None)
    if not calls:
        names.clear()


def _trace(parts):
    """Adds all that the first part leads to, except through other modules; how often each is referred to
    from among them, by its address. `None` where that is too much."""
    modules = [module for module in [*sys.modules.values()] if issubclass(type(module), types.ModuleType)]
    seen = {id(parts[0]), id(sys.modules), *(id(_vars(module)) for module in modules)}
    inner, left = collections.Counter(), _MOST
    for holder in parts:
        referents = gc.get_referents(holder)
        left -= len(referents)
        if left < 0:
            return None
        inner.update(map(id, referents))
        for part in referents:
            if id(part) in seen:
                continue
            seen.add(id(part))
            if gc.is_tracked(part) and not issubclass(type(part), types.ModuleType):
                parts.append(part)
    return inner


def _is_held(parts, inner):
    """Whether the first part is reached from one to which others refer."""
    # Nobody but the list refers to this one.
    parts.append([])
    counts = [sys.getrefcount(part) for part in parts]
    own = counts.pop()
    parts.pop()
    held = [part for part, count in zip(parts, counts) if count - own > inner[id(part)]]
    members, seen = {id(part) for part in parts}, {id(part) for part in held}
    for holder in held:
        for part in gc.get_referents(holder):
            if id(part) in members and id(part) not in seen:
                seen.add(id(part))
                held.append(part)
    return id(parts[0]) in seen


def _calls_at_its_end(part, names):
    if type(part) is types.FunctionType:
        return part.__name__ == "__del__" and part.__globals__ is names
    return issubclass(type(part), _SUSPENDED)

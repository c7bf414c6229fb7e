"""The calls of a program as Python makes them; `in_python.rs` sends each as JSON, and judges the answer."""

import inspect
import json

import crossdock as xd

DEVICES = []
TENSORS, STREAMS, EVENTS, CAPSULES, REGISTRATIONS = {}, {}, {}, {}, {}
WAITING, HELPERS = [], []
PLACES = (CAPSULES, TENSORS, REGISTRATIONS, EVENTS, STREAMS)
CALLED = set()


class Empty(Exception):
    """A place that the call needs is empty, or Python has no such call."""


def at(places, place):
    if place not in places:
        raise Empty
    return places[place]


def on(place):
    return None if place is None else at(STREAMS, place)


def called(name, function, *arguments, **keywords):
    CALLED.add(name)
    return function(*arguments, **keywords)


def made(place, tensor, alias):
    TENSORS[place] = tensor
    strides = list(tensor.strides)
    return {"made": {"alias": alias, "read_only": tensor.readonly, "strides": strides}}


def same_place(one, other):
    place = one.data_ptr(), one.byte_offset
    return one.size > 0 and place == (other.data_ptr(), other.byte_offset)


def make(bytes, t, **_what):
    # The other side makes it: of any element, and so that it sees when it is given back.
    return made(t, globals().pop("lent"), False)


def slices(bytes, t, of, axes):
    def part(start, step, length):
        end = start + step * length
        return slice(start, end if end >= 0 else None, step) if length else slice(0, 0)

    return made(t, at(TENSORS, of)[tuple(part(*axis) for axis in axes)], True)


def permute(bytes, t, of, axes):
    return made(t, at(TENSORS, of).permute_dims(axes), True)


def reshape(bytes, t, of, shape):
    return made(t, at(TENSORS, of).reshape(shape), True)


def clone(bytes, t, of):
    return made(t, at(TENSORS, of)[...], True)


def to(bytes, t, of, device, way, stream):
    """Each route is another call: Python has no word for them."""
    source, device, stream = at(TENSORS, of), DEVICES[device], on(stream)
    if way == "Own":
        # Python's copies into a tensor follow no stream, so it is read behind the allocation.
        own = stream if stream is not None and stream.device == device else None
        kind = "pinned" if stream is None and "pinned" in device.capabilities else None
        keywords = {"dtype": source.dtype, "device": device, "kind": kind, "stream": own}
        CALLED.add("_empty")
        moved = called("empty", xd.empty, source.shape, **keywords)
        moved[...] = source
    elif way == "Best":
        moved = called("Tensor.to_device", source.to_device, device, stream=stream)
    elif way == "Staged" and stream is not None and stream.device in (device, source.device):
        with stream:
            moved = called("Tensor.to", source.to, device, non_blocking=True)
    else:
        copy = False if way == "Alias" else True
        moved = called("Tensor.to", source.to, device, stream=stream, copy=copy)
    return made(t, moved, same_place(moved, source))


def copy_from(bytes, t, of, stream):
    at(TENSORS, t)[...] = at(TENSORS, of)


def fill(bytes, t, seed, stream):
    tensor, stream, keywords = at(TENSORS, t), on(stream), {}
    name = tensor.dtype.name
    if stream is not None:
        keywords = {"stream": stream}
    if name == "complex128" or tensor.dtype.lanes > 1:
        called("Tensor._repeat", tensor._repeat, bytes, **keywords)
    elif name == "int4":
        value = bytes[0] & 15
        called("Tensor.fill", tensor.fill, value - 16 if value > 7 else value, **keywords)
    else:
        value = int.from_bytes(bytes, "little", signed=name.startswith("int"))
        called("Tensor.fill", tensor.fill, value, **keywords)


def write(bytes, t, seed):
    tensor = at(TENSORS, t)
    # Behind the last stream that was made: bytes of the host wait for its work.
    stream = STREAMS.get(0) if 0 in STREAMS else None
    if stream is not None and stream.device == tensor.device:
        called("Tensor._store", tensor._store, bytes, stream=stream)
    else:
        tensor._store(bytes)


def read(bytes, t):
    return {"bytes": at(TENSORS, t)._bytes().hex()}


def seen(bytes, t):
    tensor = at(TENSORS, t)
    if not tensor.contiguous:
        raise Empty
    where = DEVICES.index(tensor.device), tensor.data_ptr(), tensor.byte_offset, tensor.nbytes
    return {"seen": where}


def number_of(stream, tensor):
    """The number of a stream, for the driver of a tensor: a GPU's takes it for a stream of the tensor's device."""
    if stream is None:
        return None
    here, there = (str(one.device) for one in (tensor, stream))
    if here.startswith(("cuda:", "rocm:")) and here != there:
        raise Empty
    return named(stream)


def export(bytes, x, of, stream):
    tensor, stream = at(TENSORS, of), on(stream)
    keywords = {"stream": number_of(stream, tensor), "max_version": (1, 3)}
    CAPSULES[x] = called("Tensor.__dlpack__", tensor.__dlpack__, **keywords)


def draft(bytes, t, of, s):
    tensor, stream = at(TENSORS, of), at(STREAMS, s)
    capsule = called("Tensor.__dlpack__", tensor.__dlpack__, stream=number_of(stream, tensor))
    return made(t, xd.from_dlpack(capsule), True)


def take_in(bytes, t, x):
    return made(t, xd.from_dlpack(at(CAPSULES, x) and CAPSULES.pop(x)), True)


def take(bytes, t, of, s, native):
    tensor, stream = at(TENSORS, of), at(STREAMS, s)
    if not native or not tensor.contiguous:
        raise Empty
    what = tensor.dtype, tensor.shape, tensor.byte_offset
    arguments = tensor.device, tensor.data_ptr(), what, tensor, stream
    return made(t, called("_adopt_native", xd._crossdock._adopt_native, *arguments), True)


def release(bytes, x):
    at(CAPSULES, x)
    del CAPSULES[x]


def register(bytes, r, of, device):
    REGISTRATIONS[r] = at(TENSORS, of).register(DEVICES[device])


def unregister(bytes, r):
    at(REGISTRATIONS, r)
    del REGISTRATIONS[r]


def drop_tensor(bytes, t):
    at(TENSORS, t)
    del TENSORS[t]


def drop_stream(bytes, s):
    at(STREAMS, s)
    del STREAMS[s]


def explain(bytes, of, device, s):
    tensor, held = at(TENSORS, of), at(STREAMS, s)
    called("explain", xd.explain, tensor, DEVICES[device], stream=held, copy=True)
    called("explain", xd.explain, tensor.device, DEVICES[device], stream=held, shape=[4])


def stream(bytes, s, device):
    STREAMS[s] = xd.Stream(DEVICES[device])


def default(bytes, s, device):
    STREAMS[s] = xd.current_stream(DEVICES[device])


def named(stream):
    """The integer that names the stream; not every plugin's streams have one."""
    try:
        return stream.native_handle
    except xd.DeviceError:
        return None


def handle(bytes, s):
    """The stream that the other side is to hold: this one, or one with a name that it waits for."""
    stream = at(STREAMS, s)
    if named(stream) is None:
        for device in DEVICES:
            helper = xd.Stream(device)
            if named(helper) is not None:
                WAITING.append((stream, helper))
                stream = helper
                break
        else:
            raise Empty
    return {"handle": (DEVICES.index(stream.device), stream.native_handle)}


def held():
    """The other side holds the stream that it was given."""
    while WAITING:
        stream, helper = WAITING.pop()
        HELPERS.append(helper)
        stream.wait(helper.record())


def ask(bytes, s):
    stream = at(STREAMS, s)
    for name in ("device", "native_handle", "__enter__", "__exit__", "__eq__", "__hash__"):
        CALLED.add("Stream." + name)
    native = named(stream)
    same = stream if native is None else xd.Stream(stream.device, native=native)
    with stream:
        current = xd.current_stream(stream.device)
    if not (same == stream == current and hash(same) == hash(stream)) or same != stream:
        raise RuntimeError("a stream is not found by its native handle")
    return {"idle": called("Stream.query", stream.query)}


def record(bytes, e, s):
    EVENTS[e] = called("Stream.record", at(STREAMS, s).record)


def wait(bytes, s, e):
    """Both ways to say it."""
    stream, event = at(STREAMS, s), at(EVENTS, e)
    called("Stream.wait", stream.wait, event)
    called("Event.wait", event.wait, stream)


def told(name):
    """Says on which stream work of others is, or lets the stream wait for what that needs."""
    return lambda bytes, t, s: called("Tensor." + name, getattr(at(TENSORS, t), name), at(STREAMS, s))


CALLS = {
    "Make": make,
    "Foreign": make,
    "Slice": slices,
    "Permute": permute,
    "Reshape": reshape,
    "Clone": clone,
    "To": to,
    "CopyFrom": copy_from,
    "Fill": fill,
    "Write": write,
    "Read": read,
    "Peek": seen,
    "WaitToRead": told("wait_to_read"),
    "WaitToWrite": told("wait_to_write"),
    "UsedOn": told("used_on"),
    "WrittenOn": told("written_on"),
    "Export": export,
    "Import": take_in,
    "Draft": draft,
    "Take": take,
    "Release": release,
    "Register": register,
    "Unregister": unregister,
    "Explain": explain,
    "Stream": stream,
    "Default": default,
    "Hold": lambda bytes, e, s, fails: handle(bytes, s),
    "Ask": ask,
    "Record": record,
    "Wait": wait,
    "SyncStream": lambda bytes, s: called("Stream.synchronize", at(STREAMS, s).synchronize),
    "SyncEvent": lambda bytes, e: at(EVENTS, e).synchronize(),
    "SyncTensor": lambda bytes, t: at(TENSORS, t).synchronize(),
    "SyncDevice": lambda bytes, device: DEVICES[device].synchronize(),
    "Trim": lambda bytes, device, keep: DEVICES[device].trim(keep),
    "DropTensor": drop_tensor,
    "DropStream": drop_stream,
}


def begin(places):
    """The devices of a case, by their places among the runtime's."""
    own = xd.devices()
    DEVICES[:] = [own[place] for place in json.loads(places)]


def perform(text):
    message = json.loads(text)
    (name, arguments), = message["call"].items()
    try:
        if name not in CALLS:
            raise Empty
        answer = CALLS[name](bytes.fromhex(message["bytes"]), **arguments)
    except Empty:
        answer = {"skipped": None}
    except xd.DeviceError as error:
        answer = {"failed": ["hook", error.code, str(error)]}
    except (BufferError, TypeError, ValueError) as error:
        answer = {"failed": ["refused", 0, f"{type(error).__name__}: {error}"]}
    except Exception as error:
        answer = {"failed": ["other", 0, f"{type(error).__name__}: {error}"]}
    return json.dumps(answer or {"done": None})


def clear():
    for places in PLACES:
        places.clear()
    HELPERS.clear()
    globals().pop("lent", None)


def uncovered():
    """The functions with a stream that were not called, as the package itself lists them."""

    def takes_stream(function):
        try:
            return "stream" in inspect.signature(function).parameters
        except (TypeError, ValueError):
            return False

    listed = {"Stream." + name for name in vars(xd.Stream) if not name.startswith("__")}
    for holder in (xd, xd._crossdock, xd.Tensor, xd.Event, xd.Device):
        prefix = holder.__name__ + "." if inspect.isclass(holder) else ""
        listed |= {prefix + name for name, value in vars(holder).items() if takes_stream(value)}
    return json.dumps(sorted(listed - CALLED))

"""Files as torch.save writes them, without PyTorch."""

import collections
import io
import pickle
import sys
import types
import unittest.mock
import zipfile

import numpy as np


class _Tensor:
    """Pickles as PyTorch's tensors do."""

    def __init__(self, torch, array):
        self.torch, self.array = torch, array

    def __reduce__(self):
        a = self.array
        strides = tuple(step // a.itemsize for step in a.strides)
        return self.torch.rebuild, (_Storage(self.torch, a), 0, a.shape, strides, False, collections.OrderedDict())


DEVICE = "cpu"  # where the storages were
STORAGES = {"float32": "FloatStorage", "float64": "DoubleStorage", "int64": "LongStorage"}


class _Storage:
    def __init__(self, torch, array):
        self.kind, self.array = getattr(torch, STORAGES[array.dtype.name]), array


class _Pickler(pickle.Pickler):
    def __init__(self, file, torch, storages):
        super().__init__(file, protocol=2)
        self.torch, self.storages = torch, storages

    def reducer_override(self, obj):
        if type(obj) is np.ndarray and obj.dtype.name in STORAGES:
            return _Tensor(self.torch, np.array(obj, order="C")).__reduce__()
        return NotImplemented

    def persistent_id(self, obj):
        if not isinstance(obj, _Storage):
            return None
        self.storages.append(obj.array.tobytes())
        return "storage", obj.kind, str(len(self.storages) - 1), DEVICE, obj.array.size


def fake_torch():
    """Modules with the names that PyTorch's files refer to."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")

    def rebuild(*_):
        raise AssertionError("never called")

    rebuild.__module__, rebuild.__qualname__, rebuild.__name__ = (
        "torch._utils",
        "_rebuild_tensor_v2",
        "_rebuild_tensor_v2",
    )
    utils._rebuild_tensor_v2 = rebuild
    for name in STORAGES.values():
        setattr(torch, name, type(name, (), {"__module__": "torch", "__qualname__": name}))
    torch.rebuild = rebuild
    return torch, {"torch": torch, "torch._utils": utils}


def save_checkpoint(path, state, wrap=lambda state: state):
    """Writes a mapping of names to arrays in the format of torch.save."""
    save_module(path, wrap(collections.OrderedDict(state)), {})


def save_module(path, obj, packages):
    """Writes an object in the format of torch.save: a zip archive with a pickle and the storages.

    packages: name -> module, for the classes of the object that are not importable."""
    torch, modules = fake_torch()
    storages, text = [], io.BytesIO()
    with unittest.mock.patch.dict(sys.modules, {**packages, **modules}):
        _Pickler(text, torch, storages).dump(obj)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", text.getvalue())
        for k, data in enumerate(storages):
            archive.writestr(f"model/data/{k}", data)

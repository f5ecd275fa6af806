"""Small ONNX models for the tests."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def mean_colour(
    path, shape=("n", 3, 32, 32), metadata=None, kind=TensorProto.FLOAT, outputs=("colour",)
):
    """A model whose output `colour` is the mean colour, and whose output `double` is twice that."""
    rank = len(shape)
    channel = next(axis for axis in ((1, 3) if rank == 4 else (2, 1, 4)) if shape[axis] == 3)
    axes = np.array([axis for axis in range(1, rank) if axis != channel], np.int64)
    nodes = [helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT)]
    nodes.append(helper.make_node("ReduceMean", ["f", "axes"], ["colour"], keepdims=0))
    nodes.append(helper.make_node("Add", ["colour", "colour"], ["double"]))
    told = [helper.make_tensor_value_info(one, TensorProto.FLOAT, [shape[0], 3]) for one in outputs]
    given = [helper.make_tensor_value_info("x", kind, shape)]
    graph = helper.make_graph(nodes, "g", given, told, [numpy_helper.from_array(axes, "axes")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    for key, value in (metadata or {}).items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.save(model, path)
    return path

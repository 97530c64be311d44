"""Stands in for ONNX Runtime with a CUDA provider, for tests of gpu_figures.py: it takes the calls and computes nothing. METAC_STAND_IN_FAILS=onnxruntime: no model is taken."""
import os


def get_available_providers():
    return ["CUDAExecutionProvider", "CPUExecutionProvider"]


class _Binding:
    def __init__(self):
        self.bound = {}

    def _bind(self, name, device, index, kind, shape, address):
        assert device == "cuda" and index == 0 and address, (device, index, address)
        self.bound[name] = kind, shape

    bind_input = bind_output = _bind


class InferenceSession:
    def __init__(self, path, providers):
        assert os.path.getsize(path) > 0 and providers[0][0] == "CUDAExecutionProvider" and providers[0][1]["use_tf32"] == 1, providers
        if "onnxruntime" in os.environ.get("METAC_STAND_IN_FAILS", ""):
            raise RuntimeError("no such operator")

    def io_binding(self):
        return _Binding()

    def run_with_iobinding(self, binding):
        assert set(binding.bound) == {"input", "output"}, binding.bound

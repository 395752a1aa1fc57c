"""The package on the software GPU."""

from types import SimpleNamespace

import numpy as np
import pytest

import warpproof
from warpproof._arrays import extent

SCALE = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 x, .param .u32 n)
{
    .reg .pred %p; .reg .b32 %r<6>; .reg .f32 %f<3>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [x];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p, %r2, %r1;
    @%p ret;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.f32 %f1, [%rd3];
    add.f32 %f2, %f1, %f1;
    st.global.f32 [%rd3], %f2;
    ret;
}
"""


def test_a_launch_writes_to_the_host_array():
    x = np.arange(8, dtype=np.float32)
    report = warpproof.launch(SCALE, 1, 32, x, 8)
    np.testing.assert_array_equal(x, 2 * np.arange(8))
    assert report.findings == [] and report.launches == 1


def test_views_of_one_array_share_its_memory():
    x = np.arange(16, dtype=np.float32)
    warpproof.launch(SCALE, 1, 32, x[4:8], 4)
    np.testing.assert_array_equal(x[4:8], [8, 10, 12, 14])
    np.testing.assert_array_equal(np.delete(x, range(4, 8)), [0, 1, 2, 3, *range(8, 16)])


def test_an_access_behind_an_array_is_found():
    report = warpproof.launch(SCALE, 1, 32, np.ones(8, np.float32), 9)
    assert [finding.kind for finding in report.findings] == ["bounds"]
    assert "`argument 1` (32 bytes)" in report.findings[0].message
    # The next launch is not affected.
    assert warpproof.launch(SCALE, 1, 32, np.ones(8, np.float32), 8).findings == []


def test_findings_recur_in_each_report():
    reports = [warpproof.launch(SCALE, 1, 32, np.ones(8, np.float32), 9) for _ in range(2)]
    assert [len(report.errors) for report in reports] == [1, 1]


def test_reports_are_for_people_and_notebooks():
    report = warpproof.launch(SCALE, 1, 32, np.ones(8, np.float32), 9)
    assert "error[bounds]" in str(report) and "errors: 1, notes: 0" in str(report)
    assert "<b" in report._repr_html_()
    with pytest.raises(warpproof.KernelError, match="bounds"):
        report.raise_for_errors()


def test_device_arrays_have_the_interface_of_cuda():
    x = warpproof.to_device(np.arange(8, dtype=np.float32))
    assert x.__cuda_array_interface__["version"] == 3
    warpproof.launch(SCALE, 1, 32, x, 8)
    np.testing.assert_array_equal(x.copy_to_host(), 2 * np.arange(8))


def test_a_wrong_number_of_arguments_is_refused():
    with pytest.raises(TypeError, match="2 parameters"):
        warpproof.launch(SCALE, 1, 32, np.ones(8, np.float32))


def test_extents_of_strided_arrays():
    x = np.zeros((4, 6), np.float32)
    whole = extent(x)
    assert whole is not None and whole.end - whole.start == 96
    part = extent(x[1:3, ::2])
    assert part is not None and (part.start - whole.start, part.end - whole.start) == (24, 68)
    backward = extent(x[::-1])
    assert backward is not None and (backward.start, backward.end) == (whole.start, whole.end)
    assert extent(3) is None and extent(np.float32(3)) is None


def test_cuda_source_is_compiled():
    source = "__global__ void twice(float *x) { x[threadIdx.x] *= 2; }"
    x = np.ones(32, np.float32)
    warpproof.launch(source, 1, 32, x, kernel="twice")
    np.testing.assert_array_equal(x, 2)


class Tensor:
    """What the package uses of a CPU tensor of PyTorch: a view of four elements from the third on."""

    def __init__(self, storage):
        self.storage = storage
        self.device = SimpleNamespace(type="cpu")

    def data_ptr(self):
        return self.storage.ctypes.data + 8

    def untyped_storage(self):
        return SimpleNamespace(data_ptr=lambda: self.storage.ctypes.data, nbytes=lambda: self.storage.nbytes)


def test_a_cpu_tensor_is_copied_with_its_storage():
    storage = np.arange(8, dtype=np.float32)
    report = warpproof.launch(SCALE, 1, 32, Tensor(storage), 4)
    np.testing.assert_array_equal(storage, [0, 1, 4, 6, 8, 10, 6, 7])
    assert report.findings == []


def test_lines_of_inline_assembly_are_those_of_the_call():
    ptx = "\t.loc\t1 9 21\n\t// begin inline asm\n\t.loc\t1 10 21\n\tld;\n\t// end inline asm\n\t.loc\t1 11 5\n"
    pytest.importorskip("triton")
    from warpproof.triton import _with_lines

    assert [line for line in _with_lines(ptx).split("\n") if ".loc" in line] == ["\t.loc\t1 9 21", "\t.loc\t1 9 21", "\t.loc\t1 11 5"]

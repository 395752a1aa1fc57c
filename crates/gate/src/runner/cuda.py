"""Drives a CUDA device for the gate, through the driver's own library and nothing else.

Requests come as lines of JSON, each gets one line of answer. Python 3.8 or later, no packages. Whoever started it has
closed its input when it is no longer wanted. Not tested on hardware yet: the tests run it on a stand-in for the driver.
"""

import ctypes
import json
import sys

MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
FLUSH_BYTES = 256 << 20  # More than the second-level cache of any device.
CAPTURE_THREAD_LOCAL = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
KEPT_GRAPHS = 16  # Batches of two programs in the lengths that are tried.


class Driver:
    def __init__(self, libcuda, libnvml):
        try:
            self.cuda = ctypes.CDLL(libcuda)
        except OSError as error:
            raise RuntimeError("no NVIDIA driver: %s" % error)
        self.call("cuInit", 0)
        self.device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(self.device), 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.call("cuCtxSetCurrent", context)
        self.modules = {}
        self.loaded = 0
        self.functions = {}
        self.graphs = {}
        self.flush = None
        # The legacy stream cannot be captured. This one still waits for it, and so for copies.
        self.stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(self.stream), 0)
        self.begin, self.end = self.event(), self.event()
        self.nvml = Management(libnvml, self.identity())

    def call(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            try:
                self.cuda.cuGetErrorString(code, ctypes.byref(text))
            except AttributeError:
                pass
            said = text.value.decode(errors="replace") if text.value else "no description"
            raise RuntimeError("%s: error %d, %s" % (name, code, said))

    def event(self):
        event = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(event), 0)
        return event

    def identity(self):
        identity = (ctypes.c_ubyte * 16)()
        self.call("cuDeviceGetUuid", identity, self.device)
        return bytes(identity).hex()

    def name(self):
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, 256, self.device)
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        short = self.identity()[:8]
        # The driver's own version tells more than the version of CUDA that it speaks.
        driver = self.nvml.driver() or "CUDA %d.%d" % (version.value // 1000, version.value % 1000 // 10)
        return "%s, GPU %s, driver %s" % (text.value.decode(errors="replace"), short, driver)

    def load(self, ptx):
        module = ctypes.c_void_p()
        log = ctypes.create_string_buffer(8192)
        # CU_JIT_ERROR_LOG_BUFFER and its size.
        options = (ctypes.c_int * 2)(5, 6)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), 8192)
        image = ctypes.c_char_p(ptx.encode())
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(module), image, 2, options, values)
        except RuntimeError as error:
            raise RuntimeError("%s; %s" % (error, log.value.decode(errors="replace")))
        # A number is given once: what is kept by it is never another module's.
        self.loaded += 1
        self.modules[self.loaded] = module
        return self.loaded

    def unload(self, module):
        for key in [key for key in self.graphs if module in key[0]]:
            self.destroy(self.graphs.pop(key))
        for key in [key for key in self.functions if key[0] == module]:
            del self.functions[key]
        self.call("cuModuleUnload", self.modules.pop(module))

    def allocate(self, count):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(count))
        return address.value

    def function(self, module, kernel, shared):
        key = (module, kernel)
        if key not in self.functions:
            function = ctypes.c_void_p()
            self.call("cuModuleGetFunction", ctypes.byref(function), self.modules[module], kernel.encode())
            self.functions[key] = function
        function = self.functions[key]
        if shared > 48 << 10:
            self.call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, shared)
        return function

    def prepared(self, launches):
        """What a launch needs, made before the clock runs."""
        ready = []
        for one in launches:
            function = self.function(one["module"], one["kernel"], one["shared"])
            data = bytes.fromhex(one["params"])
            block = ctypes.create_string_buffer(data, len(data))
            pointers = (ctypes.c_void_p * 1)(ctypes.addressof(block))
            sizes = [ctypes.c_uint(n) for n in one["grid"] + [one["block"], 1, 1, one["shared"]]]
            ready.append((function, sizes, pointers, block))
        return ready

    def launch(self, ready):
        for function, sizes, pointers, _ in ready:
            self.call("cuLaunchKernel", function, *sizes, self.stream, pointers, None)

    def synchronise(self):
        self.call("cuCtxSynchronize")

    def graph(self, launches, repeat):
        """The launches, so many times, as one graph: the device goes from one to the next without the host."""
        key = (tuple(one["module"] for one in launches), json.dumps(launches), repeat)
        found = self.graphs.pop(key, None)
        if found is None:
            found = self.captured(self.prepared(launches), repeat)
            while len(self.graphs) >= KEPT_GRAPHS:
                self.destroy(self.graphs.pop(next(iter(self.graphs))))
        # The one that was used last stands last.
        self.graphs[key] = found
        return found

    def captured(self, ready, repeat):
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuStreamBeginCapture_v2", self.stream, CAPTURE_THREAD_LOCAL)
        try:
            for _ in range(repeat):
                self.launch(ready)
        except RuntimeError:
            # A stream that stays in capture would take no other work; what was captured is not wanted.
            if self.cuda.cuStreamEndCapture(self.stream, ctypes.byref(graph)) == 0 and graph.value:
                self.cuda.cuGraphDestroy(graph)
            raise
        self.call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        try:
            self.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
        finally:
            self.cuda.cuGraphDestroy(graph)
        try:
            self.call("cuGraphUpload", executable, self.stream)
        except RuntimeError:
            self.cuda.cuGraphExecDestroy(executable)
            raise
        return executable

    def destroy(self, executable):
        self.call("cuGraphExecDestroy", executable)

    def time(self, launches, repeat, cold):
        graph = self.graph(launches, repeat)
        if self.flush is None:
            self.flush = self.allocate(FLUSH_BYTES)
        self.synchronise()
        before = self.nvml.reading()
        # The write empties the cache, and keeps the device busy until both events and the graph are queued. An idle device
        # would stamp the first event at once, and the host's way to the graph would be in the time.
        flush, size = ctypes.c_uint64(self.flush), ctypes.c_size_t(FLUSH_BYTES)
        self.call("cuMemsetD8Async", flush, ctypes.c_ubyte(0), size, self.stream)
        if not cold:
            self.call("cuGraphLaunch", graph, self.stream)
        self.call("cuEventRecord", self.begin, self.stream)
        self.call("cuGraphLaunch", graph, self.stream)
        self.call("cuEventRecord", self.end, self.stream)
        self.call("cuEventSynchronize", self.end)
        elapsed = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(elapsed), self.begin, self.end)
        return {
            # Milliseconds as a float: whole nanoseconds are all it has.
            "elapsed_ps": round(elapsed.value * 1e6) * 1000,
            "before": before,
            "after": self.nvml.reading(),
        }


class Management:
    """Clocks, temperature and power by NVIDIA's management library; nothing where it does not know the device.

    The device is found by its id: the library counts devices in an order of its own, and readings of another would be wrong.
    """

    def __init__(self, name, identity):
        self.library = None
        groups = [identity[:8], identity[8:12], identity[12:16], identity[16:20], identity[20:]]
        uuid = ctypes.c_char_p(("GPU-" + "-".join(groups)).encode())
        try:
            library = ctypes.CDLL(name)
            handle = ctypes.c_void_p()
            if library.nvmlInit_v2() == 0 and library.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(handle)) == 0:
                self.library, self.handle = library, handle
        except (OSError, AttributeError):
            pass

    def driver(self):
        text = ctypes.create_string_buffer(96)
        if self.library and self.library.nvmlSystemGetDriverVersion(text, 96) == 0:
            return text.value.decode(errors="replace")
        return None

    def number(self, name, *arguments):
        value = ctypes.c_uint()
        if getattr(self.library, name)(self.handle, *arguments, ctypes.byref(value)) == 0:
            return value.value
        return None

    def reading(self):
        if not self.library:
            return {}
        found = {
            "sm_mhz": self.number("nvmlDeviceGetClockInfo", 1),
            "memory_mhz": self.number("nvmlDeviceGetClockInfo", 2),
            "temperature_c": self.number("nvmlDeviceGetTemperature", 0),
            "power_mw": self.number("nvmlDeviceGetPowerUsage"),
        }
        return {name: value for name, value in found.items() if value is not None}


def answer(driver, request):
    what = request["op"]
    if what == "load":
        return {"module": driver.load(request["ptx"])}
    if what == "unload":
        driver.unload(request["module"])
        return {}
    if what == "allocate":
        return {"address": driver.allocate(request["bytes"])}
    if what == "free":
        driver.call("cuMemFree_v2", ctypes.c_uint64(request["address"]))
        return {}
    if what == "write":
        data = bytes.fromhex(request["hex"])
        driver.call("cuMemcpyHtoD_v2", ctypes.c_uint64(request["address"]), data, ctypes.c_size_t(len(data)))
        return {}
    if what == "read":
        data = ctypes.create_string_buffer(request["bytes"])
        size = ctypes.c_size_t(request["bytes"])
        driver.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(request["address"]), size)
        return {"hex": data.raw.hex()}
    if what == "launch":
        driver.launch(driver.prepared(request["launches"]))
        driver.synchronise()
        return {}
    if what == "time":
        return driver.time(request["launches"], request["repeat"], request["cold"])
    raise RuntimeError("unknown request %r" % what)


def main():
    out = sys.stdout
    driver = None
    for line in sys.stdin:
        try:
            request = json.loads(line)
            if driver is None:
                driver = Driver(request["libcuda"], request["libnvml"])
            said = {"device": driver.name()} if request["op"] == "open" else answer(driver, request)
        except Exception as error:  # Whatever it is, the gate is told and goes on or gives up.
            said = {"error": "%s" % error}
        out.write(json.dumps(said) + "\n")
        out.flush()


main()

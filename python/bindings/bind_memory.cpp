// Locked pages as a Python buffer: whatever looks at one (a numpy array, a torch tensor) keeps it.
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>

#include "bindings.hpp"
#include "hushvec/locked_memory.hpp"
#include "os/os.hpp"

namespace hushvec::python {

namespace py = pybind11;

namespace {

py::dict named(const PageRefusals& refusals) {
    py::dict all;
    all["lock"] = refusals.lock;
    all["leave_out_of_dumps"] = refusals.leave_out_of_dumps;
    all["wipe_on_fork"] = refusals.wipe_on_fork;
    return all;
}

py::dict report() {
    const MemoryReport all = memory_report();
    py::dict words;
    words["mappings"] = all.mappings;
    words["bytes"] = all.bytes;
    words["locked_bytes"] = all.locked_bytes;
    words["key_slots"] = all.key_slots;
    words["key_bytes"] = all.key_bytes;
    words["locked_key_bytes"] = all.locked_key_bytes;
    words["key_refusals"] = named(all.key_refusals);
    return words;
}

}  // namespace

void bind_memory(py::module_& module) {
    py::class_<LockedPages, std::shared_ptr<LockedPages>>(module, "LockedPages", py::buffer_protocol())
        .def(py::init([](std::size_t size) {
                 const py::gil_scoped_release unlocked;   // locking a gigabyte touches every page of it
                 return std::make_shared<LockedPages>(size);
             }), py::arg("size"))
        .def_property_readonly("size", &LockedPages::size)
        .def_property_readonly("refusals", [](const LockedPages& self) { return named(self.refusals()); })
        .def_property_readonly("wiped_by_fork", &LockedPages::wiped_by_fork)
        .def("scrub", &LockedPages::scrub, py::call_guard<py::gil_scoped_release>())
        .def_buffer([](LockedPages& self) {
            return py::buffer_info(self.data(), static_cast<py::ssize_t>(self.size()), false);
        });
    module.def("memory_report", &report);
    module.def(
        "prefer_large_pages",
        [](std::uintptr_t address, std::size_t size) { os::prefer_large_pages(reinterpret_cast<void*>(address), size); },
        py::arg("address"), py::arg("size"));
    module.def("overwrite_freed_memory", &os::overwrite_freed_memory, py::arg("on"));
}

}  // namespace hushvec::python

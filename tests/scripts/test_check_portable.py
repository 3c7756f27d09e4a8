"""`make portable` for systems that cannot run here: which names a module for macOS leaves undefined, and what is asked for."""

import struct

import pytest

from scripts import check_portable

PYTHON, LIBRARY, ANY, ITSELF = "_PyList_New", 1, 0xFE, 0x00


def mach_o(path, symbols):
    """A file of nothing but a table of undefined symbols: (name, ordinal of the library that has it)."""
    strings, entries = b"\0", b""
    for name, library in symbols:
        entries += struct.pack("<IBBHQ", len(strings), 0x01, 0, library << 8, 0)
        strings += name.encode() + b"\0"
    begin = 32 + 24
    header = struct.pack("<8I", 0xFEEDFACF, 0x0100000C, 0, 8, 1, 24, 0, 0)
    table = struct.pack("<6I", 2, 24, begin, len(symbols), begin + len(entries), len(strings))
    path.write_bytes(header + table + entries + strings)
    return path


def test_names_of_python_may_be_undefined_and_those_of_a_library_are_defined(tmp_path):
    file = mach_o(tmp_path / "a.so", [(PYTHON, ANY), ("__Py_NoneStruct", ITSELF), ("_malloc", LIBRARY)])
    assert check_portable.undefined(file) == {PYTHON, "__Py_NoneStruct"}
    check_portable.check_names(file)


@pytest.mark.parametrize("library", [ANY, ITSELF])
def test_another_undefined_name_is_refused(tmp_path, library):
    file = mach_o(tmp_path / "a.so", [(PYTHON, ANY), ("_explicit_bzero", library)])
    with pytest.raises(check_portable.Failed, match="leaves undefined: _explicit_bzero"):
        check_portable.check_names(file)


def test_a_module_without_names_of_python_is_refused(tmp_path):
    with pytest.raises(check_portable.Failed, match="not even names of Python"):
        check_portable.check_names(mach_o(tmp_path / "a.so", [("_malloc", LIBRARY)]))


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "a.so").write_bytes(b"\x7fELF" + bytes(60))
    with pytest.raises(check_portable.Failed, match="is no 64-bit Mach-O file"):
        check_portable.undefined(tmp_path / "a.so")


def test_a_system_without_its_tools_is_skipped_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(check_portable, "BUILD", tmp_path)
    monkeypatch.setattr(check_portable.shutil, "which", lambda _: None)
    row, well = check_portable.checked("aarch64-linux")
    assert well
    assert row.tests == row.links == "skipped: no aarch64-linux-gnu-g++, qemu-aarch64"


def test_a_step_that_fails_is_not_well(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(check_portable, "BUILD", tmp_path)
    monkeypatch.setitem(check_portable.SYSTEMS, "x86_64-windows", lambda _row, log: check_portable.run(["false"], log))
    row, well = check_portable.checked("x86_64-windows")
    assert not well
    assert row.tests == "FAILED"
    assert "false: exit code 1" in capsys.readouterr().out

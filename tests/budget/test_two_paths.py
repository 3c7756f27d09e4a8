"""One ledger file reached by two paths: SQLite's log lies beside the path, so charges by one are not seen by the other."""

import os
import shutil
import sqlite3
import subprocess

import pytest

from hushvec._util import os_files as mounts
from hushvec.budget import PrivacyBudget, budget_keys, verify_ledger
from hushvec.errors import BudgetError


@pytest.fixture
def ledger(tmp_path):
    """A ledger of 10 with 1 spent, closed."""
    path = tmp_path / "a" / "b.sqlite"
    with PrivacyBudget(10.0, persist_key="k", store=path) as budget:
        budget.consume(1.0)
    (tmp_path / "b").mkdir()
    return path


def assert_refused(path, text):
    for use in (
        lambda: PrivacyBudget(10.0, persist_key="k", store=path),
        lambda: PrivacyBudget.reopen("k", store=path),
        lambda: budget_keys(path),
        lambda: verify_ledger("k", store=path),
    ):
        with pytest.raises(BudgetError, match=text):
            use()


class TestHardLinks:
    def test_no_name_is_opened(self, ledger, tmp_path):
        second = tmp_path / "b" / "b.sqlite"
        os.link(ledger, second)
        assert_refused(ledger, r"b\.sqlite must have one name, has 2 \(hard links\)")
        assert_refused(second, r"b\.sqlite must have one name, has 2 \(hard links\)")
        second.unlink()
        with PrivacyBudget.reopen("k", store=ledger) as budget:
            assert budget.consumed() == 1.0

    def test_a_name_made_while_the_ledger_is_open(self, ledger, tmp_path):
        second = tmp_path / "b" / "b.sqlite"
        with PrivacyBudget(10.0, persist_key="k", store=ledger) as budget:
            os.link(ledger, second)
            for use in (lambda: budget.consume(8.0), budget.consumed):
                with pytest.raises(BudgetError, match="must have one name"):
                    use()
            assert_refused(second, "must have one name")
            second.unlink()
            assert budget.consume(8.0).sequence == 3

    @pytest.mark.parametrize("log", ["-wal", "-shm"])
    def test_a_log_with_two_names(self, ledger, tmp_path, log):
        with PrivacyBudget(10.0, persist_key="k", store=ledger):
            os.link(f"{ledger}{log}", tmp_path / "second")
            assert_refused(ledger, rf"b\.sqlite{log} must have one name, has 2")


class TestMounts:
    @pytest.fixture
    def mount(self):
        """mount(source, target) binds a file; undone afterwards."""
        done = []

        def bind(source, target):
            finished = subprocess.run(["mount", "--bind", source, target], capture_output=True, check=False)
            if finished.returncode != 0:
                pytest.skip(f"a file cannot be mounted (run as root): {finished.stderr.decode().strip()}")
            done.append(target)

        yield bind
        for target in reversed(done):
            subprocess.run(["umount", target], check=True)

    @pytest.mark.parametrize("name", ["b.sqlite", "white space\tand \\ # ö.sqlite"])
    def test_a_file_that_is_mounted(self, ledger, tmp_path, mount, name):
        target = tmp_path / "b" / name
        target.touch()
        mount(ledger, target)
        assert_refused(target, "is a mount of its own.*mount its folder")
        with PrivacyBudget.reopen("k", store=ledger) as budget:
            assert budget.consumed() == 1.0

    @pytest.mark.parametrize("log", ["-wal", "-shm"])
    def test_a_log_that_is_mounted(self, ledger, tmp_path, mount, log):
        (tmp_path / "other").touch()
        target = ledger.with_name(f"b.sqlite{log}")
        target.touch()
        mount(tmp_path / "other", target)
        assert_refused(ledger, rf"b\.sqlite{log} is a mount of its own")

    def test_a_folder_that_is_mounted_has_the_same_log(self, ledger, tmp_path, mount):
        mount(ledger.parent, tmp_path / "b")
        with (
            PrivacyBudget.reopen("k", store=ledger) as first,
            PrivacyBudget.reopen("k", store=tmp_path / "b" / "b.sqlite") as second,
        ):
            first.consume(8.0)
            assert second.consumed() == 9.0

    @pytest.mark.parametrize("kind", ["nfs4", "cifs"])
    def test_a_network_file_system(self, ledger, tmp_path, monkeypatch, kind):
        lines = f"1 0 0:1 / / rw - ext4 /dev/x rw\n2 1 0:2 / {tmp_path} rw shared:1 - {kind} server:/home rw\n"
        (tmp_path / "mountinfo").write_text(lines)
        monkeypatch.setattr(mounts, "MOUNTINFO", tmp_path / "mountinfo")
        assert_refused(ledger, f"{tmp_path} is a network file system \\({kind}\\)")

    def test_no_list_of_mounts(self, ledger, tmp_path, monkeypatch):
        monkeypatch.setattr(mounts, "MOUNTINFO", tmp_path / "missing")
        assert_refused(ledger, "mounts must be known: No such file")

    def test_what_the_kernel_writes(self):
        content = (
            b"22 27 0:21 / /proc rw,relatime - proc proc rw\n"
            b"36 35 98:0 /mnt1 /a\\040b\\011c\\012d\\134e\\043f rw master:1 propagate_from:2 - fuse.ss\\040h x rw\n"
            b"37 35 98:0 /mnt1 /\xff rw shared:3 - ext4 /dev/root rw,errors=continue\n"
        )
        assert mounts.parsed(content) == [("/proc", "proc"), ("/a b\tc\nd\\e#f", "fuse.ss h"), (os.fsdecode(b"/\xff"), "ext4")]
        assert mounts.parsed(b"") == []

    def test_which_mount_holds_a_path(self):
        seen = [("/", "ext4"), ("/ab", "xfs"), ("/a", "nfs"), ("/a", "tmpfs")]
        holders = {path: mounts.holding(path, seen)[1] for path in ("/a/b", "/abc", "/ab", "/a")}
        assert holders == {"/a/b": "tmpfs", "/abc": "ext4", "/ab": "xfs", "/a": "tmpfs"}


class TestSymbolicLinks:
    @pytest.mark.parametrize("linked", ["file", "folder"])
    def test_they_lead_to_one_log(self, ledger, tmp_path, linked):
        path = tmp_path / "link"
        path.symlink_to(ledger if linked == "file" else ledger.parent)
        with (
            PrivacyBudget.reopen("k", store=ledger) as first,
            PrivacyBudget.reopen("k", store=path if linked == "file" else path / "b.sqlite") as second,
        ):
            first.consume(8.0)
            assert second.consumed() == 9.0

    def test_one_that_leads_elsewhere_later(self, ledger, tmp_path):
        path, other = tmp_path / "link.sqlite", tmp_path / "other.sqlite"
        PrivacyBudget(10.0, persist_key="k", store=other).close()
        path.symlink_to(ledger)
        with PrivacyBudget.reopen("k", store=path) as budget:
            path.unlink()
            path.symlink_to(other)
            with pytest.raises(BudgetError, match="removed or replaced"):
                budget.consume(1.0)

    def test_one_in_place_of_a_log(self, ledger, tmp_path):
        (tmp_path / "other").touch()
        ledger.with_name("b.sqlite-wal").symlink_to(tmp_path / "other")
        assert_refused(ledger, r"b\.sqlite-wal must be a plain file")


class TestWhileItIsOpen:
    @pytest.mark.parametrize("log", ["-wal", "-shm"])
    def test_a_log_that_is_removed(self, ledger, log):
        """Another process would make a new one, and neither would see the other's charges."""
        with PrivacyBudget.reopen("k", store=ledger) as budget:
            os.unlink(f"{ledger}{log}")
            with pytest.raises(BudgetError, match="removed or replaced"):
                budget.consume(1.0)

    def test_a_file_that_is_renamed(self, ledger):
        with PrivacyBudget(10.0, persist_key="k", store=ledger) as budget:
            ledger.rename(ledger.with_name("c.sqlite"))
            for _ in range(2):  # a new file is not made in its place
                with pytest.raises(BudgetError, match="nothing was charged"):
                    budget.consume(1.0)
            assert not ledger.exists()

    def test_a_file_that_is_replaced_stays_refused(self, ledger, tmp_path):
        """A budget is one ledger's: charges to another one at the same path would be named wrongly in receipts."""
        other = tmp_path / "other.sqlite"
        PrivacyBudget(10.0, persist_key="k", store=other).close()
        with PrivacyBudget(10.0, persist_key="k", store=ledger) as budget:
            other.rename(ledger)
            with pytest.raises(BudgetError, match="removed or replaced"):
                budget.consume(1.0)
            with pytest.raises(BudgetError, match="open the budget again"):
                budget.consume(1.0)
        with PrivacyBudget.reopen("k", store=ledger) as budget:
            assert budget.consumed() == 0.0


def test_a_copy_without_a_log_can_be_read(ledger, tmp_path):
    copy = tmp_path / "copy.sqlite"
    shutil.copy(ledger, copy)
    with sqlite3.connect(copy) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    assert verify_ledger("k", store=copy).holds

"""The budget of small calls: what is over it is named. Times themselves are no test: the program is for that."""

import small_calls


def test_a_call_over_its_budget_is_named_with_its_time():
    faults = small_calls.over_budget({"fill of 8, aes256": 5.01, "fill of 8, chacha20": 5.0})
    assert faults == ["fill of 8, aes256 must take at most 5.0 us, took 5.01"]


def test_each_cipher_has_both_calls_and_they_run():
    for cipher in small_calls.CIPHERS:
        calls = small_calls.small_calls(cipher)
        assert list(calls) == [f"fill of 8, {cipher}", f"clip-and-noise of a row of 384, {cipher}"]
        assert [call().shape for call in calls.values()] == [(8,), (1, 384)]


def test_a_slow_call_makes_the_program_fail(monkeypatch, capsys):
    monkeypatch.setattr(small_calls, "least_us", lambda call, calls, turns: 7.5)
    monkeypatch.setattr(small_calls, "two_threads", lambda samples, turns: {})
    monkeypatch.setattr("sys.argv", ["small_calls.py"])
    assert small_calls.main() == 1
    assert "fill of 8, chacha20 must take at most 5.0 us, took 7.5" in capsys.readouterr().err

# SPDX-License-Identifier: Apache-2.0
"""The rounds of a benchmark: in each, every contestant is run once for every case, in turn; figures are medians over the rounds.

So what disturbs the machine for a while disturbs all. Each round begins with another contestant.
"""

import dataclasses
import json
import os
import time

from contestants import Failure, execute, run_contestant, say


@dataclasses.dataclass
class Entry:
    """A contestant with the buffers that it is measured with."""

    contestant: object
    buffers: str = "malloc"

    def label(self):
        return self.contestant.name + ("" if self.buffers == "malloc" else f" ({self.buffers})")


class Figures:
    """What was measured: microseconds by (case number, entry number, bytes), a list of one a round."""

    def __init__(self):
        self.times = {}
        self.left_out = {}  # (case number, entry number): the sentence

    def add(self, case, entry, figures):
        for size, us in figures.items():
            self.times.setdefault((case, entry, size), []).append(us)

    def leave_out(self, case, entry, sentence):
        self.left_out[(case, entry)] = sentence

    def get(self, case, entry, size):
        """The list; empty where the entry was left out of the case."""
        return [] if (case, entry) in self.left_out else self.times.get((case, entry, size), [])


def measure_limit(program, case):
    """limit's lines: ({bytes: line}, the machine's line). Raises Failure."""
    sizes = ",".join(map(str, case.sizes))
    command = [program, "--ranks", str(case.ranks), "--sizes", sizes, "--budget-ms", str(case.budget_ms / 2)]
    command += ["--limit-s", str(case.timeout_s)]
    output = execute([command], case.timeout_s + 5)
    try:
        lines = [json.loads(line) for line in output.splitlines()]
        return {line["bytes"]: line for line in lines[:-1]}, lines[-1]
    except (ValueError, KeyError, IndexError) as e:
        raise Failure(f"the limit's figures cannot be read: {e}") from e


def one_round(number, cases, entries, figures, run=run_contestant):
    for c, case in enumerate(cases):
        for i in range(len(entries)):
            e = (i + number) % len(entries)
            entry = entries[e]
            if (c, e) in figures.left_out:
                continue
            try:
                figures.add(c, e, run(entry.contestant, dataclasses.replace(case, buffers=entry.buffers)))
            except Failure as failure:
                figures.leave_out(c, e, str(failure))
                say(f"{entry.label()} is left out of {case.ranks} ranks, {case.type}: {failure}")


def run_rounds(n_rounds, seconds, cases, entries, limit=None, run=run_contestant):
    """Up to n_rounds rounds, fewer where the next would not end within so many seconds. Returns (figures, limits, machine, rounds).

    limits: {(case number, bytes): [line, one a round]}; machine: {ranks: [line]}.
    """
    figures, limits, machine = Figures(), {}, {}
    begin, longest, done = time.monotonic(), 0.0, 0
    for number in range(n_rounds):
        now = time.monotonic() - begin
        if done and now + longest > seconds:
            say(f"stops after {done} rounds: another would not end within {seconds:.0f} s")
            break
        for c, case in enumerate(cases if limit else []):
            try:
                lines, whole = measure_limit(limit, case)
            except Failure as failure:
                say(f"no limit for {case.ranks} ranks: {failure}")
                continue
            machine.setdefault(case.ranks, []).append(whole)
            for size, line in lines.items():
                limits.setdefault((c, size), []).append(line)
        one_round(number, cases, entries, figures, run)
        done += 1
        longest = max(longest, time.monotonic() - begin - now)
        say(f"round {done} of {n_rounds}: {time.monotonic() - begin - now:.0f} s")
    return figures, limits, machine, done


def git_commit(folder):
    """The commit that is checked out, read without git; "" if there is none."""
    try:
        with open(os.path.join(folder, ".git", "HEAD"), encoding="ascii") as f:
            head = f.read().strip()
        if not head.startswith("ref: "):
            return head
        with open(os.path.join(folder, ".git", head[5:]), encoding="ascii") as f:
            return f.read().strip()
    except OSError:
        return ""

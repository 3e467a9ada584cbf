"""Offline tests of what soak.py computes; the run itself is `just soak`."""
import math
import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import soak  # noqa: E402

MIB = soak.MIB


def samples(memory):
    return [(second, memory(second), 50 * second) for second in range(200)]


class Memory(unittest.TestCase):
    def test_what_rises_at_first_and_then_stays_is_flat(self):
        words, problem = soak.flatness(samples(lambda second: min(second, 40) * 5 * MIB))
        self.assertIsNone(problem)
        self.assertIn("mean 200.0 MiB", words)

    def test_what_rises_to_the_end_is_not_unless_an_episode_may_cost_it(self):
        rising = samples(lambda second: (100 + second) * MIB)
        self.assertIn("memory grows", soak.flatness(rising)[1])
        self.assertIsNone(soak.flatness(rising, growth_kib=21)[1])

    def test_a_peak_is_not_flat(self):
        self.assertIn("peaks", soak.flatness(samples(lambda second: (300 if second == 150 else 100) * MIB))[1])

    def test_a_line_has_its_slope(self):
        self.assertAlmostEqual(soak.slope([(0, 1), (1, 3), (2, 5)]), 2)
        self.assertEqual(soak.slope([(1, 1), (1, 3)]), 0)


class Plan(unittest.TestCase):
    def test_there_are_as_many_episodes_as_asked_for(self):
        per_query = len(soak.SIZES) * len(soak.STRATEGIES)
        self.assertEqual(soak.plan_of(1), (1, 1))
        self.assertEqual(soak.plan_of(per_query + 1), (1, 2))
        repeats, sample = soak.plan_of(20_000)
        self.assertTrue(repeats > 1 and sample is None)

    def test_a_fifth_of_all_requests_meets_a_fault(self):
        shares = re.findall(r"when\.share = ([0-9.]+)", soak.SCRIPT.read_text(encoding="utf-8"))
        self.assertGreater(len(shares), 50)
        self.assertAlmostEqual(1 - math.prod(1 - float(share) for share in shares), soak.SHARE, delta=0.005)


class Files(unittest.TestCase):
    def test_half_a_line_is_none(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lines"
            lines = soak.Lines(path)
            self.assertEqual(lines.update(), 0)
            path.write_text('{"a": 1}\n{"a": 2}\n{"a"', encoding="utf-8")
            self.assertEqual(lines.update(), 2)
            self.assertEqual([line["a"] for line in soak.read_lines(path)], [1, 2])
            with open(path, "a", encoding="utf-8") as file:
                file.write(": 3}\n")
            self.assertEqual(lines.update(), 3)

    def test_outcomes_have_the_words_of_the_tables(self):
        self.assertEqual(soak.label({"kind": "completed"}), "completed")
        self.assertEqual(soak.label({"kind": "not_runnable", "why": "context", "detail": "x"}), "not_runnable(context)")
        self.assertEqual(soak.label({"kind": "failed", "error": "timeout", "message": "x"}), "failed(timeout)")


if __name__ == "__main__":
    unittest.main()

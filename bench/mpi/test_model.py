"""The model's arithmetic: counts by hand and by brute force, time of cases that can be told without a simulation."""
# SPDX-License-Identifier: Apache-2.0
import dataclasses
import importlib.util
import itertools
import math
import sys
import unittest

if importlib.util.find_spec("scipy") is None:
    print("skipped: this Python has no SciPy, by which speeds are fitted")
    sys.exit(77)

import clusters
import fit
import model
from model import Case, Machine, Network, Run

ORDERS = ("contiguous", "zigzag", "striped")


def positions(run):
    return range(run.first, run.first + run.step * run.count, run.step)


class Counts(unittest.TestCase):
    def test_shares_hold_every_position_once(self):
        for order in ORDERS:
            for length in (0, 1, 7, 16, 29):
                for ranks in (1, 2, 3, 5):
                    runs = [run for rank in range(ranks) for run in model.share(order, length, ranks, rank)]
                    held = sorted(p for run in runs for p in positions(run))
                    self.assertEqual(held, list(range(length)), (order, length, ranks))

    def test_pairs_are_those_that_a_causal_mask_lets_through(self):
        for step in (1, 3):
            for first in range(0, 12):
                for counts in ((4, 5), (5, 4), (1, 1), (0, 3)):
                    queries, keys = Run(first, step, counts[0]), Run(5, step, counts[1])
                    brute = sum(k <= q for q in positions(queries) for k in positions(keys))
                    self.assertEqual(model.pairs("causal", queries, keys), brute, (queries, keys))
                    self.assertEqual(model.pairs("full", queries, keys), counts[0] * counts[1])

    def test_all_ranks_together_attend_all_pairs(self):
        for order in ORDERS:
            case = Case("ring", 1303, 4, 2, 8, order=order, ranks=3)
            met = sum(model.ring_work(case, rank, owner).pairs for rank in range(3) for owner in range(3))
            self.assertEqual(met, 1303 * 1304 // 2)

    def test_zigzag_is_even_and_contiguous_is_not(self):
        def of_ranks(order):
            case = Case("ring", 4096, 4, 2, 8, order=order, ranks=4)
            return [sum(model.ring_work(case, rank, owner).pairs for owner in range(4)) for rank in range(4)]

        self.assertEqual(len(set(of_ranks("zigzag"))), 1)
        uneven = of_ranks("contiguous")
        self.assertAlmostEqual(uneven[3] / uneven[0], 7, delta=0.01)  # 2 R - 1

    def test_calls_of_the_core(self):
        # 8 heads of 64 positions are one call; of 4096 x 4096 each key head of each piece is one.
        self.assertEqual(model.meeting(Case("ring", 64, 8, 8, 64), Run(0, 1, 64), Run(0, 1, 64)).calls, 1)
        self.assertEqual(model.meeting(Case("ring", 4096, 8, 8, 64, mask="full"), Run(0, 1, 4096), Run(0, 1, 4096)).calls, 64)

    def test_bytes_that_the_ring_sends(self):
        case = Case("ring", 4096, 8, 2, 128, type="f32", transport="f32", ranks=2)
        block = 2048 * 2 * 2 * 128 * 4
        # Nobody but its owner attends the last chunk of the first rank.
        self.assertEqual([model.bytes_sent(case, rank) for rank in (0, 1)], [block // 2, block])
        contiguous = Case("ring", 4096, 8, 2, 128, order="contiguous", type="f32", transport="bf16", ranks=2)
        self.assertEqual([model.bytes_sent(contiguous, rank) for rank in (0, 1)], [block // 2, 0])

    def test_bytes_of_attention_by_heads(self):
        case = Case("ulysses", 4096, 8, 2, 128, order="contiguous", type="f32", transport="f32", ranks=2)
        self.assertEqual(model.bytes_sent(case, 0), 2048 * (4 + 2 + 4) * 128 * 4)


class Seconds(unittest.TestCase):
    machine = Machine({"f32": 1e9, "bf16": 2e9}, math.inf, 0.0, math.inf)

    def test_a_fast_network_leaves_the_arithmetic(self):
        case = Case("ring", 2048, 4, 2, 64, type="f32", transport="f32", mask="full", ranks=4)
        time = model.ring_time(case, self.machine, Network(0.0, math.inf))
        self.assertAlmostEqual(time.total, 4 * 2048 * 512 * 4 * 64 / 1e9)
        halved = model.ring_time(Case("ring", 2048, 4, 2, 64, mask="full", ranks=4), self.machine, Network(0.0, math.inf))
        self.assertAlmostEqual(halved.total, time.total / 2)

    def test_a_slow_network_leaves_the_bytes(self):
        case = Case("ring", 2048, 4, 2, 64, type="f32", transport="f32", mask="full", ranks=4)
        time = model.ring_time(case, Machine({"f32": 1e30}, math.inf, 0.0, math.inf), Network(0.0, 1e6))
        self.assertAlmostEqual(time.total, 3 * 512 * 2 * 2 * 64 * 4 / 1e6)
        with_latency = model.ring_time(case, Machine({"f32": 1e30}, math.inf, 0.0, math.inf), Network(1.0, 1e6))
        self.assertAlmostEqual(with_latency.total, time.total + 3 + model.AGREEMENTS * 2)

    def test_the_window_holds_back_what_travels_beside_computing(self):
        end = model.transfer_end
        self.assertEqual(end(1.0, 3.0, 2, Network(0.0, 100.0), 150), 2.5)  # done while computing
        self.assertEqual(end(1.0, 3.0, 2, Network(0.0, 100.0), 300), 4.0)  # and afterwards
        self.assertEqual(end(1.0, 3.0, 2, Network(0.0, 100.0, 0.0, 25.0), 150), 4.0)  # 50 of it before
        self.assertEqual(end(1.0, 1.0, 0, Network(0.5, 100.0), 100), 2.5)
        self.assertEqual(end(1.0, 3.0, 2, Network(0.5, 100.0), 0), 1.0)
        self.assertEqual(end(1.0, 1.0, 0, Network(0.5, 100.0, burst=60), 100), 1.9)  # 40 of it at the link's rate
        self.assertEqual(end(1.0, 1.0, 0, Network(0.5, 100.0, burst=60), 50), 1.5)

    def test_the_slowest_rank_holds_the_others(self):
        case = Case("ring", 4096, 4, 2, 64, order="contiguous", type="f32", transport="f32", ranks=2)
        time = model.ring_time(case, self.machine, Network(0.0, math.inf))
        self.assertAlmostEqual(time.total, max(time.computing))
        self.assertGreater(time.computing[1], 2.9 * time.computing[0])

    def test_a_rank_may_be_faster_alone(self):
        case = Case("ring", 4096, 4, 2, 64, order="contiguous", type="f32", transport="f32", ranks=2)
        faster = Machine({"f32": 1e9}, math.inf, 0.0, math.inf, 2, 2.0)
        seconds = [model.step_seconds(case, faster, works) for works, _ in model.ring_plan(case)]
        triangle, square = 2048 * 2049 / 2 * 4 * 4 * 64 / 1e9, 2048 * 2048 * 4 * 4 * 64 / 1e9
        for step, expected in enumerate(([triangle, triangle], [0, square / 2])):
            for mine, its in zip(seconds[step], expected):
                self.assertAlmostEqual(mine, its)

    def test_ranks_that_share_cores_leave_them_to_the_others(self):
        case = Case("ring", 4096, 4, 2, 64, order="contiguous", ranks=4)
        shared = Machine({"bf16": 1e9}, math.inf, 0.0, math.inf, 2, 1.5)
        self.assertEqual([model.faster(case, shared, active) for active in (4, 3, 2, 1)], [1, 4 / 3, 2, 3])
        self.assertEqual(model.faster(case, Machine({"bf16": 1e9}), 1), 1)

    def test_by_heads_nothing_is_computed_while_bytes_travel(self):
        case = Case("ulysses", 1024, 4, 4, 64, type="f32", transport="f32", mask="full", ranks=2)
        time = model.ulysses_time(case, self.machine, Network(0.0, 1e6))
        travel = 512 * (2 * 4 * 64 * 4) / 1e6  # two heads each of queries, keys, values and results
        self.assertAlmostEqual(time.total, 1024 * 1024 * 4 * 2 * 64 / 1e9 + travel)


class Clusters(unittest.TestCase):
    def test_one_rank_of_a_zigzag_tells_for_all(self):
        machine = Machine({"bf16": 1e12}, 1e11, 1e-5, 1e11)
        for network in (Network(1e-5, 1e10), Network(1e-5, 1e8), Network(0.0, 1e9, 0.0, 1e4)):
            case = Case("ring", 32768, 8, 2, 64, ranks=8)
            all_ranks, one = model.ring_time(case, machine, network), clusters.even_ring(case, machine, network)
            self.assertLess(model.off(one.total, all_ranks.total), 0.02)

    def test_sending_bounds_where_the_formula_says(self):
        speed, rate = 5e13, 100e9 / 8
        machine, network = Machine({"bf16": speed}, math.inf, 0.0, math.inf), Network(0.0, rate * clusters.ARRIVES)
        least = clusters.bound_positions(speed, rate)
        for part, bounds in ((0.9, True), (1.1, False)):
            nodes = 16
            ring = clusters.grid(int(part * least) * nodes, nodes, 1, machine, network)
            self.assertEqual(ring.sending_bounds, bounds)

    def test_groups_of_one_are_the_ring_and_no_time_beats_the_nodes(self):
        machine, network = clusters.machine_of(5e12), clusters.network_of(100e9 / 8)
        alone = clusters.grid(1048576, 64, 1, machine, network).total
        least, within = clusters.best(1048576, 64, machine, network)
        self.assertLessEqual(least, alone)
        self.assertIn(within, clusters.GROUPS)
        self.assertGreater(least, clusters.ideal(1048576, 64, 5e12))

    def test_seconds_are_written_in_fitting_units(self):
        self.assertEqual([clusters.seconds(s) for s in (7200, 90, 2.5, 0.0031, 4e-6)], ["2 h", "1.5 min", "2.5 s", "3.1 ms", "4 us"])


class Fitting(unittest.TestCase):
    def test_positive_numbers_for_which_a_function_is_least(self):
        found = fit.by_logarithms(lambda p: (p[0] - 3) ** 2 + 10 * (p[1] - 0.1) ** 2 + (p[0] - 3) * (p[1] - 0.1), [1.0, 1.0])
        self.assertAlmostEqual(found[0], 3, places=3)
        self.assertAlmostEqual(found[1], 0.1, places=3)

    def test_off_is_the_same_both_ways(self):
        self.assertAlmostEqual(model.off(2.0, 1.0), model.off(1.0, 2.0))


class FromRuns(unittest.TestCase):
    def test_a_fit_finds_the_speeds_that_made_the_runs(self):
        """Runs made by the model itself: what is held out is then predicted closely."""
        made = fit.Fitted(
            Machine({"f32": 5e10, "bf16": 9e10}, 1e10, 2e-5, 4e9, 2, 1.2),
            Network(5e-6, 5e9),
            Network(1e-4, 0.9, 3e-10, 1e6, fit.BURST),
            2,
            0.8,
        )
        calls = (
            ("ring", "zigzag", "causal", "f32"),
            ("ring", "contiguous", "causal", "f32"),
            ("ring", "contiguous", "full", "bf16"),
            ("ulysses", "zigzag", "causal", "f32"),
        )
        usual = itertools.product((None, "1gbit", "2.5gbit", "10gbit"), (512, 1024, 2048), (8,), (2,), calls)
        crowds = itertools.product((None, "1gbit"), (2048,), (8, 4), (4,), calls)
        runs = []
        for link, length, kv_heads, ranks, (call, order, mask, element) in itertools.chain(usual, crowds):
            case = Case(call, length, 8, kv_heads, 128, order=order, mask=mask, type=element, transport=element, ranks=ranks)
            machine = fit.at_pace(made.machine, case, 2, made.crowded if ranks > 2 else 1.0)
            time = model.time_of(case, machine, fit.network_of(made, link))
            of_ranks = [
                {"bytes_sent": model.bytes_sent(case, rank), "computing": time.computing[rank]} for rank in range(ranks)
            ]
            figures = {**dataclasses.asdict(case), "link": link, "probe": 0.02, "pace": 1.0}
            runs.append({**figures, "seconds": time.total, "of_ranks": of_ranks})
        kept = {"cores": 2, "runs": runs}
        errors = [one.off for one in fit.compared(kept, fit.fit(kept)) if one.held]
        self.assertEqual(len(errors), 4 * 4 + 2 * 4 + 2 * 4)
        self.assertLess(max(errors), 0.05)
        runs[0]["of_ranks"][0]["bytes_sent"] += 1
        with self.assertRaises(SystemExit):
            fit.fit(kept)


if __name__ == "__main__":
    unittest.main()

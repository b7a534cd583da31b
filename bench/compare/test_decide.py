"""Tests of the statistics, on made-up samples."""
import itertools
import math
import random
import unittest

import decide

LIMIT = 0.02


def rounds(random_numbers, count, slower, noise):
    """Logarithms of ratios, of which the median is 1 + slower."""
    return [math.log1p(slower) + random_numbers.gauss(0, noise) for _ in range(count)]


def answers(samples, limit):
    adjusted = decide.holm([decide.signed_rank_p(sample) for sample in samples])
    return [decide.answer(sample, p, limit) for sample, p in zip(samples, adjusted)]


class Answers(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(20)

    def test_equal_builds_are_the_same_in_suites_of_many_cases(self):
        alarms = 0
        for _ in range(30):
            suite = [rounds(self.random, 20, 0, 0.05) for _ in range(60)]
            alarms += any(answer != "same" for answer in answers(suite, LIMIT))
        self.assertLessEqual(alarms, 1)  # one in a hundred suites, were there no limit

    def test_without_a_correction_the_same_suites_would_raise_alarms(self):
        alarms = 0
        for _ in range(30):
            suite = [rounds(self.random, 20, 0, 0.05) for _ in range(60)]
            alarms += any(decide.answer(s, decide.signed_rank_p(s), LIMIT) != "same" for s in suite)
        self.assertGreater(alarms, 3)

    def test_one_percent_in_three_percent_of_noise_is_found_with_many_rounds(self):
        sample = rounds(self.random, 300, 0.01, 0.03)
        self.assertEqual(answers([sample], 0.005), ["slower"])
        self.assertEqual(answers([[-log for log in sample]], 0.005), ["faster"])

    def test_one_percent_is_the_same_where_two_are_the_limit(self):
        self.assertEqual(answers([rounds(self.random, 300, 0.01, 0.03)], LIMIT), ["same"])

    def test_a_large_difference_in_few_noisy_rounds_is_not_called_one(self):
        sample = [0.3, -0.2, 0.25, 0.1, -0.15, 0.2]
        self.assertGreater(decide.median(sample), math.log1p(LIMIT))
        self.assertEqual(answers([sample], LIMIT), ["same"])
        self.assertTrue(decide.too_noisy(sample, LIMIT))

    def test_outliers_on_one_side_change_nothing(self):
        sample = [(-1) ** i * 0.001 * (i + 1) for i in range(20)]
        for place in range(4):
            sample[place] = math.log(10)
        self.assertEqual(answers([sample], LIMIT), ["same"])
        slower = [0.04 + 0.0001 * i for i in range(20)]
        slower[0] = -math.log(10)
        self.assertEqual(answers([slower], LIMIT), ["slower"])

    def test_ties_and_zeros(self):
        self.assertEqual(answers([[0.0] * 20], LIMIT), ["same"])
        self.assertEqual(answers([[0.03] * 20], LIMIT), ["slower"])
        self.assertEqual(answers([[0.03, -0.03] * 10], LIMIT), ["same"])


class Parts(unittest.TestCase):
    def test_signed_rank_counts_every_choice_of_signs(self):
        numbers = random.Random(3)
        for count in range(1, 9):
            values = [numbers.choice([-3, -2, -1, -1, 0, 1, 2, 2]) for _ in range(count)]
            self.assertAlmostEqual(decide.signed_rank_p(values), self.counted(values), msg=str(values))

    def counted(self, values):
        values = [v for v in values if v]
        ranks = [sum(abs(o) < abs(v) for o in values) + (sum(abs(o) == abs(v) for o in values) + 1) / 2 for v in values]
        observed = abs(sum(r for r, v in zip(ranks, values) if v > 0) - sum(ranks) / 2)
        hits = [abs(sum(r for r, s in zip(ranks, signs) if s) - sum(ranks) / 2) >= observed - 1e-9
                for signs in itertools.product((0, 1), repeat=len(values))]
        return sum(hits) / len(hits)

    def test_signed_rank_of_five_with_one_sign(self):
        self.assertAlmostEqual(decide.signed_rank_p([1, 2, 3, 4, 5]), 2 / 32)

    def test_interval_is_that_of_the_tables(self):
        self.assertEqual(decide.interval(range(1, 21)), (6, 15))
        self.assertEqual(decide.interval(range(1, 7)), (1, 6))
        self.assertEqual(decide.interval([4]), (4, 4))
        self.assertEqual(decide.interval([4, 5]), (4, 5))

    def test_interval_holds_the_median_of_a_skewed_distribution(self):
        numbers = random.Random(5)
        inside = 0
        for _ in range(2000):
            low, high = decide.interval([numbers.expovariate(math.log(2)) for _ in range(15)])
            inside += low <= 1 <= high
        self.assertGreater(inside / 2000, 0.94)

    def test_so_many_rounds_that_a_difference_can_be_found(self):
        for count in (1, 2, 50, 200):
            sample = [0.04 + 0.0001 * i for i in range(decide.rounds_needed(count))]
            sample[0] = -0.001
            self.assertEqual(decide.answer(sample, count * decide.signed_rank_p(sample), LIMIT), "slower")

    def test_holm(self):
        adjusted = decide.holm([0.01, 0.04, 0.03, 0.005])
        for value, expected in zip(adjusted, (0.03, 0.06, 0.06, 0.02)):
            self.assertAlmostEqual(value, expected)
        self.assertEqual(decide.holm([0.9, 0.8]), [1.0, 1.0])
        self.assertEqual(decide.holm([]), [])

    def test_a_first_look_lets_go_only_what_is_well_within_the_limit(self):
        self.assertFalse(decide.suspicious([0.001, -0.002, 0.003, 0.0, -0.001, 0.5], LIMIT))
        self.assertTrue(decide.suspicious([0.011, 0.012, 0.013, 0.012, 0.011, 0.013], LIMIT))
        self.assertTrue(decide.suspicious([-0.03, 0.0, 0.0, 0.03, 0.03, 0.0], LIMIT))

    def test_lower_quartile_and_median(self):
        self.assertEqual(decide.lower_quartile([8, 1, 7, 2, 6, 3, 5, 4]), 3)
        self.assertEqual(decide.lower_quartile([9]), 9)
        self.assertEqual(decide.median([3, 1, 2, 10]), 2.5)


if __name__ == "__main__":
    unittest.main()

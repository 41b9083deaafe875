"""Kernel of the search for covers with few errors: drop factors, seed others, climb, go on.

Equation T53 of docs/theory.md. Rows and columns are packed, 64 entries to a word, so a gain is a
difference of two bit counts. A word of ones or zeros past the last entry is 0 and counts for
nothing.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import intrinsic

from noisyor._util.arrays import BinaryArray, BoolArray, FloatArray
from noisyor.engines.contract import ImprovedCover, ImproveOptions, NoiseKey
from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.scalar import combine, mix

_CLIMB = 30
"""Most passes over rows and columns without noise after each replacement."""

_ROUNDING = 1e-9
"""A gain has to be larger than this: sums of weights are rounded."""

_DOUBLINGS = 4
"""A new factor is the best of 1, 2, 4 or 8: chance finds what greed does not, and the reverse."""

_ONE = np.uint64(1)


@intrinsic
def _bit_count(typingctx, word):
    """Number of ones of a word: a single instruction."""

    def codegen(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def _lowest_bit(typingctx, word):
    """Place of the lowest one of a word that has some."""

    def codegen(context, builder, signature, arguments):
        return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

    return types.uint64(types.uint64), codegen


@njit(cache=True, nogil=True)
def _uniform(key):
    """Uniform variate of equation T18, strictly between 0 and 1."""
    return (types.float64(mix(key) >> types.uint64(11)) + 0.5) * (1.0 / 9007199254740992.0)


@njit(cache=True, nogil=True)
def _below(key, number, count):
    """Draw ``number`` of a key: one of 0, …, count - 1."""
    return min(int(_uniform(combine(key, number)) * count), count - 1)


@njit(cache=True, nogil=True)
def _difference(mask, ones, zeros, word, weights):
    """Ones less zeros that a word of a mask selects, by the weights of its entries if given."""
    chosen = mask & ones
    against = mask & zeros
    if len(weights) == 0:
        return types.float64(types.int64(_bit_count(chosen)) - types.int64(_bit_count(against)))
    total = 0.0
    left = chosen | against
    while left:
        place = _lowest_bit(left)
        weight = weights[64 * word + types.int64(place)]
        total += weight if (chosen >> place) & _ONE else -weight
        left &= left - _ONE
    return total


@njit(cache=True, nogil=True)
def _cover_line(bits, patterns, once, twice):
    """Entries that at least one, and at least two, of the patterns of a line cover."""
    for word in range(patterns.shape[1]):
        once[word] = 0
        twice[word] = 0
    for k in range(len(bits)):
        if bits[k]:
            for word in range(patterns.shape[1]):
                twice[word] |= once[word] & patterns[k, word]
                once[word] |= patterns[k, word]


@njit(cache=True, nogil=True)
def _sweep(ones, zeros, bits, patterns, packed, own, inner, temperature, key, once, twice):
    """Draw every bit of every line given the others; returns how many changed.

    ``ones`` and ``zeros`` (lines, words); ``bits`` (lines, factors) and the same ``packed``
    (factors, words of lines), both changed; ``patterns`` (factors, words); ``own`` weights of the
    lines and ``inner`` weights of their entries, each (0,) if all are 1.
    """
    n_words = ones.shape[1]
    changed = 0
    for line in range(len(ones)):
        scale = own[line] if len(own) else 1.0
        line_key = combine(key, line) if temperature > 0 else key
        _cover_line(bits[line], patterns, once, twice)
        for k in range(len(patterns)):
            gain = 0.0
            if bits[line, k]:
                for word in range(n_words):
                    mask = patterns[k, word] & ~twice[word]
                    gain += _difference(mask, ones[line, word], zeros[line, word], word, inner)
            else:
                for word in range(n_words):
                    mask = patterns[k, word] & ~once[word]
                    gain += _difference(mask, ones[line, word], zeros[line, word], word, inner)
            gain *= scale
            on = gain > _ROUNDING
            if temperature > 0:
                u = _uniform(combine(line_key, k))
                # the logarithm is only needed where the noise can turn the decision round
                if abs(gain) < 5.0 * temperature or u < 0.01 or u > 0.99:
                    on = gain + temperature * math.log(u / (1.0 - u)) > _ROUNDING
            if on != (bits[line, k] == 1):
                bits[line, k] = on
                packed[k, line >> 6] ^= _ONE << types.uint64(line & 63)
                _cover_line(bits[line], patterns, once, twice)
                changed += 1
    return changed


@njit(cache=True, nogil=True)
def _free(bits, patterns, free):
    """Entries (lines, words) that nothing covers."""
    for line in range(len(bits)):
        for word in range(patterns.shape[1]):
            covered = types.uint64(0)
            for k in range(len(patterns)):
                if bits[line, k]:
                    covered |= patterns[k, word]
            free[line, word] = ~covered


@njit(cache=True, nogil=True)
def _lines_of(pattern, ones, zeros, free, own, inner, lines):
    """Pack the lines that gain from covering the free entries of a pattern; their total gain."""
    total = 0.0
    lines[:] = 0
    for line in range(len(ones)):
        gain = 0.0
        for word in range(len(pattern)):
            mask = pattern[word] & free[line, word]
            gain += _difference(mask, ones[line, word], zeros[line, word], word, inner)
        if gain > _ROUNDING:
            total += gain * own[line] if len(own) else gain
            lines[line >> 6] |= _ONE << types.uint64(line & 63)
    return total


@njit(cache=True, nogil=True)
def _errors(ones, zeros, bits, patterns, own):
    """Weight of the wrong entries."""
    total = 0.0
    for line in range(len(ones)):
        wrong = 0
        for word in range(ones.shape[1]):
            covered = types.uint64(0)
            for k in range(len(patterns)):
                if bits[line, k]:
                    covered |= patterns[k, word]
            missed = _bit_count(ones[line, word] & ~covered)
            wrong += types.int64(missed + _bit_count(zeros[line, word] & covered))
        total += wrong * own[line] if len(own) else wrong
    return total


@njit(cache=True, nogil=True)
def _pack(bits, packed):
    """``bits`` (lines, factors) as words, ``packed`` (factors, words)."""
    packed[:] = 0
    for line in range(len(bits)):
        for k in range(len(packed)):
            if bits[line, k]:
                packed[k, line >> 6] |= _ONE << types.uint64(line & 63)


@njit(cache=True, nogil=True)
def _unpack(words, k, bits):
    """Bits of one factor, a column of ``bits`` (lines, factors)."""
    for line in range(len(bits)):
        bits[line, k] = (words[line >> 6] >> types.uint64(line & 63)) & _ONE


@njit(cache=True, nogil=True)
def _place(words, rank):
    """Line and bit of a one of ``words`` (lines, words): that of a rank, in order."""
    for line in range(len(words)):
        for word in range(words.shape[1]):
            left = words[line, word]
            count = types.int64(_bit_count(left))
            if rank < count:
                for _ in range(rank):
                    left &= left - _ONE
                return line, 64 * word + types.int64(_lowest_bit(left))
            rank -= count
    return -1, -1


@njit(cache=True, nogil=True)
def _count(words):
    """Number of ones of ``words`` (lines, words)."""
    total = 0
    for line in range(len(words)):
        for word in range(words.shape[1]):
            total += types.int64(_bit_count(words[line, word]))
    return total


@njit(cache=True, nogil=True)
def _seed_factor(by_row, by_column, weights, free_rows, free_columns, key, best_pattern, best_rows):
    """A new factor, the best of some that are seeded by ones that nothing covers.

    ``by_row`` and ``by_column`` are (ones, zeros); ``free_rows`` and ``free_columns`` what nothing
    covers, both ways. The packed columns and rows of the factor are written.
    """
    ones, zeros = by_row
    column_ones, column_zeros = by_column
    none = np.empty(0)
    pattern, rows = np.empty_like(best_pattern), np.empty_like(best_rows)
    uncovered = ones & free_rows
    total = _count(uncovered)
    best_pattern[:] = 0
    best_rows[:] = 0
    best = 0.0
    n_seeds = 1 << _below(key, 0, _DOUBLINGS) if total else 0
    for number in range(n_seeds):
        seed = combine(key, 1 + number)
        row, column = _place(uncovered, _below(seed, 0, total))
        kind = _below(seed, 1, 3)
        if kind == 0:
            pattern[:] = 0
            pattern[column >> 6] = _ONE << types.uint64(column & 63)
        else:
            pattern[:] = uncovered[row]
            if kind == 2:
                beside = column_ones[column : column + 1] & free_columns[column : column + 1]
                _, other = _place(beside, _below(seed, 2, _count(beside)))
                pattern &= uncovered[other]
        gain = _lines_of(pattern, ones, zeros, free_rows, weights, none, rows)
        for _ in range(_below(seed, 3, 3)):
            _lines_of(rows, column_ones, column_zeros, free_columns, none, weights, pattern)
            gain = _lines_of(pattern, ones, zeros, free_rows, weights, none, rows)
        if gain > best + _ROUNDING:
            best = gain
            best_pattern[:] = pattern
            best_rows[:] = rows


@njit(cache=True, nogil=True)
def _improve(
    by_row, by_column, weights, states, factors, steps, patience, sweeps, temperature, seed, start
):
    """Search from a cover: ``states`` (rows, factors) and ``factors`` (columns, factors), changed.

    ``by_row`` are the packed (ones, zeros) of the rows, ``by_column`` those of the columns. Returns
    the weight of the errors of the best cover and the number of steps.
    """
    ones, zeros = by_row
    column_ones, column_zeros = by_column
    n_factors = states.shape[1]
    none = np.empty(0)
    once = np.zeros(max(ones.shape[1], column_ones.shape[1]), dtype=np.uint64)
    twice = np.zeros_like(once)
    members = np.zeros((n_factors, column_ones.shape[1]), dtype=np.uint64)  # rows of each factor
    patterns = np.zeros((n_factors, ones.shape[1]), dtype=np.uint64)  # columns of each factor
    free_rows, free_columns = np.zeros_like(ones), np.zeros_like(column_ones)
    order = np.arange(n_factors)
    kept_states, kept_factors = states.copy(), factors.copy()
    fewest = np.inf
    step, stale = 0, 0
    while step <= steps and stale < patience and fewest > 0:
        key = combine(combine(seed, start), step)
        states[:] = kept_states
        factors[:] = kept_factors
        n_dropped = min(1 + _below(key, 0, max(2, n_factors // 4)), n_factors) if step else 0
        n_sweeps = _below(key, 1, sweeps + 1) if step else 0
        order[:] = np.arange(n_factors)
        for place in range(n_dropped):
            other = place + _below(combine(key, 2), place, n_factors - place)
            order[place], order[other] = order[other], order[place]
            states[:, order[place]] = 0
            factors[:, order[place]] = 0
        _pack(states, members)
        _pack(factors, patterns)
        for place in range(n_dropped):
            k = order[place]
            _free(states, patterns, free_rows)
            _free(factors, members, free_columns)
            seed_key = combine(combine(key, 3), place)
            _seed_factor(
                by_row,
                by_column,
                weights,
                free_rows,
                free_columns,
                seed_key,
                patterns[k],
                members[k],
            )
            _unpack(patterns[k], k, factors)
            _unpack(members[k], k, states)
        for sweep in range(n_sweeps + _CLIMB):
            heat = temperature if sweep < n_sweeps else 0.0
            sweep_key = combine(combine(key, 4), sweep)
            flips = _sweep(
                ones,
                zeros,
                states,
                patterns,
                members,
                weights,
                none,
                heat,
                combine(sweep_key, 0),
                once,
                twice,
            )
            flips += _sweep(
                column_ones,
                column_zeros,
                factors,
                members,
                patterns,
                none,
                weights,
                heat,
                combine(sweep_key, 1),
                once,
                twice,
            )
            if flips == 0 and sweep >= n_sweeps:
                break
        errors = _errors(ones, zeros, states, patterns, weights)
        stale = 0 if errors < fewest - _ROUNDING else stale + 1
        if errors <= fewest + _ROUNDING:
            fewest = errors
            kept_states[:] = states
            kept_factors[:] = factors
        step += 1
    states[:] = kept_states
    factors[:] = kept_factors
    return fewest, step - 1


def improve_packed(
    ones: BoolArray,
    observed: BoolArray,
    weights: FloatArray,
    states: BinaryArray,
    factors: BinaryArray,
    options: ImproveOptions,
    key: NoiseKey,
) -> ImprovedCover:
    """Pack rows and columns, search, unpack; see `noisyor.engines.contract.Engine`."""
    zeros = observed & ~ones
    ones = observed & ones
    members, columns = np.array(states, order="C"), np.array(factors.T, order="C")
    errors, steps = _improve(
        (_words(ones), _words(zeros)),
        (_words(ones.T), _words(zeros.T)),
        np.array(weights, dtype=np.float64),
        members,
        columns,
        options.steps,
        options.patience,
        options.sweeps,
        float(options.temperature),
        key.seed,
        key.step,
    )
    return ImprovedCover(members, np.ascontiguousarray(columns.T), float(errors), int(steps))


def _words(lines: BoolArray) -> npt.NDArray[np.uint64]:
    """Lines (n, entries) packed, (n, words); entry 0 is the lowest bit of word 0."""
    padded = np.pad(lines, ((0, 0), (0, -lines.shape[1] % 64)))
    packed = np.packbits(padded, axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view("<u8").astype(np.uint64, copy=False)

"""Boolean covers: flips of memberships, and the search for covers with few errors.

Equations T48 and T50 of docs/theory.md. The search drops factors, seeds others, climbs, and goes on
from the best cover. There rows and columns are packed, 64 entries to a word, so a gain is a
difference of two bit counts. A word of ones or zeros past the last entry is 0 and counts for
nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import float64, int64, types, uint64
from numba.extending import intrinsic

from noisyor._util.arrays import BinaryArray, BoolArray, FloatArray
from noisyor.engines.contract import ImprovedCover, ImproveOptions, NoiseKey
from noisyor.engines.numba.arguments import advance, pack, unpack
from noisyor.engines.numba.cache import inner, njit, small_code
from noisyor.engines.numba.scalar import combine, uniform_of

_MAX_SWEEPS = 20
"""Most passes over the causes of a row; the first one that changes nothing is the last."""

_MAX_CLIMB = 30
"""Most passes over rows and columns without noise after each replacement."""

_ROUNDING = 1e-9
"""A flip has to gain more than this: sums are rounded, and equal choices would flip for ever."""

_DOUBLINGS = np.int64(4)
"""A new factor is the best of 1, 2, 4 or 8: chance finds what greed does not, and the reverse."""

_ONE = np.uint64(1)

_N_DROPPED, _N_SWEEPS, _WHICH, _SEEDS, _HEAT = (np.uint64(number) for number in range(5))
_N_SEEDS = np.uint64(0)
_POSITION, _KIND, _BESIDE, _N_PASSES = (np.uint64(number) for number in range(4))
"""Keys of the draws of one step, of one factor, and of one seed of a factor."""


# ---- memberships of rows


class Memberships(NamedTuple):
    """A cover whose memberships are flipped.

    ``weight`` (rows, columns) gain from covering an entry; ``counts`` (rows, columns) how many
    causes cover it, kept up to date; ``states`` (rows, causes) memberships, changed in place;
    ``column[column_ptr[k]:column_ptr[k + 1]]`` columns of cause k; ``price`` (causes,) of one
    membership.
    """

    n_columns: int
    n_factors: int
    weight: npt.NDArray[np.float32]
    counts: npt.NDArray[np.int32]
    states: npt.NDArray[np.uint8]
    column_ptr: npt.NDArray[np.int64]
    column: npt.NDArray[np.int32]
    price: npt.NDArray[np.float64]


@njit("Boolean cover")
def flip_memberships(cover_address, begin, end):
    """Coordinate ascent on the memberships of rows ``begin:end``; returns how many were flipped."""
    cover = unpack(cover_address, Memberships)
    column_ptr, column, flipped = cover.column_ptr, cover.column, 0
    for row in range(begin, end):
        states = advance(cover.states, row * cover.n_factors)
        counts = advance(cover.counts, row * cover.n_columns)
        weight = advance(cover.weight, row * cover.n_columns)
        for _ in range(_MAX_SWEEPS):
            changed = 0
            for k in range(cover.n_factors):
                on = int64(states[k])
                gain = -cover.price[k]
                for position in range(column_ptr[k], column_ptr[k + 1]):
                    j = column[position]
                    # Without this cause the count is ``counts - on``: an entry that others cover
                    # too neither gains nor loses.
                    if counts[j] == on:  # covered by nothing else
                        gain += weight[j]
                if (on == 0 and gain > _ROUNDING) or (on == 1 and gain < -_ROUNDING):
                    states[k] = 1 - on
                    for position in range(column_ptr[k], column_ptr[k + 1]):
                        counts[column[position]] += 1 - 2 * on
                    changed += 1
            flipped += changed
            if changed == 0:
                break
    return flipped


# ---- covers with few errors


class Side(NamedTuple):
    """The rows of the matrix, or its columns: the *lines* of one side, their entries packed.

    ``ones``, ``zeros`` and ``free`` (lines, words), entries that are 1, 0, and that nothing covers;
    ``bits`` (lines, factors) and ``kept``, those of the best cover; ``members`` (factors,
    line_words), the same as ``bits``, packed. ``weights`` of rows: they weigh the lines of one side
    and the entries of the other.
    """

    n_lines: int
    n_words: int
    n_line_words: int
    ones: npt.NDArray[np.uint64]
    zeros: npt.NDArray[np.uint64]
    free: npt.NDArray[np.uint64]
    bits: npt.NDArray[np.uint8]
    kept: npt.NDArray[np.uint8]
    members: npt.NDArray[np.uint64]
    weights: npt.NDArray[np.float64]
    weighs_lines: bool
    weighs_entries: bool


class Search(NamedTuple):
    """A search; the last are scratch: an order of the factors, and words of lines."""

    rows: Side
    columns: Side
    n_factors: int
    options: ImproveOptions
    key: NoiseKey
    order: npt.NDArray[np.int64]
    once: npt.NDArray[np.uint64]
    twice: npt.NDArray[np.uint64]
    pattern: npt.NDArray[np.uint64]
    lines: npt.NDArray[np.uint64]


def improve_cover(
    ones: BoolArray,
    observed: BoolArray,
    weights: FloatArray,
    states: BinaryArray,
    factors: BinaryArray,
    options: ImproveOptions,
    key: NoiseKey,
) -> ImprovedCover:
    """Pack rows and columns, search, unpack; see `noisyor.engines.contract.Engine`."""
    zeros, ones = observed & ~ones, observed & ones
    weights = np.array(weights, dtype=np.float64)
    rows = _side(ones, zeros, states, weights, lines=True)
    columns = _side(ones.T, zeros.T, factors.T, weights, lines=False)
    n_factors, size = states.shape[1], max(rows.n_words, columns.n_words)
    words = (np.zeros(size, dtype=np.uint64) for _ in range(4))
    search = pack(Search(rows, columns, n_factors, options, key, np.arange(n_factors), *words))
    errors, steps = _search(search.address)
    return ImprovedCover(rows.bits, np.ascontiguousarray(columns.bits.T), errors, steps)


def _side(
    ones: BoolArray, zeros: BoolArray, bits: BinaryArray, weights: FloatArray, *, lines: bool
) -> Side:
    packed, given = _words(ones), len(weights) > 0
    n_line_words = -(-len(bits) // 64)
    return Side(
        len(bits),
        packed.shape[1],
        n_line_words,
        packed,
        _words(zeros),
        np.zeros_like(packed),
        np.array(bits, dtype=np.uint8, order="C"),
        np.array(bits, dtype=np.uint8, order="C"),
        np.zeros((bits.shape[1], n_line_words), dtype=np.uint64),
        weights,
        given and lines,
        given and not lines,
    )


def _words(lines: BoolArray) -> npt.NDArray[np.uint64]:
    """Lines (n, entries) packed, (n, words); entry 0 is the lowest bit of word 0."""
    padded = np.pad(lines, ((0, 0), (0, -lines.shape[1] % 64)))
    packed = np.packbits(padded, axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view("<u8").astype(np.uint64, copy=False)


@njit("search for covers")
def _search(search_address):
    """Search from a cover; returns the weight of the errors of the best one and the steps made.

    The bits of both sides are those of the best cover at the end.
    """
    search = unpack(search_address, Search)
    rows, columns, n_factors = search.rows, search.columns, search.n_factors
    options, order, fewest, step, stale = search.options, search.order, np.inf, 0, 0
    run_key = combine(uint64(search.key.seed), uint64(search.key.step))
    while step <= options.steps and stale < options.patience and fewest > 0:
        key = combine(run_key, uint64(step))
        _copy(rows.kept, rows.bits, rows.n_lines * n_factors)
        _copy(columns.kept, columns.bits, columns.n_lines * n_factors)
        n_dropped, n_sweeps = int64(0), int64(0)
        if step > 0:
            quarter = n_factors // 4 if n_factors >= 8 else int64(2)
            n_dropped = 1 + _below(key, _N_DROPPED, quarter)
            n_dropped = n_dropped if n_dropped < n_factors else n_factors
            n_sweeps = _below(key, _N_SWEEPS, options.sweeps + 1)
        for k in range(n_factors):
            order[k] = k
        for index in range(n_dropped):
            other = index + _below(combine(key, _WHICH), uint64(index), n_factors - index)
            order[index], order[other] = order[other], order[index]
            _drop(rows, n_factors, order[index])
            _drop(columns, n_factors, order[index])
        _pack_bits(rows, n_factors)
        _pack_bits(columns, n_factors)
        for index in range(n_dropped):
            _find_free(rows, columns.members, n_factors)
            _find_free(columns, rows.members, n_factors)
            _seed_factor(search, order[index], combine(combine(key, _SEEDS), uint64(index)))
            _unpack_bits(rows, n_factors, order[index])
            _unpack_bits(columns, n_factors, order[index])
        for sweep in range(n_sweeps + _MAX_CLIMB):
            heat = options.temperature if sweep < n_sweeps else 0.0
            sweep_key = combine(combine(key, _HEAT), uint64(sweep))
            flips = _sweep(search, rows, columns.members, heat, combine(sweep_key, uint64(0)))
            flips += _sweep(search, columns, rows.members, heat, combine(sweep_key, uint64(1)))
            if flips == 0 and sweep >= n_sweeps:
                break
        errors = _errors(rows, columns.members, n_factors)
        stale = 0 if errors < fewest - _ROUNDING else stale + 1
        if errors <= fewest + _ROUNDING:
            fewest = errors
            _copy(rows.bits, rows.kept, rows.n_lines * n_factors)
            _copy(columns.bits, columns.kept, columns.n_lines * n_factors)
        step += 1
    _copy(rows.kept, rows.bits, rows.n_lines * n_factors)
    _copy(columns.kept, columns.bits, columns.n_lines * n_factors)
    return fewest, step - 1


@inner()
def _copy(source, target, size):
    """Copy ``size`` elements."""
    small_code()
    for index in range(size):
        target[index] = source[index]


@intrinsic
def _bit_count(typingctx, word):
    """Number of ones of a word: a single instruction."""

    def codegen(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def _lowest_bit(typingctx, word):
    """Index of the lowest one of a word that has some."""

    def codegen(context, builder, signature, arguments):
        return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

    return types.uint64(types.uint64), codegen


@inner()
def _below(key, number, count):
    """Draw ``number`` of a key: one of 0, …, count - 1."""
    drawn = int64(uniform_of(combine(key, number)) * count)
    return drawn if drawn < count else count - 1


@inner(forceinline=True)
def _difference(side, mask, ones, zeros, word):
    """Ones less zeros that a word of a mask selects, by the weights of its entries if given."""
    chosen, against = mask & ones, mask & zeros
    if not side.weighs_entries:
        return float64(int64(_bit_count(chosen)) - int64(_bit_count(against)))
    total = 0.0
    left = chosen | against
    while left:
        bit = _lowest_bit(left)
        weight = side.weights[64 * word + int64(bit)]
        total += weight if (chosen >> bit) & _ONE else -weight
        left &= left - _ONE
    return total


@inner()
def _cover_line(search, side, bits, patterns):
    """Return the entries that at least one, and at least two, patterns of a line cover."""
    n_words = side.n_words
    for word in range(n_words):
        search.once[word] = 0
        search.twice[word] = 0
    for k in range(search.n_factors):
        if bits[k]:
            for word in range(n_words):
                pattern = patterns[k * n_words + word]
                search.twice[word] |= search.once[word] & pattern
                search.once[word] |= pattern


@inner()
def _sweep(search, side, patterns, temperature, key):
    """Draw every bit of every line given the others; return the number of changes.

    ``patterns`` (factors, words): the members of the other side.
    """
    n_words, changed = side.n_words, 0
    for line in range(side.n_lines):
        bits = advance(side.bits, line * search.n_factors)
        ones, zeros = advance(side.ones, line * n_words), advance(side.zeros, line * n_words)
        scale = side.weights[line] if side.weighs_lines else 1.0
        line_key = combine(key, uint64(line)) if temperature > 0 else key
        _cover_line(search, side, bits, patterns)
        for k in range(search.n_factors):
            gain, pattern = 0.0, advance(patterns, k * n_words)
            others = search.twice if bits[k] else search.once
            for word in range(n_words):
                mask = pattern[word] & ~others[word]
                gain += _difference(side, mask, ones[word], zeros[word], word)
            gain *= scale
            on = gain > _ROUNDING
            if temperature > 0:
                u = uniform_of(combine(line_key, uint64(k)))
                # the logarithm is only needed where the noise can turn the decision round
                if abs(gain) < 5.0 * temperature or u < 0.01 or u > 0.99:
                    on = gain + temperature * math.log(u / (1.0 - u)) > _ROUNDING
            if on != (bits[k] == 1):
                bits[k] = on
                side.members[k * side.n_line_words + (line >> 6)] ^= _ONE << uint64(line & 63)
                _cover_line(search, side, bits, patterns)
                changed += 1
    return changed


@inner()
def _covered(bits, patterns, n_factors, n_words, word):
    """Return the entries of a word that some pattern of a line covers."""
    covered = uint64(0)
    for k in range(n_factors):
        if bits[k]:
            covered |= patterns[k * n_words + word]
    return covered


@inner()
def _find_free(side, patterns, n_factors):
    """Entries that nothing covers."""
    for line in range(side.n_lines):
        bits = advance(side.bits, line * n_factors)
        for word in range(side.n_words):
            covered = _covered(bits, patterns, n_factors, side.n_words, word)
            side.free[line * side.n_words + word] = ~covered


@inner()
def _errors(side, patterns, n_factors):
    """Weight of the wrong entries."""
    total = 0.0
    for line in range(side.n_lines):
        bits, wrong = advance(side.bits, line * n_factors), 0
        for word in range(side.n_words):
            covered = _covered(bits, patterns, n_factors, side.n_words, word)
            missed = _bit_count(side.ones[line * side.n_words + word] & ~covered)
            extra = _bit_count(side.zeros[line * side.n_words + word] & covered)
            wrong += int64(missed + extra)
        total += wrong * side.weights[line] if side.weighs_lines else wrong
    return total


@inner()
def _pack_bits(side, n_factors):
    """Fill ``members`` from ``bits``."""
    for index in range(n_factors * side.n_line_words):
        side.members[index] = 0
    for line in range(side.n_lines):
        for k in range(n_factors):
            if side.bits[line * n_factors + k]:
                side.members[k * side.n_line_words + (line >> 6)] |= _ONE << uint64(line & 63)


@inner()
def _unpack_bits(side, n_factors, k):
    """Fill the bits of one factor from ``members``."""
    for line in range(side.n_lines):
        word = side.members[k * side.n_line_words + (line >> 6)]
        side.bits[line * n_factors + k] = (word >> uint64(line & 63)) & _ONE


@inner()
def _drop(side, n_factors, k):
    """Clear the bits of one factor."""
    for line in range(side.n_lines):
        side.bits[line * n_factors + k] = 0


@inner()
def _count_uncovered(side, first, last):
    """Number of ones of lines ``first`` to ``last`` that nothing covers."""
    total = int64(0)
    for index in range(first * side.n_words, last * side.n_words):
        total += int64(_bit_count(side.ones[index] & side.free[index]))
    return total


@inner()
def _find_uncovered(side, first, last, rank):
    """Line and entry of an uncovered one of lines ``first`` to ``last``: that of a rank."""
    small_code()
    for line in range(first, last):
        for word in range(side.n_words):
            left = side.ones[line * side.n_words + word] & side.free[line * side.n_words + word]
            count = int64(_bit_count(left))
            if rank < count:
                for _ in range(rank):
                    left &= left - _ONE
                return line, 64 * word + int64(_lowest_bit(left))
            rank -= count
    return int64(-1), int64(-1)


@inner()
def _lines_of(side, pattern, lines):
    """Pack the lines that gain from covering the free entries of a pattern; their total gain."""
    total = 0.0
    for word in range(side.n_line_words):
        lines[word] = 0
    for line in range(side.n_lines):
        gain = 0.0
        for word in range(side.n_words):
            index = line * side.n_words + word
            mask = pattern[word] & side.free[index]
            gain += _difference(side, mask, side.ones[index], side.zeros[index], word)
        if gain > _ROUNDING:
            total += gain * side.weights[line] if side.weighs_lines else gain
            lines[line >> 6] |= _ONE << uint64(line & 63)
    return total


@inner()
def _seed_factor(search, k, key):
    """Make factor k the best of some that are seeded by ones that nothing covers.

    The members of the factor on both sides are written.
    """
    small_code()
    rows, columns, pattern, lines = search.rows, search.columns, search.pattern, search.lines
    n_words, n_line_words, first = rows.n_words, rows.n_line_words, int64(0)
    best_pattern = advance(columns.members, k * n_words)
    best_lines = advance(rows.members, k * n_line_words)
    total = _count_uncovered(rows, first, rows.n_lines)
    for word in range(n_words):
        best_pattern[word] = 0
    for word in range(n_line_words):
        best_lines[word] = 0
    best = 0.0
    n_seeds = 1 << _below(key, _N_SEEDS, _DOUBLINGS) if total else 0
    for number in range(n_seeds):
        seed = combine(key, uint64(1 + number))
        row, column = _find_uncovered(rows, first, rows.n_lines, _below(seed, _POSITION, total))
        kind = _below(seed, _KIND, int64(3))
        for word in range(n_words):
            pattern[word] = rows.ones[row * n_words + word] & rows.free[row * n_words + word]
        if kind == 0:
            for word in range(n_words):
                pattern[word] = 0
            pattern[column >> 6] = _ONE << uint64(column & 63)
        elif kind == 2:
            count = _count_uncovered(columns, column, column + 1)
            _, other = _find_uncovered(columns, column, column + 1, _below(seed, _BESIDE, count))
            for word in range(n_words):
                index = other * n_words + word
                pattern[word] &= rows.ones[index] & rows.free[index]
        gain = _lines_of(rows, pattern, lines)
        for _ in range(_below(seed, _N_PASSES, int64(3))):
            _lines_of(columns, lines, pattern)
            gain = _lines_of(rows, pattern, lines)
        if gain > best + _ROUNDING:
            best = gain
            _copy(pattern, best_pattern, n_words)
            _copy(lines, best_lines, n_line_words)

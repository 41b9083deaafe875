"""Boolean covers: flips of memberships, and the search for covers with few errors.

Equations T48 and T50 of docs/theory.md. The search drops factors, seeds new ones, improves the
cover by flips, and continues from the best cover. Rows and columns are packed, 64 entries to a
word, so a gain is a difference of two bit counts. Bits past the last entry are 0 in ones and zeros
and do not count. A step changes few lines, and only bits that these changes may flip are compared
again.
"""

from __future__ import annotations

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

Words = npt.NDArray[np.uint64]

_MAX_SWEEPS = 20
"""Largest number of passes over the causes of a row; passes end when nothing changes."""

_MAX_CLIMB = 30
"""Largest number of passes over rows and columns after each replacement."""

_ROUNDING = 1e-9
"""Smallest gain of a flip: sums are rounded, and ties would otherwise flip forever."""

_MAX_DROPPED = np.int64(3)
"""Largest number of factors replaced in one step."""

_DOUBLINGS = np.int64(4)
"""A new factor is the best of 1, 2, 4 or 8 candidates; more candidates are greedier, fewer more
random."""

_ONE = np.uint64(1)

_N_DROPPED, _WHICH, _SEEDS = (np.uint64(number) for number in range(3))
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
    """Run coordinate ascent on memberships of rows ``begin:end``; return the number of flips."""
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
    """The rows of the matrix, or its columns: the *lines* of one side, 64 entries to a word.

    ``ones`` and ``zeros`` (lines, words): entries that are 1, and 0. The cover: ``bits`` (lines,
    factor_words), the factors of each line; ``members`` (factors, line_words), the lines of each
    factor; ``once`` and ``twice`` (lines, words), entries that at least one, and at least two, of
    the factors of a line cover. These four lie one behind the other in ``state``, and ``kept`` is
    the state of the best cover.

    A line is ``stale`` if its cover changed since its bits were last compared; a factor is
    ``changed`` if its lines on the other side did. ``weights`` of rows are weights of lines on one
    side and of entries on the other.
    """

    n_lines: int
    n_words: int
    n_line_words: int
    n_state: int
    weights: npt.NDArray[np.float64]
    weighs_lines: bool
    weighs_entries: bool
    ones: Words
    zeros: Words
    state: Words
    kept: Words
    bits: Words
    members: Words
    once: Words
    twice: Words
    stale: npt.NDArray[np.uint8]
    changed: npt.NDArray[np.uint8]


class Search(NamedTuple):
    """A search; ``order`` of the factors and a new factor's columns and rows are scratch."""

    rows: Side
    columns: Side
    options: ImproveOptions
    key: NoiseKey
    n_factors: int
    n_factor_words: int
    order: npt.NDArray[np.int64]
    pattern: Words
    lines: Words


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
    rows = _side(ones, zeros, states > 0, weights, lines=True)
    columns = _side(ones.T, zeros.T, factors.T > 0, weights, lines=False)
    n_factors = states.shape[1]
    scratch = (np.zeros(side.n_words, dtype=np.uint64) for side in (rows, columns))
    sizes = n_factors, -(-n_factors // 64)
    search = pack(Search(rows, columns, options, key, *sizes, np.arange(n_factors), *scratch))
    errors, steps = _search(search.address)
    found = (_unpacked(side.bits, side.n_lines, n_factors) for side in (rows, columns))
    return ImprovedCover(next(found), np.ascontiguousarray(next(found).T), errors, steps)


def _side(
    ones: BoolArray, zeros: BoolArray, bits: BoolArray, weights: FloatArray, *, lines: bool
) -> Side:
    packed, given = _words(ones), len(weights) > 0
    parts = _words(bits), _words(bits.T), np.zeros_like(packed), np.zeros_like(packed)
    state = np.concatenate([part.ravel() for part in parts])
    ends = np.cumsum([part.size for part in parts])
    return Side(
        len(bits),
        packed.shape[1],
        parts[1].shape[1],
        len(state),
        weights,
        given and lines,
        given and not lines,
        packed,
        _words(zeros),
        state,
        state.copy(),
        state[: ends[0]],
        state[ends[0] : ends[1]],
        state[ends[1] : ends[2]],
        state[ends[2] :],
        np.ones(len(bits), dtype=np.uint8),
        np.ones(bits.shape[1], dtype=np.uint8),
    )


def _words(lines: BoolArray) -> Words:
    """Pack lines (n, entries) to (n, words); entry 0 is the lowest bit of word 0."""
    padded = np.pad(lines, ((0, 0), (0, -lines.shape[1] % 64)))
    packed = np.packbits(padded, axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view("<u8").astype(np.uint64, copy=False)


def _unpacked(words: Words, n_lines: int, n_entries: int) -> BinaryArray:
    """Unpack lines to (n_lines, n_entries) of 0 and 1."""
    octets = words.astype("<u8").view(np.uint8).reshape(n_lines, -1)
    return np.unpackbits(octets, axis=1, count=n_entries, bitorder="little")


@njit("search for covers")
def _search(search_address):
    """Search from a cover; return the weight of the errors of the best cover, and the steps.

    The state of both sides is that of the best cover at the end.
    """
    search = unpack(search_address, Search)
    rows, columns, n_factors = search.rows, search.columns, search.n_factors
    options, order, fewest, step, stale = search.options, search.order, np.inf, 0, 0
    run_key, is_settled = combine(uint64(search.key.seed), uint64(search.key.step)), False
    while step <= options.steps and stale < options.patience and fewest > 0:
        key = combine(run_key, uint64(step))
        _restore(rows, n_factors, is_settled)
        _restore(columns, n_factors, is_settled)
        n_dropped = int64(0)
        if step > 0:
            n_dropped = 1 + _below(key, _N_DROPPED, _MAX_DROPPED)
            n_dropped = n_dropped if n_dropped < n_factors else n_factors
        for k in range(n_factors):
            order[k] = k
        for index in range(n_dropped):
            other = index + _below(combine(key, _WHICH), uint64(index), n_factors - index)
            order[index], order[other] = order[other], order[index]
            _flip_factor(search, rows, order[index])
            _flip_factor(search, columns, order[index])
            _clear_factor(rows, order[index])
            _clear_factor(columns, order[index])
        for index in range(n_dropped):
            _update_covers(search, rows, columns.members)
            _update_covers(search, columns, rows.members)
            _seed_factor(search, order[index], combine(combine(key, _SEEDS), uint64(index)))
            _flip_factor(search, rows, order[index])
            _flip_factor(search, columns, order[index])
        is_settled_now = False
        for _ in range(_MAX_CLIMB):
            flips = _sweep(search, rows, columns)
            flips += _sweep(search, columns, rows)
            if flips == 0:
                is_settled_now = True
                break
        _update_covers(search, rows, columns.members)
        _update_covers(search, columns, rows.members)
        errors = _errors(rows)
        stale = 0 if errors < fewest - _ROUNDING else stale + 1
        if errors <= fewest + _ROUNDING:
            fewest, is_settled = errors, is_settled_now
            _copy(rows.state, rows.kept, rows.n_state)
            _copy(columns.state, columns.kept, columns.n_state)
        step += 1
    _copy(rows.kept, rows.state, rows.n_state)
    _copy(columns.kept, columns.state, columns.n_state)
    return fewest, step - 1


@inner()
def _copy(source, target, size):
    """Copy ``size`` elements."""
    small_code()
    for index in range(size):
        target[index] = source[index]


@inner()
def _restore(side, n_factors, is_settled):
    """Return to the best cover. If no flip of it gains, no bit has to be compared."""
    small_code()
    _copy(side.kept, side.state, side.n_state)
    for line in range(side.n_lines):
        side.stale[line] = 0 if is_settled else 1
    for k in range(n_factors):
        side.changed[k] = 0 if is_settled else 1


@intrinsic
def _bit_count(typingctx, word):
    """Return the number of ones of a word: a single instruction."""

    def codegen(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def _lowest_bit(typingctx, word):
    """Return the index of the lowest one of a word, which must have one."""

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
    """Return ones minus zeros that a word of a mask selects, weighted if weights are given."""
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
def _cover_line(search, side, line, patterns):
    """Fill in the entries that at least one, and at least two, factors of a line cover."""
    n_words = side.n_words
    bits = advance(side.bits, line * search.n_factor_words)
    once, twice = advance(side.once, line * n_words), advance(side.twice, line * n_words)
    for word in range(n_words):
        once[word] = 0
        twice[word] = 0
    for factor_word in range(search.n_factor_words):
        left = bits[factor_word]
        while left:
            k = 64 * factor_word + int64(_lowest_bit(left))
            left &= left - _ONE
            for word in range(n_words):
                pattern = patterns[k * n_words + word]
                twice[word] |= once[word] & pattern
                once[word] |= pattern


@inner()
def _mark_lines(side, k):
    """Mark the lines of a factor as stale."""
    for word in range(side.n_line_words):
        left = side.members[k * side.n_line_words + word]
        while left:
            side.stale[64 * word + int64(_lowest_bit(left))] = 1
            left &= left - _ONE


@inner()
def _update_covers(search, side, patterns):
    """Update the covers of lines that changed; the lines stay marked as stale."""
    for k in range(search.n_factors):
        if side.changed[k]:
            _mark_lines(side, k)
    for line in range(side.n_lines):
        if side.stale[line]:
            _cover_line(search, side, line, patterns)


@inner()
def _sweep(search, side, other):
    """Set every bit of every line to its better value, given the others; return the flips.

    A bit is compared only if the cover of its line or the lines of its factor on the other side
    changed since the last comparison; other bits would not flip.
    """
    n_words, n_factors, patterns, flips = side.n_words, search.n_factors, other.members, 0
    n_changed = int64(0)
    for k in range(n_factors):
        if side.changed[k]:
            _mark_lines(side, k)
            side.changed[k] = 0
            search.order[n_changed] = k
            n_changed += 1
    for line in range(side.n_lines):
        compares_all = side.stale[line] == 1
        if compares_all:
            _cover_line(search, side, line, patterns)
            side.stale[line] = 0
        bits = advance(side.bits, line * search.n_factor_words)
        ones, zeros = advance(side.ones, line * n_words), advance(side.zeros, line * n_words)
        once, twice = advance(side.once, line * n_words), advance(side.twice, line * n_words)
        index, k = int64(0), int64(-1)
        while True:
            if compares_all:
                k += 1
                if k == n_factors:
                    break
            else:
                if index == n_changed:
                    break
                k = search.order[index]
                index += 1
            is_on = (bits[k >> 6] >> uint64(k & 63)) & _ONE == _ONE
            gain, pattern = 0.0, advance(patterns, k * n_words)
            others = twice if is_on else once
            for word in range(n_words):
                mask = pattern[word] & ~others[word]
                gain += _difference(side, mask, ones[word], zeros[word], word)
            if (gain > _ROUNDING) != is_on:
                bits[k >> 6] ^= _ONE << uint64(k & 63)
                side.members[k * side.n_line_words + (line >> 6)] ^= _ONE << uint64(line & 63)
                _cover_line(search, side, line, patterns)
                other.changed[k] = 1
                side.stale[line] = 1
                compares_all = True
                flips += 1
    return flips


@inner()
def _errors(side):
    """Return the weight of the wrong entries."""
    total = 0.0
    for line in range(side.n_lines):
        wrong = 0
        for index in range(line * side.n_words, (line + 1) * side.n_words):
            missed = _bit_count(side.ones[index] & ~side.once[index])
            wrong += int64(missed + _bit_count(side.zeros[index] & side.once[index]))
        total += wrong * side.weights[line] if side.weighs_lines else wrong
    return total


@inner()
def _flip_factor(search, side, k):
    """Flip the bit of factor k in all of its lines, which become stale."""
    for word in range(side.n_line_words):
        left = side.members[k * side.n_line_words + word]
        while left:
            line = 64 * word + int64(_lowest_bit(left))
            left &= left - _ONE
            side.bits[line * search.n_factor_words + (k >> 6)] ^= _ONE << uint64(k & 63)
            side.stale[line] = 1
    side.changed[k] = 1


@inner()
def _clear_factor(side, k):
    """Remove all lines from factor k."""
    for word in range(side.n_line_words):
        side.members[k * side.n_line_words + word] = 0


@inner()
def _count_uncovered(side, first, last):
    """Return the number of uncovered ones of lines ``first`` to ``last``."""
    total = int64(0)
    for index in range(first * side.n_words, last * side.n_words):
        total += int64(_bit_count(side.ones[index] & ~side.once[index]))
    return total


@inner()
def _find_uncovered(side, first, last, rank):
    """Return line and entry of the uncovered one of a rank in lines ``first`` to ``last``."""
    small_code()
    for line in range(first, last):
        for word in range(side.n_words):
            index = line * side.n_words + word
            left = side.ones[index] & ~side.once[index]
            count = int64(_bit_count(left))
            if rank < count:
                for _ in range(rank):
                    left &= left - _ONE
                return line, 64 * word + int64(_lowest_bit(left))
            rank -= count
    return int64(-1), int64(-1)


@inner()
def _lines_of(side, pattern, lines):
    """Pack the lines that gain from covering the free entries of a pattern; return their gain."""
    total = 0.0
    for word in range(side.n_line_words):
        lines[word] = 0
    for line in range(side.n_lines):
        gain = 0.0
        for word in range(side.n_words):
            index = line * side.n_words + word
            mask = pattern[word] & ~side.once[index]
            gain += _difference(side, mask, side.ones[index], side.zeros[index], word)
        if gain > _ROUNDING:
            total += gain * side.weights[line] if side.weighs_lines else gain
            lines[line >> 6] |= _ONE << uint64(line & 63)
    return total


@inner()
def _seed_factor(search, k, key):
    """Replace factor k by the best of some factors that are seeded by uncovered ones.

    The members of the factor on both sides are written.
    """
    small_code()
    rows, columns, pattern, lines = search.rows, search.columns, search.pattern, search.lines
    n_words, n_line_words, first = rows.n_words, rows.n_line_words, int64(0)
    best_pattern = advance(columns.members, k * n_words)
    best_lines = advance(rows.members, k * n_line_words)
    total = _count_uncovered(rows, first, rows.n_lines)
    best = 0.0
    n_seeds = 1 << _below(key, _N_SEEDS, _DOUBLINGS) if total else 0
    for number in range(n_seeds):
        seed = combine(key, uint64(1 + number))
        row, column = _find_uncovered(rows, first, rows.n_lines, _below(seed, _POSITION, total))
        kind = _below(seed, _KIND, int64(4))
        if kind == 3:
            # All ones of the column, whether covered or not: other factors may leave it then.
            gain = 0.0
            for word in range(n_line_words):
                index = column * n_line_words + word
                lines[word] = columns.ones[index]
                gain -= _difference(
                    columns, columns.once[index], uint64(0), columns.zeros[index], word
                )
            gain += _lines_of(columns, lines, pattern)
        else:
            for word in range(n_words):
                index = row * n_words + word
                pattern[word] = rows.ones[index] & ~rows.once[index]
            if kind == 0:
                for word in range(n_words):
                    pattern[word] = 0
                pattern[column >> 6] = _ONE << uint64(column & 63)
            elif kind == 2:
                count = _count_uncovered(columns, column, column + 1)
                _, other = _find_uncovered(
                    columns, column, column + 1, _below(seed, _BESIDE, count)
                )
                for word in range(n_words):
                    index = other * n_words + word
                    pattern[word] &= rows.ones[index] & ~rows.once[index]
            gain = _lines_of(rows, pattern, lines)
            for _ in range(_below(seed, _N_PASSES, int64(3))):
                _lines_of(columns, lines, pattern)
                gain = _lines_of(rows, pattern, lines)
        if gain > best + _ROUNDING:
            best = gain
            _copy(pattern, best_pattern, n_words)
            _copy(lines, best_lines, n_line_words)

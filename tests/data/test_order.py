from hypothesis import given
from hypothesis import strategies as st

from noisyor.data.order import BlockOrder


@given(st.integers(1, 200), st.integers(1, 50), st.none() | st.integers(0, 5), st.data())
def test_places_are_rows_once_and_blocks_stay_together(n_rows, block, seed, data):
    order = BlockOrder(n_rows, block, seed)
    numbers = order.numbers()
    assert sorted(numbers) == list(range(n_rows))
    whole = n_rows // block * block
    assert all(n % block == place % block for place, n in enumerate(numbers[:whole]))
    assert (numbers[whole:] == range(whole, n_rows)).all()
    begin = data.draw(st.integers(0, n_rows - 1))
    end = data.draw(st.integers(begin + 1, n_rows))
    found = [row for piece in order.pieces(begin, end) for row in range(*piece)]
    assert found == numbers[begin:end].tolist()

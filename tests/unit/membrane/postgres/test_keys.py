from kagura_kernel.membrane.postgres.port import Keys
from kagura_kernel.membrane.postgres.wire import Key


def test_a_key_that_was_told_leads_to_the_real_one_and_shows_nothing_of_it():
    keys = Keys()
    real = Key(4711, 123456)
    told = keys.tell(real)
    assert told != real
    assert keys.real(told) == real


def test_no_other_key_leads_anywhere():
    keys = Keys()
    real = Key(4711, 123456)
    told = keys.tell(real)
    for other in (real, Key(told.process, told.secret ^ 1), Key(told.process ^ 1, told.secret), Key(0, 0)):
        assert keys.real(other) is None
    assert Keys().real(told) is None


def test_a_session_that_is_over_cannot_be_cancelled():
    keys = Keys()
    told = keys.tell(Key(1, 2))
    keys.forget(told)
    keys.forget(told)
    assert keys.real(told) is None
    assert len(keys) == 0


def test_sessions_have_keys_of_their_own():
    keys = Keys()
    told = [keys.tell(Key(1, 2)) for _ in range(500)]
    assert len({key.process for key in told}) == 500
    assert all(0 < key.process < 2**31 and 0 <= key.secret < 2**32 for key in told)

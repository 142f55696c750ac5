"""Two hundred writers are killed at random moments; each leaves one whole save."""
import kill_checks


def test_two_hundred_kills(tmp_path):
    assert kill_checks.kill_writers(str(tmp_path), 200, seed=2) > 50  # of 200; the others were killed too early

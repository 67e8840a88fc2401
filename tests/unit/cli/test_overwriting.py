"""What a command reads it does not write over."""

from pathlib import Path

import pytest

from tests.doubles.traces import write_mixed_trace
from tests.doubles.varied import fitted
from tuner.cli.main import run
from tuner.errors import SpecError


@pytest.mark.parametrize(
    "words",
    [
        ("trace", "thin", "--first", "0", "--last", "0", "--middle", "1", "{trace}"),
        ("fit", "{trace}"),
        ("vary", "--size", "2", "{profile}"),
    ],
)
@pytest.mark.parametrize("is_link", [False, True])
def test_what_is_read_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], is_link: bool
):
    trace = write_mixed_trace(tmp_path / "mixed.trace", 1, 300)
    profile = fitted(trace)
    command = [word.format(trace=trace, profile=profile) for word in words]
    source = output = Path(command[-1])
    before = source.read_bytes()
    if is_link:
        output = tmp_path / "link"
        output.symlink_to(source)

    assert run([*command, "-o", str(output)]) == SpecError.exit_code
    assert "would overwrite what it is made of" in capsys.readouterr().err
    assert source.read_bytes() == before
    assert run([*command, "-o", str(tmp_path / "other")]) == 0

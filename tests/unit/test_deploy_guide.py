"""The files of docs/how-to/deploy-services.md, taken out and read as their readers do."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.doubles.export_readers import (
    dockerfile_environment,
    kubernetes_environment,
    shell_environment,
    systemd_environment,
)
from tests.doubles.places import ROOT
from tuner.allocators import get_allocator
from tuner.cli.main import run as command
from tuner.records import Configuration

PAGE = (ROOT / "docs" / "how-to" / "deploy-services.md").read_text()
FILES = dict(re.findall(r"^```\w+\n# (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
UNITS = "/etc/systemd/system/"
RECORDING = f"{UNITS}app.service.d/record.conf"
EXPORTED = Configuration.of("jemalloc", {"dirty_decay_ms": 1000, "narenas": 2})
VARIABLES = {
    "LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
    **get_allocator("jemalloc").render(EXPORTED, for_export=True),
}


def container() -> dict[str, Any]:
    (found,) = yaml.safe_load(FILES["deployment.yaml"])["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_every_file_is_in_the_page():
    assert sorted(FILES) == sorted(
        [
            f"{UNITS}app.service", f"{UNITS}app.service.d/malloc.conf", RECORDING,
            "Dockerfile", "compose.yaml", "malloc.env", "deployment.yaml",
        ]
    )  # fmt: skip


def test_all_files_give_the_variables_that_export_writes():
    assert systemd_environment(FILES[f"{UNITS}app.service.d/malloc.conf"]) == VARIABLES
    assert dockerfile_environment(FILES["Dockerfile"]) == VARIABLES
    assert dict(line.split("=", 1) for line in FILES["malloc.env"].splitlines()) == VARIABLES
    assert kubernetes_environment(yaml.safe_dump({"env": container()["env"]})) == VARIABLES


def test_a_shell_reads_the_environment_file_alike():
    only_conf = FILES["malloc.env"].replace("LD_PRELOAD", "NOT_PRELOADED")

    found = shell_environment(f"set -a\n{only_conf}")

    assert found["MALLOC_CONF"] == VARIABLES["MALLOC_CONF"]


def test_selector_and_template_of_the_deployment_agree():
    spec = yaml.safe_load(FILES["deployment.yaml"])["spec"]

    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert container()["ports"] == [{"containerPort": 8080}]


def test_compose_reads_the_environment_file():
    (service,) = yaml.safe_load(FILES["compose.yaml"])["services"].values()

    assert service["env_file"] in FILES
    assert service["build"] == "."
    assert "EXPOSE 8080" in FILES["Dockerfile"]


def test_the_recorded_command_is_that_of_the_unit():
    (usual,) = re.findall(r"^ExecStart=(.+)$", FILES[f"{UNITS}app.service"], re.MULTILINE)
    (recorded,) = re.findall(r"^ExecStart=(.+)$", FILES[RECORDING], re.MULTILINE)

    assert recorded.endswith(f"-- {usual}")
    assert set(VARIABLES) <= set(re.findall(r"UnsetEnvironment=(.+)", FILES[RECORDING])[0].split())


def test_options_of_the_page_exist(capsys: pytest.CaptureFixture[str]):
    for name in ("export", "record", "check"):
        lines = re.findall(rf"malloc-tuner {name}([^`\n]*)", PAGE)
        words = {word for line in lines for word in line.partition(" -- ")[0].split()}
        assert command([name, "--help"]) == 0
        text = capsys.readouterr().out
        assert lines
        assert [one for one in words if re.match(r"--?[a-z]", one) and one not in text] == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
@pytest.mark.parametrize("drop_in", ["malloc.conf", "record.conf"])
def test_systemd_takes_the_unit(drop_in: str, tmp_path: Path):
    for name in ("app.service", f"app.service.d/{drop_in}"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        # Their programs need not be installed here.
        path.write_text(re.sub(r"(?m)^ExecStart=/\S+", "ExecStart=/bin/sh", FILES[UNITS + name]))

    done = subprocess.run(
        [
            "systemd-analyze",
            "verify",
            "--man=no",
            "--recursive-errors=no",
            tmp_path / "app.service",
        ],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")
def test_kubectl_takes_the_deployment(tmp_path: Path):
    path = tmp_path / "deployment.yaml"
    path.write_text(FILES["deployment.yaml"])

    listed = subprocess.run(
        ["kubectl", "set", "env", "--local", "-f", path, "--list"],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    rows = [line for line in listed.splitlines() if not line.startswith("#")]
    assert dict(row.split("=", 1) for row in rows) == VARIABLES

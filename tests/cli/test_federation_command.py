"""``pate federation``: files of a federation, what its options refuse, and runs of the real programs."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import stat
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from test_cli import pate

from pate import Ledger
from pate.cli import _federation as command
from pate.cli._app import confirmed
from pate.cli._options import read_job_file, uses_of
from pate.exceptions import FederationError, InvalidInputError
from pate.federation import Member, Members, init_federation, local_members
from pate.federation.demo import answers, running_sites
from pate.models.file import read_model

SITES = ("north@127.0.0.1:7200", "south@127.0.0.1:7300", "west@127.0.0.1:7400")


def init(folder, *sites, coordinator="registry@127.0.0.1:7100", more=()):
    said = [word for site in sites or SITES for word in ("--site", site)]
    return pate("federation", "init", "--out", folder, "--coordinator", coordinator, *said, *more)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_init_writes_who_takes_part_the_authority_and_a_bundle_for_each(tmp_path):
    done = init(tmp_path / "cohort", more=["--json"])
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert set(said["bundles"]) == {"registry", "north", "south", "west"}
    held = tomllib.loads((tmp_path / "cohort" / "sites.toml").read_text())
    assert held["coordinator"] == "registry@127.0.0.1:7100"
    assert held["sites"] == list(SITES)
    members = Members.read(tmp_path / "cohort" / "sites.toml")
    assert [(one.port, one.engine_port) for one in members.sites] == [(7200, 7201), (7300, 7301), (7400, 7401)]
    for name, bundle in said["bundles"].items():
        files = {path.name for path in Path(bundle).iterdir()}
        own = {"party.crt", "party.key", "authority.crt", "sites.toml"}
        assert files == own | ({"site.toml"} if name != "registry" else set())
        assert mode(Path(bundle)) == 0o700
        assert mode(Path(bundle) / "party.key") == 0o600
        assert (Path(bundle) / "sites.toml").read_bytes() == (tmp_path / "cohort" / "sites.toml").read_bytes()
    authority = tmp_path / "cohort" / "authority"
    assert mode(authority) == 0o700
    keys = [path for path in authority.rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()]
    assert [mode(key) for key in keys] == [0o600]
    assert "offline" in (authority / "KEEP-OFFLINE.txt").read_text()


def test_the_fingerprint_is_that_of_the_authority_that_everybody_has(tmp_path):
    import hashlib
    import ssl

    assert init(tmp_path / "cohort").returncode == 0
    members = Members.read(tmp_path / "cohort" / "sites.toml")
    text = (tmp_path / "cohort" / "north" / "authority.crt").read_text()
    assert members.authority == hashlib.sha256(ssl.PEM_cert_to_DER_cert(text)).hexdigest()


def test_init_never_overwrites(tmp_path):
    assert init(tmp_path / "cohort").returncode == 0
    before = {path: path.read_bytes() for path in (tmp_path / "cohort").rglob("*") if path.is_file()}
    done = init(tmp_path / "cohort")
    assert done.returncode == 2
    assert "Keys are never overwritten" in done.stderr
    assert before == {path: path.read_bytes() for path in (tmp_path / "cohort").rglob("*") if path.is_file()}


def test_sites_on_this_machine_have_free_ports_of_their_own(tmp_path):
    assert pate("federation", "init", "--out", tmp_path / "here", "--sites", 4).returncode == 0
    members = Members.read(tmp_path / "here" / "sites.toml")
    ports = [port for one in (members.coordinator, *members.sites) for port in (one.port, one.engine_port)]
    assert len(set(ports)) == 10


@pytest.mark.parametrize(
    ("sites", "text"),
    [
        (["north"], "--site must be NAME@HOST:PORT, got 'north'. Say hospital-a@10.0.0.7:7200"),
        (["north@host:x", *SITES[1:]], "--site must be NAME@HOST:PORT, got 'north@host:x'"),
        (["north@[::1]:7200", *SITES[1:]], "a host is a name or an IPv4 address"),
        (["north@host:0", *SITES[1:]], "--site: ports of north must be 1 to 65535, got (0, 1)"),
        (["north@host:65535", *SITES[1:]], "--site: ports of north must be 1 to 65535, got (65535, 65536)"),
        (["north@host:7200:7200", *SITES[1:]], "port 7200 of host is taken twice"),
        (["North@host:7200", *SITES[1:]], "--site: a name must be up to 63 small letters, digits and hyphens"),
        (["../x@host:7200", *SITES[1:]], "got '../x'"),
        (["authority@host:7200", *SITES[1:]], "and not 'authority'"),
        (["north@ho st:7200", *SITES[1:]], "the host of north must be a name or an IPv4 address, got 'ho st'"),
        (["north@127.0.0.1:7200", "north@127.0.0.1:7300"], "the name 'north' stands twice"),
        (["north@127.0.0.1:7200", "south@127.0.0.1:7201"], "port 7201 of 127.0.0.1 is taken twice"),
        (["registry@127.0.0.1:7200", "south@127.0.0.1:7300"], "the name 'registry' stands twice"),
        (["north@127.0.0.1:7200"], "--sites must be at least 2, got 1"),
    ],
)
def test_init_refuses_in_the_words_of_its_options(tmp_path, sites, text):
    done = init(tmp_path / "cohort", *sites)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "cohort").exists()


def test_init_wants_sites_one_way(tmp_path):
    for words in ((), ("--sites", 3, "--site", SITES[0])):
        done = pate("federation", "init", "--out", tmp_path / "cohort", *words)
        assert done.returncode == 2
        assert "--site must be said once for each site, or --sites N" in done.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("authority = 3", "must have authority, coordinator and a list of sites, and nothing else"),
        ("not toml", "not readable as TOML"),
        ("x" + ".x" * 201 + " = 1", "more than 200 dots"),
        ("\xff", "not readable as TOML"),
    ],
)
def test_a_sites_file_that_is_none_is_refused(tmp_path, text, why):
    (tmp_path / "sites.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidInputError) as refused:
        Members.read(tmp_path / "sites.toml")
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("north@", "Nord@", "got 'Nord'"),
        ("7200", "99999", "ports of north must be 1 to 65535, got (99999, 100000)"),
        ("7300", "7200", "port 7200 of 127.0.0.1 is taken twice"),
        ('"north@127.0.0.1:7200"', "7200", "a member must be NAME@HOST:PORT, got '7200'"),
        ("authority = ", "extra = 1\nauthority = ", "and nothing else"),
        ('authority = "', 'authority = "z', "authority must be 64 hexadecimal digits"),
    ],
)
def test_a_changed_sites_file_says_what_is_wrong(tmp_path, old, new, why):
    assert init(tmp_path / "cohort").returncode == 0
    file = tmp_path / "cohort" / "sites.toml"
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(InvalidInputError) as refused:
        Members.read(file)
    assert why in str(refused.value)


def test_a_port_of_the_engine_can_be_named(tmp_path):
    assert init(tmp_path / "cohort", "north@127.0.0.1:7200:443", *SITES[1:]).returncode == 0
    members = Members.read(tmp_path / "cohort" / "sites.toml")
    assert members.sites[0] == Member("north", "127.0.0.1", 7200, 443)


# The configuration of a site ------------------------------------------------------------------------------------


def test_the_file_to_fill_in_is_read_as_it_stands_and_line_by_line(tmp_path):
    """Every key of the template is one that is known, and what stands behind it is of its kind."""
    assert init(tmp_path / "cohort").returncode == 0
    file, uses = tmp_path / "cohort" / "north" / "site.toml", uses_of(command.SiteOptions)
    assert read_job_file(file, uses) == {}
    filled = [line.removeprefix("# ") for line in file.read_text().splitlines() if " = " in line and line[:2] == "# "]
    keys = [line for line in filled if line.split(" = ")[0].replace("-", "_") in uses]
    file.write_text("\n".join(keys).replace('""', '"x"'))
    assert set(read_job_file(file, uses)) == {name for name, use in uses.items() if not use.not_in_file}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("max-epsilom = 1.0", "has the unknown option 'max-epsilom'. Did you mean 'max-epsilon'?"),
        ('max-epsilon = "1"', "max-epsilon must be a number, got '1'"),
        ("min-sites = 2.5", "min-sites must be a whole number, got '2.5'"),
        ('recipients = "registry"', "recipients must be a list of texts"),
        ("yes = true", "must not hold 'yes': it agrees to whatever is asked"),
    ],
)
def test_a_configuration_says_which_key_is_wrong(tmp_path, line, text):
    (tmp_path / "site.toml").write_text(line + "\n")
    done = pate("federation", "site", "--config", tmp_path / "site.toml")
    assert done.returncode == 2
    assert text in done.stderr, done.stderr


def test_what_a_site_cannot_do_without_is_asked_for(tmp_path):
    assert init(tmp_path / "cohort").returncode == 0
    bundle = tmp_path / "cohort" / "north"
    for key in ("private", "classes", "total-epsilon"):
        done = pate("federation", "site", "--config", bundle / "site.toml")
        assert f"--{key} is missing: write {key} = ... into site.toml" in done.stderr, done.stderr
        said = {"private": '"records.csv"', "classes": '["no", "yes"]', "total-epsilon": "3.0"}[key]
        with (bundle / "site.toml").open("a") as file:
            file.write(f"\n{key} = {said}\n")
    done = pate("federation", "site", "--config", bundle / "site.toml")
    assert "no terminal at which somebody could be asked" in done.stderr
    assert done.returncode == 2


def test_a_bundle_of_another_federation_is_refused(tmp_path):
    assert init(tmp_path / "cohort").returncode == init(tmp_path / "other").returncode == 0
    members = Members.read(tmp_path / "cohort" / "sites.toml")
    assert members.own(tmp_path / "cohort" / "north").name == "north"
    with pytest.raises(InvalidInputError, match="is of another federation"):
        members.own(tmp_path / "other" / "north")


def test_without_the_extra_the_commands_say_what_to_install(tmp_path, monkeypatch):
    from pate._core import curator

    found = curator.find_spec
    monkeypatch.setattr(curator, "find_spec", lambda name: None if name == "mpyc" else found(name))
    for name in [name for name in sys.modules if name.startswith("pate.federation")]:
        monkeypatch.delitem(sys.modules, name)  # as in a process of its own
    ask = ("--public", "x.csv", "--bundle", tmp_path, "--tolerate", 1, "--epsilon", 1, "--out", "labels.csv")
    for words in (("init", "--out", tmp_path / "a", "--sites", 3), ("site",), ("ask", *ask), ("demo",)):
        done = pate("federation", *words, cwd=tmp_path)
        assert done.returncode == 2
        assert "needs mpyc, which is not installed here. Install it: " in done.stderr
        assert 'pip install "pate-privacy[federation]"' in done.stderr
    assert list(tmp_path.iterdir()) == []


# Runs of the real programs --------------------------------------------------------------------------------------


@pytest.fixture
def cohort(tmp_path):
    """Bundles of three sites on this machine, each with records and a configuration; and public rows."""
    rng = np.random.default_rng(0)
    ill = rng.integers(2, size=1_260)
    frame = pd.DataFrame(rng.normal(size=(1_260, 3)) + 3 * ill[:, None], columns=["a", "b", "c"]).round(3)
    frame["ill"] = np.where(ill == 1, "yes", "no")
    asks, three = local_members(3)
    members, bundles = init_federation(tmp_path / "cohort", coordinator=asks, sites=three)
    said = {"private": Path("records.csv"), "target": "ill", "classes": ["no", "yes"], "total_epsilon": 3.0}
    configs = {}
    for i, one in enumerate(members.sites):
        frame.iloc[i * 400 : (i + 1) * 400].to_csv(bundles[one.name] / "records.csv", index=False)
        configs[one] = command.write_site_file(bundles[one.name], **said, max_epsilon=1.0)
    public = frame.iloc[1_200:].drop(columns="ill").reset_index(names="patient")
    public.to_csv(tmp_path / "public.csv", index=False)
    return SimpleNamespace(
        folder=tmp_path, members=members, bundles=bundles, configs=configs, truth=frame["ill"].iloc[1_200:]
    )


def ask(cohort, *more, epsilon=1.0, out="labels.csv", tolerate=1):
    return pate(
        "federation", "ask", "--public", "public.csv", "--id", "patient", "--bundle", cohort.bundles["registry"],
        "--tolerate", tolerate, "--classes", "no,yes", "--epsilon", epsilon, "--delta", 1e-5, "--out", out,
        *more, cwd=cohort.folder,
    )  # fmt: skip


def test_a_site_that_cannot_be_reached_is_named_and_nothing_is_written(cohort):
    done = ask(cohort, "--deadline", 5)
    assert done.returncode == 2
    assert "cannot be reached" in done.stderr
    assert any(one.name in done.stderr for one in cohort.members.sites)
    assert not list(cohort.folder.glob("labels*"))


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (("--tolerate", 2), "--tolerate must be below half of the 4 parties (3 sites and who asks), got 2"),
        (("--out", "public.csv"), "exists. Results are never overwritten"),
        (("--size", "28x28"), "--size is for folders of images. Leave it out."),
        (("--drop", "nothing"), "nothing"),
        (("--sites", "no.toml"), "no.toml cannot be read"),
    ],
)
def test_an_ask_is_refused_before_any_site_is_asked(cohort, more, text):
    done = ask(cohort, *more)
    assert done.returncode == 2
    assert text in done.stderr, done.stderr
    assert "cannot be reached" not in done.stderr


def test_only_the_coordinator_asks(cohort):
    done = ask(cohort, "--bundle", cohort.bundles["site-1"])
    assert "--bundle must be that of the coordinator, registry, got site-1's" in done.stderr


@pytest.mark.long
@pytest.mark.sample
def test_three_sites_and_a_coordinator_from_files_to_labels_and_model(cohort):
    with running_sites(cohort.configs):
        shown = ask(cohort, "--plan")
        assert shown.returncode == 0, shown.stderr
        assert "epsilon 1 against any one party" in shown.stdout
        assert not list(cohort.folder.glob("labels*"))
        done = ask(cohort, "--json")
        assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["plan"]["asks"] == "registry, of 3 sites: site-1, site-2, site-3"
    assert {Path(path).name for path in said["files"]} == {
        "labels.csv", "labels.pate", "labels.statement.json", "labels.statement.txt", "labels.statement.html",
    }  # fmt: skip
    labels = pd.read_csv(cohort.folder / "labels.csv")
    assert list(labels.columns) == ["patient", "row", "label", "status", "confidence"]
    assert np.mean(labels["label"].to_numpy() == cohort.truth.to_numpy()) > 0.9
    assert said["statement"]["guarantee"]["epsilon"] <= 1.0
    assert [one["viewer"] for one in said["statement"]["viewers"]] == ["coalition", "coordinator", "outsider"]
    # The model is that of the labels, and its statement names their file.
    again = pate("predict", "public.csv", "--model", "labels.pate", "--out", "again.csv", "--id", "patient",
                 cwd=cohort.folder)  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert (pd.read_csv(cohort.folder / "again.csv")["label"] == labels["label"]).all()
    model = read_model(cohort.folder / "labels.pate")
    assert model.statement.to_dict() == json.loads((cohort.folder / "labels.statement.json").read_text())
    # Every site charged its own ledger, once, and keeps no key or record anywhere else.
    for one in cohort.members.sites:
        ledger = Ledger(cohort.bundles[one.name] / "records.csv.ledger.sqlite")
        (row,) = ledger.show()
        assert 0.99 < row["epsilon"] <= 1.0
    # The same ask again is answered from what was opened: no site runs any more.
    twice = ask(cohort, out="twice.csv")
    assert twice.returncode == 0, twice.stderr
    assert "Nothing is asked, nothing charged" in twice.stdout
    assert (cohort.folder / "twice.csv").read_bytes() == (cohort.folder / "labels.csv").read_bytes()


@pytest.mark.long
@pytest.mark.parametrize(("says", "agreed"), [("y\n", True), ("n\n", False)])
def test_the_person_at_a_site_sees_the_price_and_decides(cohort, monkeypatch, capsys, says, agreed):
    """The one site that asks runs here; a terminal's other end is a pipe."""
    *others, last = cohort.members.sites
    config = cohort.configs[last]
    config.write_text(config.read_text().replace("max-epsilon", "# max-epsilon"))
    reads, writes = os.pipe()
    os.write(writes, says.encode())
    os.close(writes)
    monkeypatch.setattr(command, "is_interactive", lambda: True)
    terminal = os.fdopen(reads)
    monkeypatch.setattr(sys, "stdin", terminal)
    given = command.SiteOptions(**read_job_file(config, uses_of(command.SiteOptions)), bundle=config.parent)
    site = command._site_of(given)
    thread = threading.Thread(target=site.serve, kwargs={"once": True})
    with running_sites({one: cohort.configs[one] for one in others}):
        thread.start()
        words = [sys.executable, "-m", "pate", "federation", "ask", "--public", "public.csv", "--bundle"]
        words += [
            cohort.bundles["registry"],
            "--id",
            "patient",
            "--tolerate",
            "1",
            "--epsilon",
            "1",
            "--out",
            "labels.csv",
        ]
        done = subprocess.run(words, cwd=cohort.folder, capture_output=True, text=True)
        site.stop()
        thread.join(30)
    terminal.close()
    shown = capsys.readouterr()
    assert "left here   100.0% of epsilon 3" in shown.out
    assert "epsilon 1 against any one party" in shown.out
    assert "Agree? [y/N]" in shown.err
    assert done.returncode == (0 if agreed else 2), done.stderr
    assert ("site-3 does not agree: its operator declined" in done.stderr) == (not agreed)
    assert len(site.ledger.show()) == agreed


@pytest.mark.long
def test_a_run_beyond_the_standing_consent_is_refused_by_name_and_costs_nothing(cohort):
    with running_sites(cohort.configs):
        done = ask(cohort, epsilon=1.5)
        assert done.returncode == 2
        assert "site-2 does not agree: it costs epsilon 1.5 at delta 1e-05, above 1" in done.stderr
        assert "No site was charged." in done.stderr
    assert not list(cohort.folder.glob("labels*"))
    for one in cohort.members.sites:
        assert Ledger(cohort.bundles[one.name] / "records.csv.ledger.sqlite").show() == []


@pytest.mark.long
def test_what_fails_at_a_site_is_told_there_alone_and_costs_nothing_there(cohort):
    """A table without one of the public columns: the coordinator hears which site failed, its operator why."""
    records = cohort.bundles["site-2"] / "records.csv"
    pd.read_csv(records).drop(columns="b").to_csv(records, index=False)
    with running_sites(cohort.configs):
        done = ask(cohort)
    assert done.returncode == 2
    assert "site-2 does not agree: its table lacks columns of the public rows, or has others" in done.stderr
    assert "No site was charged." in done.stderr
    assert "'b'" not in done.stderr
    log = (records.parent / "site.log").read_text()
    assert "warning: site-2: plan failed: the table here lacks ['b']. The public rows have [" in log
    for one in cohort.members.sites:
        assert Ledger(cohort.bundles[one.name] / "records.csv.ledger.sqlite").show() == []


def test_what_was_typed_before_the_question_agrees_to_nothing(monkeypatch, capsys):
    keys, terminal = os.openpty()
    with os.fdopen(terminal) as stdin, os.fdopen(keys, "wb", buffering=0) as person:
        monkeypatch.setattr(sys, "stdin", stdin)
        person.write(b"y\n")
        assert select.select([stdin], [], [], 10)[0]  # it is there to be read
        said = []
        asking = threading.Thread(target=lambda: said.append(confirmed("Agree?", patiently=True)))
        asking.start()
        while "Agree? [y/N]" not in capsys.readouterr().err:
            threading.Event().wait(0.01)
        person.write(b"n\n")
        asking.join(10)
        assert said == [False]


def test_an_ask_that_is_interrupted_says_who_was_charged(cohort, monkeypatch):
    def stopped(job, **how):
        error = KeyboardInterrupt()
        error.add_note("Charged, and stays so: site-1; not charged: site-2, site-3.")
        raise error

    monkeypatch.setattr("pate.federation.AskJob.run", stopped)
    given = {
        "public": cohort.folder / "public.csv", "id": "patient", "bundle": cohort.bundles["registry"], "tolerate": 1,
        "epsilon": 1.0, "out": cohort.folder / "labels.csv",
    }  # fmt: skip
    with pytest.raises(FederationError, match=r"^interrupted\. Charged, and stays so: site-1; not charged: site-2"):
        command.ask(context=None, **given)


@pytest.mark.long
def test_the_demo_leaves_a_page_and_no_process(tmp_path):
    done = pate("federation", "demo", "--sites", 3, "--out", tmp_path / "demo", "--json")
    assert done.returncode == 0, done.stderr
    right = {who: share for who, _, share in json.loads(done.stdout)["accuracies"]}
    assert right["all 3 sites, by secure sums"] > 0.85
    page = (tmp_path / "demo" / "federation.html").read_text()
    for words in ("site-1 has", "registry got", "registry opens", "everybody else", "any one party"):
        assert words in page
    own, share, opened, label = map(float, re.findall(r"largest: ([0-9.]+)", page)[:4])
    assert 0 < own < opened  # of one site, and of all
    assert 0.9 < share <= 1  # uniform over the field
    assert label == 1
    for member in Members.read(tmp_path / "demo" / "sites.toml").sites:
        assert not answers(member)


@pytest.mark.long
@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_ends_all_that_it_started(tmp_path, how):
    words = [sys.executable, "-m", "pate", "federation", "demo", "--sites", "3", "--out", str(tmp_path / "demo")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        for line in demo.stdout:
            if "round 1 of" in line:
                break
        demo.send_signal(how)
        demo.communicate(timeout=60)
    assert demo.returncode != 0
    for member in Members.read(tmp_path / "demo" / "sites.toml").sites:
        assert not answers(member)

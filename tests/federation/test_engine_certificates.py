"""Certificates of a federation: each names one party, keys are secret, and no name is given twice."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from pate.exceptions import InvalidInputError
from pate.federation import issue, make_authority
from pate.federation._config import names_in


@pytest.fixture
def authority(tmp_path):
    return make_authority(tmp_path / "authority")


def mode(path):
    return path.stat().st_mode & 0o777


def test_keys_are_for_their_owner_alone_and_the_authoritys_is_kept_apart(authority):
    bundle = issue(authority, "hospital-a")
    assert [mode(p) for p in (authority, authority / "private", bundle.key.parent)] == [0o700] * 3
    assert mode(bundle.key) == mode(authority / "private" / "authority.key") == 0o600
    secret = (authority / "private" / "authority.key").read_bytes()
    assert sorted(p.name for p in bundle.key.parent.iterdir()) == ["authority.crt", "party.crt", "party.key"]
    assert not [p for p in bundle.key.parent.iterdir() if p.read_bytes() == secret]


def test_a_certificate_names_its_party_and_is_good_for_both_ends_for_a_year(authority):
    bundle = issue(authority, "hospital-a", hosts=["node1.hospital.example", "192.0.2.7"])
    assert names_in(bundle.certificate) == {"hospital-a", "node1.hospital.example"}
    found = x509.load_pem_x509_certificate(bundle.certificate.read_bytes())
    root = x509.load_pem_x509_certificate(bundle.authority.read_bytes())
    found.verify_directly_issued_by(root)
    assert found.public_key().curve.name == root.public_key().curve.name == "secp256r1"
    now = datetime.now(UTC)
    assert now - timedelta(hours=2) < found.not_valid_before_utc < now
    assert timedelta(days=365) < found.not_valid_after_utc - now < timedelta(days=400)
    assert found.not_valid_after_utc < root.not_valid_after_utc
    constraints = [c.extensions.get_extension_for_class(x509.BasicConstraints).value for c in (found, root)]
    assert [(c.ca, c.path_length) for c in constraints] == [(False, None), (True, 0)]
    uses = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert {use._name for use in uses} == {"serverAuth", "clientAuth"}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(bundle.certificate, bundle.key)


@pytest.mark.parametrize("again", ["hospital-a", "node1"])
def test_no_name_is_given_twice(authority, again):
    issue(authority, "hospital-a", hosts=["node1"])
    for name, hosts in ((again, []), ("hospital-b", ["hospital-a"])):
        with pytest.raises(InvalidInputError, match="is the name of a party"):
            issue(authority, name, hosts=hosts)
    assert issue(authority, "hospital-b").certificate.parent.name == "hospital-b"


@pytest.mark.parametrize(
    "name",
    ["", "Hospital-A", "hospital a", "*.example.org", "../up", "a" * 64, "10.0.0.1", "-a", "\u00f4tel", "a..b", 7],
)
def test_names_that_could_be_mistaken_are_refused(authority, name):
    with pytest.raises(InvalidInputError, match="party's name"):
        issue(authority, name)
    with pytest.raises(InvalidInputError, match="party's name"):
        issue(authority, "hospital-a", hosts=["good", name if name != "10.0.0.1" else "*"])
    assert not (authority / "parties").exists()


def test_an_authority_is_made_once(authority, tmp_path):
    before = (authority / "authority.crt").read_bytes()
    with pytest.raises(InvalidInputError, match="holds an authority already"):
        make_authority(authority)
    assert (authority / "authority.crt").read_bytes() == before
    with pytest.raises(InvalidInputError, match="holds no authority"):
        issue(tmp_path, "hospital-a")
    bundle = issue(authority, "hospital-a").key.parent  # which holds a certificate of that name
    with pytest.raises(InvalidInputError, match="holds an authority already"):
        make_authority(bundle)
    assert (bundle / "authority.crt").read_bytes() == before
    assert not (bundle / "private").exists()


def test_a_file_that_names_nobody_is_no_certificate(authority, tmp_path):
    for path in (tmp_path / "missing.crt", authority / "authority.crt", authority / "private" / "authority.key"):
        with pytest.raises(InvalidInputError, match="no certificate that names anybody"):
            names_in(path)
